/* SPDX-License-Identifier: Apache-2.0
 *
 * array.c - arrays: one submission that becomes many jobs, each with an index, a log and an end of its own. The array itself is
 * nothing but their common name, and how many of them are in which state.
 *
 * Owns:    h->arrays.
 * Always:  an array is there as long as one of its jobs is, and what in their specs is its id is its own text.
 */
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/jobs/private.h"

#include <stdlib.h>

const struct array *head_array_find(const struct head *h, const char *id)
{
    struct head_index_node *at = head_index_find(&h->arrays, id);
    return at ? mt_container_of(at, struct array, at) : NULL;
}

/* 10,000 of them need no text each. What is not empty is the heap's. */
static void share(char **text, char *id)
{
    if (strcmp(*text, id) != 0)
        return;
    free(*text);
    *text = id;
}

/* The spec goes next. */
static void unshare(char **text, const char *id)
{
    if (*text == id)
        *text = (char *)(uintptr_t)protobuf_c_empty_string;
}

void head_array_enter(struct head *h, struct job *job)
{
    struct array *a = (struct array *)(uintptr_t)head_array_find(h, job->spec->array_id);
    if (job->spec->array_id[0] == '\0')
        return;
    if (!a) {
        if (!(a = calloc(1, sizeof *a))) {
            head_broken(h, mt_error(MT_ENOMEM, 0, "make an array"));
            return;
        }
        snprintf(a->id, sizeof a->id, "%s", job->spec->array_id);
        a->most = job->spec->array_most;
        HEAD_TRY(h, head_index_add(&h->arrays, &a->at, a->id));
    }
    job->array = a;
    share(&job->spec->array_id, a->id);
    share(&job->spec->name, a->id); /* as it is called where its user gave it no name */
    a->in[job->state]++;
    mt_sorted_add(&a->jobs, &job->in_array, job->order);
}

void head_array_leave(struct head *h, struct job *job)
{
    struct array *a = job->array;
    if (!a)
        return;
    job->array = NULL;
    unshare(&job->spec->array_id, a->id);
    unshare(&job->spec->name, a->id);
    a->in[job->state]--;
    mt_sorted_remove(&a->jobs, &job->in_array);
    if (a->jobs.count)
        return;
    head_index_remove(&h->arrays, &a->at);
    free(a);
}

size_t head_array_each(struct head *h, const char *id, void (*fn)(struct head *h, struct job *job, void *user), void *user)
{
    const struct array *a = head_array_find(h, id);
    const size_t        count = a ? a->jobs.count : 0;
    mt_sorted_node     *at = a ? mt_sorted_first(&a->jobs) : NULL;
    for (size_t i = 0; i < count; i++) { /* none leaves by what is done to it: an ended one is still there */
        fn(h, mt_container_of(at, struct job, in_array), user);
        at = mt_sorted_after(&a->jobs, at->key);
    }
    return count;
}

void head_array_env(struct head *h, const job_spec *spec, struct head_array_env *out)
{
    const size_t count = spec->n_env;
    out->spec = *spec;
    out->env = NULL;
    if (!spec->array_id[0])
        return;
    if (!(out->env = calloc(count + 3, sizeof(char *)))) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "start a job of an array"));
        return;
    }
    if (count)
        memcpy(out->env, spec->env, count * sizeof(char *));
    snprintf(out->lines[0], sizeof out->lines[0], "MANTA_ARRAY_ID=%s", spec->array_id);
    snprintf(out->lines[1], sizeof out->lines[1], "MANTA_ARRAY_INDEX=%u", spec->array_index);
    snprintf(out->lines[2], sizeof out->lines[2], "MANTA_ARRAY_COUNT=%u", spec->array_count);
    for (size_t i = 0; i < 3; i++)
        out->env[count + i] = out->lines[i];
    out->spec.env = out->env;
    out->spec.n_env = count + 3;
}

/* ---- which indices ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* NULL, or what is wrong with it. */
static const char *ranges_check(const Manta__V1__SubmitRequest *r)
{
    uint64_t count = 0;
    for (size_t i = 0; i < r->n_indices; i++) {
        const Manta__V1__IndexRange *range = r->indices[i];
        if (range->step == 0 || range->step > MT_HEAD_ARRAY_INDEX_MAX || range->first > range->last ||
            range->last > MT_HEAD_ARRAY_INDEX_MAX)
            return "an array's indices are ranges of 0 to 999999, with a step of 1 at least";
        count += (range->last - range->first) / range->step + 1;
        if (count > MT_HEAD_ARRAY_MAX)
            return "an array has at most 10000 jobs";
    }
    return count == r->spec->array_count ? NULL : "an array has as many indices as jobs";
}

int32_t head_array_indices(struct head *h, const Manta__V1__SubmitRequest *r, uint32_t **out, char *text, size_t size)
{
    const char *wrong = r->n_indices ? ranges_check(r) : NULL;
    size_t      count = 0;
    *out = NULL;
    if (wrong) {
        snprintf(text, size, "job \"%.64s\": %s", r->spec->id, wrong);
        return MT_EINVAL;
    }
    if (!r->n_indices)
        return MT_OK;
    uint32_t *indices = calloc(r->spec->array_count, sizeof *indices);
    if (!indices) {
        head_broken(h, mt_error(MT_ENOMEM, 0, "make an array"));
        return MT_ENOMEM;
    }
    for (size_t i = 0; i < r->n_indices; i++)
        for (uint32_t at = r->indices[i]->first; at <= r->indices[i]->last; at += r->indices[i]->step)
            indices[count++] = at;
    qsort(indices, count, sizeof *indices, by_number);
    for (size_t i = 1; i < count; i++)
        if (indices[i] == indices[i - 1]) {
            snprintf(text, size, "job \"%.64s\": its array has index %u twice", r->spec->id, indices[i]);
            free(indices);
            return MT_EINVAL;
        }
    *out = indices;
    return MT_OK;
}

bool head_array_has(const struct array *a, const uint32_t *indices, uint32_t count)
{
    for (mt_sorted_node *at = mt_sorted_first(&a->jobs); at; at = mt_sorted_after(&a->jobs, at->key)) {
        uint32_t index = mt_container_of(at, struct job, in_array)->spec->array_index;
        if (indices ? !bsearch(&index, indices, count, sizeof index, by_number) : index >= count)
            return false;
    }
    return true;
}

/* ---- what each is ---- */

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
    if (!set_text(&spec->array_id, array->id) || !set_text(&spec->id, id)) {
        manta__v1__job_spec__free_unpacked(spec, NULL);
        return mt_error(MT_ENOMEM, 0, "make a job of an array");
    }
    *out_spec = spec;
    return mt_ok();
}
