/* SPDX-License-Identifier: Apache-2.0
 *
 * env.c - the files of runtime environments, unpacked once a node: one folder for each archive, by its SHA-256.
 *
 * Owns: every struct sh_folder, its folder on the disk, and the thread that unpacks and removes.
 * Thread: the loop; rlt_unpack and mt_tree_remove run on the disk thread, which has one job at a time, in order.
 * Always: a folder stays as long as an environment of this node uses it, and goes at once after that. What leads out of
 * the folder, or is not what the SHA-256 says, is refused, and nothing of it stays.
 */
#include "raylet/shell/jobs/jobs.h"
#include "raylet/files/tree.h"

#include "core/sha/sha256.h"
#include "core/base/limits/env.h"
#include "core/sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct sh_folder {
    char     path[400];
    uint8_t  sha256[MT_SHA256_SIZE];
    uint64_t bytes;
    uint32_t uses;
    bool     is_made;
    MT_VEC(uint64_t) waiting; /* environments to be told */
};

struct sh_envs {
    struct sh        *sh;
    struct io_worker *worker;
    char              base[256];
    uint64_t          bytes;   /* of all folders */
    mt_map            folders; /* first bytes of the SHA-256 -> sh_folder */
    mt_map            users;   /* number of an environment -> sh_folder */
};

struct disk_job {
    struct io_job     job;
    struct sh_envs   *envs;
    struct sh_folder *folder; /* NULL: remove `path` */
    char              path[400];
    int               fd;
    bool              has_failed;
    char              text[MT_ENV_TEXT_BYTES_MAX];
};

/* ---- the disk thread ---- */

static void make_work(struct io_job *job)
{
    struct disk_job *d = mt_container_of(job, struct disk_job, job);
    d->has_failed = !rlt_unpack(d->fd, d->folder->bytes, d->folder->sha256, d->path, d->text, sizeof d->text);
}

static void remove_work(struct io_job *job)
{
    mt_tree_remove(mt_container_of(job, struct disk_job, job)->path);
}

static void remove_done(struct io_job *job)
{
    free(mt_container_of(job, struct disk_job, job));
}

/* ---- the loop ---- */

static mt_id folder_key(const uint8_t sha256[MT_SHA256_SIZE])
{
    uint64_t key;
    memcpy(&key, sha256, sizeof key);
    return mt_map_key(key);
}

/* Made in that folder; or `wrong` says why it is not. */
static void tell(struct sh *sh, uint64_t env, const char *folder, const char *wrong)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_ENV_MADE);
    e.env_made.env = env;
    e.env_made.folder = folder ? sh_keep_text(sh, folder) : NULL;
    e.env_made.wrong = wrong ? sh_keep_text(sh, wrong) : NULL;
    sh_post(sh, &e);
}

static void folder_forget(struct sh_envs *envs, struct sh_folder *f)
{
    envs->bytes -= f->bytes;
    mt_map_remove(&envs->folders, folder_key(f->sha256));
    mt_vec_fini(&f->waiting);
    free(f);
}

/* Nobody uses it any more. Without memory for the job it stays until this raylet leaves. */
static void folder_remove(struct sh_envs *envs, struct sh_folder *f)
{
    struct disk_job *d = calloc(1, sizeof *d);
    if (d) {
        snprintf(d->path, sizeof d->path, "%s", f->path);
        d->job.work = remove_work;
        d->job.done = remove_done;
        if (io_worker_submit(envs->worker, &d->job).code)
            free(d);
    }
    folder_forget(envs, f);
}

static void make_done(struct io_job *job)
{
    struct disk_job  *d = mt_container_of(job, struct disk_job, job);
    struct sh_envs   *envs = d->envs;
    struct sh_folder *f = d->folder;
    f->is_made = !d->has_failed;
    f->uses++; /* ours, while others are told */
    close(d->fd);
    for (size_t i = 0; i < f->waiting.count; i++)
        if (d->has_failed)
            mt_map_remove(&envs->users, mt_map_key(f->waiting.data[i]));
    while (f->waiting.count) {
        uint64_t number = f->waiting.data[--f->waiting.count];
        tell(envs->sh, number, d->has_failed ? NULL : f->path, d->has_failed ? d->text : NULL);
    }
    if (d->has_failed)
        folder_forget(envs, f);
    else if (--f->uses == 0)
        folder_remove(envs, f);
    free(d);
}

