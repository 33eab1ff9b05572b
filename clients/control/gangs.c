/* SPDX-License-Identifier: Apache-2.0
 *
 * gangs.c - gangs that run by themselves: jobs with an id made of the name, whose driver is `manta run`.
 */
#include "clients/control/control.h"
#include "core/base/limits/gang.h"
#include "core/base/reserved.h"

#include <stdlib.h>
#include <string.h>

#define ID "gang-" /* and the name */
enum { WORDS_MAX = 1024 };

static bool id_make(const char *name, char out[64])
{
    size_t size = name ? strlen(name) : 0;
    if (size == 0 || size + sizeof ID > 64 || size >= MT_GANG_NAME_BYTES_MAX || name[strcspn(name, " \t\n/")])
        return false;
    snprintf(out, 64, "%s%s", ID, name);
    return true;
}

static manta_status bad_name(manta_error *e)
{
    return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "the name of a gang has 1 to %d letters, without spaces or slashes",
                    (int)(63 - strlen(ID)));
}

/* manta-run --name NAME [--files .] OPTION... -- COMMAND... */
static bool words_make(const manta_gang *gang, const char **words)
{
    size_t n = 0;
    words[n++] = "manta-run";
    words[n++] = "--name";
    words[n++] = gang->name;
    if (gang->files && gang->files[0]) {
        words[n++] = "--files";
        words[n++] = ".";
    }
    for (const char *const *w = gang->options; w && *w && n < WORDS_MAX - 2; w++)
        words[n++] = *w;
    words[n++] = "--";
    for (const char *const *w = gang->argv; *w && n < WORDS_MAX; w++)
        words[n++] = *w;
    words[n] = NULL;
    return n < WORDS_MAX;
}

/* One of that name that has ended makes room. */
static manta_status former_forget(manta_client *client, const char *id, manta_error *e)
{
    manta_job_info job;
    manta_status   st = manta_job_get(client, id, &job, e);
    if (st == MT_ENOENT)
        return MANTA_OK;
    if (st != MANTA_OK)
        return st;
    if (!job.ended_ms)
        return ctl_fail(e, MT_EEXIST, MANTA_NOT_DONE, "a gang named %s is there already, and has not ended", id + strlen(ID));
    return manta_job_delete(client, id, e);
}

manta_status manta_gang_submit(manta_client *client, const manta_gang *gang, manta_error *e)
{
    char         id[64];
    const char  *words[WORDS_MAX + 1];
    manta_status st = MANTA_OK;
    if (!gang || !gang->argv || !gang->argv[0])
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "manta_gang_submit: name the program to run");
    if (MT_RESERVED_IS_USED(gang))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, MT_RESERVED_TEXT, "manta_gang_submit");
    if (!id_make(gang->name, id))
        return bad_name(e);
    if (!words_make(gang, words))
        return ctl_fail(e, MT_EINVAL, MANTA_NOT_DONE, "the gang has more than %d words", WORDS_MAX);
    st = former_forget(client, id, e);
    if (st != MANTA_OK)
        return st;
    manta_job job = {.id = id, .name = gang->name, .argv = words, .files = gang->files, .env = gang->env, .retries = gang->retries};
    return manta_job_submit(client, &job, e);
}

/* What a call of its job has given. Of one that is not there the caller hears the name that he gave, and not the job's id. */
static manta_status told(manta_status st, const char *name, manta_error *e)
{
    if (st != MT_ENOENT)
        return st;
    return ctl_fail(e, MT_ENOENT, MANTA_NOT_DONE, "no gang is named %s; ended ones are listed for a while only", name);
}

manta_status manta_gang_get(manta_client *client, const char *name, manta_job_info *out_info, manta_error *e)
{
    char id[64];
    return id_make(name, id) ? told(manta_job_get(client, id, out_info, e), name, e) : bad_name(e);
}

manta_status manta_gang_follow(manta_client *client, const char *name, int (*line)(void *user, const manta_log *log), void *user,
                               manta_error *e)
{
    char id[64];
    return id_make(name, id) ? told(manta_job_follow(client, id, line, user, e), name, e) : bad_name(e);
}

manta_status manta_gang_wait(manta_client *client, const char *name, int64_t timeout_ms, manta_job_info *out_info, manta_error *e)
{
    char id[64];
    return id_make(name, id) ? told(manta_job_wait(client, id, timeout_ms, out_info, e), name, e) : bad_name(e);
}

manta_status manta_gang_stop(manta_client *client, const char *name, manta_error *e)
{
    char id[64];
    return id_make(name, id) ? told(manta_job_stop(client, id, e), name, e) : bad_name(e);
}

manta_status manta_gang_list(manta_client *client, manta_job_info **out_jobs, size_t *out_count, manta_error *e)
{
    size_t       all, kept = 0;
    manta_status st = manta_job_list(client, out_jobs, out_count ? &all : NULL, e);
    if (st != MANTA_OK)
        return st;
    for (size_t i = 0; i < all; i++)
        if (strncmp((*out_jobs)[i].id, ID, strlen(ID)) == 0)
            (*out_jobs)[kept++] = (*out_jobs)[i];
    *out_count = kept;
    return MANTA_OK;
}
