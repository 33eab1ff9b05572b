/* SPDX-License-Identifier: Apache-2.0
 *
 * array.c - arrays: one submission that becomes many jobs, each with an index, a log and an end of its own. The array itself is
 * nothing but their common name.
 */
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"

#include <stdlib.h>

size_t head_array_each(struct head *h, const char *id, void (*fn)(struct head *h, struct job *job, void *user), void *user)
{
    size_t count = 0;
    for (struct head_index_node *at = h->jobs.first, *next; at; at = next) {
        struct job *job = mt_container_of(at, struct job, at);
        next = at->next;
        if (strcmp(job->spec->array_id, id) != 0)
            continue;
        count++;
        if (fn)
            fn(h, job, user);
    }
    return count;
}

static char *line(const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char  *text = malloc(size);
    if (text)
        snprintf(text, size, "%s=%s", name, value);
    return text;
}

/* What each job of an array is told. A name that the user has set himself comes first, and so counts. */
static bool add_env(job_spec *spec, const char *array_id, uint32_t index, uint32_t count)
{
    char   index_text[16], count_text[16];
    char **env = realloc(spec->env, (spec->n_env + 3) * sizeof(char *));
    if (!env)
        return false;
    snprintf(index_text, sizeof index_text, "%u", index);
    snprintf(count_text, sizeof count_text, "%u", count);
    spec->env = env;
    const char *const lines[3][2] = {
        {"MANTA_ARRAY_ID", array_id}, {"MANTA_ARRAY_INDEX", index_text}, {"MANTA_ARRAY_COUNT", count_text}};
    for (int i = 0; i < 3; i++)
        if (!(env[spec->n_env] = line(lines[i][0], lines[i][1])))
            return false;
        else
            spec->n_env++;
    return true;
}

/* Texts of protobuf-c that are empty are not the heap's. */
static bool set_text(char **text, const char *with)
{
    char *copy = strdup(with);
    if (!copy)
        return false;
    if (*text != protobuf_c_empty_string)
        free(*text);
    *text = copy;
    return true;
}

mt_status head_array_spec(const job_spec *array, uint32_t index, job_spec **out_spec)
{
    char      id[HEAD_JOB_ID_SIZE + 16];
    job_spec *spec;
    MT_TRY(head_spec_copy(array, &spec));
    snprintf(id, sizeof id, "%s.%u", array->id, index);
    spec->array_index = index;
    if (!set_text(&spec->array_id, array->id) || !set_text(&spec->id, id) || !add_env(spec, array->id, index, array->array_count)) {
        manta__v1__job_spec__free_unpacked(spec, NULL);
        return mt_error(MT_ENOMEM, 0, "make a job of an array");
    }
    *out_spec = spec;
    return mt_ok();
}