static const char *envs_start(struct sh *sh)
{
    struct sh_envs *envs = calloc(1, sizeof *envs);
    const char     *why = "no memory";
    if (!envs || io_worker_new(sh->loop, MT_ENV_JOBS_MAX, &envs->worker).code)
        goto err_free;
    why = "this node has no folder for it";
    if (!sh->options.dir || rlt_tree_base(sh->options.dir, "env", false, envs->base, sizeof envs->base).code)
        goto err_worker;
    mt_tree_remove(envs->base); /* what a raylet that was killed has left */
    if (mkdir(envs->base, 0700) < 0)
        goto err_worker;
    envs->sh = sh;
    sh->envs = envs;
    return NULL;
err_worker:
    io_worker_free(envs->worker);
err_free:
    free(envs);
    return why;
}

static const char *folder_start(struct sh_envs *envs, const struct rlt_a_env_make *a, struct sh_folder **out)
{
    if (envs->sh->options.users.count)
        return "files of a runtime environment are root's, and the job runs as another user (--job-users)";
    struct sh_folder *f = calloc(1, sizeof *f);
    struct disk_job  *d = calloc(1, sizeof *d);
    char              hex[MT_SHA256_HEX_SIZE];
    if (!f || !d || (d->fd = dup(a->archive)) < 0)
        goto err_free;
    mt_sha256_hex(a->sha256, hex);
    snprintf(f->path, sizeof f->path, "%s/%.32s", envs->base, hex);
    snprintf(d->path, sizeof d->path, "%s", f->path);
    memcpy(f->sha256, a->sha256, sizeof f->sha256);
    f->bytes = a->size;
    d->envs = envs;
    d->folder = f;
    d->job.work = make_work;
    d->job.done = make_done;
    if (mt_map_put_ptr(&envs->folders, folder_key(f->sha256), f).code)
        goto err_close;
    if (io_worker_submit(envs->worker, &d->job).code) {
        mt_map_remove(&envs->folders, folder_key(f->sha256));
        goto err_close;
    }
    envs->bytes += f->bytes;
    *out = f;
    return NULL;
err_close:
    close(d->fd);
err_free:
    free(f);
    free(d);
    return "no memory, or no descriptor";
}

/* Finds or begins the folder, and notes who uses it. */
static const char *folder_use(struct sh *sh, const struct rlt_a_env_make *a, struct sh_folder **out)
{
    const char       *why = sh->envs ? NULL : envs_start(sh);
    struct sh_folder *f = why ? NULL : mt_map_ptr(&sh->envs->folders, folder_key(a->sha256));
    if (why)
        return why;
    if (f && memcmp(f->sha256, a->sha256, sizeof f->sha256))
        return "its SHA-256 begins like that of another";
    if (!f && sh->envs->bytes + a->size > (uint64_t)MT_ENV_CACHE_MIB_MAX << 20)
        return "the files of all runtime environments of this node would be too large";
    if (!f && (why = folder_start(sh->envs, a, &f)))
        return why;
    if (mt_map_put_ptr(&sh->envs->users, mt_map_key(a->env), f).code || mt_vec_reserve(&f->waiting, 1).code)
        return "no memory"; /* the folder goes when it has been made */
    f->uses++;
    *out = f;
    return NULL;
}

void sh_env_make(struct sh *sh, const struct rlt_a_env_make *a)
{
    struct sh_folder *f = NULL;
    const char       *why = folder_use(sh, a, &f);
    if (why)
        tell(sh, a->env, NULL, why);
    else if (f->is_made)
        tell(sh, a->env, f->path, NULL);
    else
        (void)mt_vec_push(&f->waiting, a->env).code; /* there is room */
}

void sh_env_drop(struct sh *sh, uint64_t env)
{
    struct sh_envs   *envs = sh->envs;
    struct sh_folder *f = envs ? mt_map_ptr(&envs->users, mt_map_key(env)) : NULL;
    if (!f)
        return;
    mt_map_remove(&envs->users, mt_map_key(env));
    for (size_t i = 0; i < f->waiting.count; i++)
        if (f->waiting.data[i] == env)
            mt_vec_remove_swap(&f->waiting, i);
    if (--f->uses == 0 && f->is_made)
        folder_remove(envs, f);
}

void sh_envs_stop(struct sh *sh)
{
    struct sh_envs *envs = sh->envs;
    if (!envs)
        return;
    io_worker_free(envs->worker);
    MT_MAP_EACH(&envs->folders, entry) {
        struct sh_folder *f = entry->value.ptr;
        mt_vec_fini(&f->waiting);
        free(f);
    }
    mt_map_fini(&envs->folders);
    mt_map_fini(&envs->users);
    mt_tree_remove(envs->base);
    free(envs);
    sh->envs = NULL;
}
