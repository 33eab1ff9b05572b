/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.c - see cache.h and README.md.
 *
 * Owns: struct sh_cache, its folder on the disk, and who uses what of it. Thread: the loop.
 * Always: a program is in `programs` only when it is whole; one that is being received, or stands in the installation, is its job's
 * alone. Of an installation nothing is changed.
 */
#include "raylet/shell/cache/cache.h"

#include "raylet/shell/cache/own.h"
#include "raylet/shell/cache/sums.h"
#include "raylet/shell/ground/ground.h"
#include "raylet/files/tree.h"

#include "core/base/log.h"
#include "core/sha/sha256.h"
#include "core/base/limits/env.h"
#include "core/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    FOLDER_SIZE = 320,
    GATHER_BYTES = 4 * RLT_FILE_CHUNK, /* written at a time: whole pages, of which a part costs the kernel as much as all of it */
};
static_assert(GATHER_BYTES % 4096 == 0, "whole pages");

static const char in_memory[] = "run from memory, without the libraries beside it: mounted noexec";

struct program {
    uint8_t                   key[MT_SHA256_SIZE]; /* the SHA-256 of its list */
    char                      folder[FOLDER_SIZE];
    struct peer_program_file *list;
    bool                     *is_own;       /* of each: it is a file of this node's installation, or a link to one */
    bool                      is_installed; /* all are: `folder` is that of the installation, which others own */
    uint32_t                  count;
    uint64_t                  bytes;
    uint32_t                  uses;
    uint64_t                  used_at; /* when it was last let go, in drops */
    bool                      is_whole;
};

/* A job of another node's driver. */
struct use {
    uint64_t        job;
    struct program *program;
    int             fd; /* of the file that is being received, or (in memory) was; -1: none */
    uint32_t        next;
    uint64_t        have;     /* bytes of it that have come */
    uint8_t        *gathered; /* the last of them, which are not written yet; NULL: no file is being received */
    size_t          gathered_size;
    mt_sha256       sha;
};

struct sh_cache {
    struct sh        *sh;
    struct io_worker *worker;
    char              base[256]; /* "": none yet */
    bool              is_in_memory;
    uint64_t          bytes; /* of all programs, those being received included */
    uint64_t          folders, drops;
    mt_map            programs; /* first bytes of the key -> program */
    mt_map            uses;     /* job -> use */
    mt_map            refused;  /* sums of files that this installation only seemed to have: they are sent */
};

struct removal {
    struct io_job job;
    char          folder[FOLDER_SIZE];
};

/* ---- folders ------------------------------------------------------------------------------------------------------- */

static int close_down(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)at;
    return type == FTW_DP && chmod(path, 0555) < 0;
}

static void removal_work(struct io_job *job)
{
    mt_tree_remove(mt_container_of(job, struct removal, job)->folder);
}

static void removal_done(struct io_job *job)
{
    free(mt_container_of(job, struct removal, job));
}

/* Without memory for the job it stays until this raylet leaves. */
static void remove_later(struct sh_cache *cache, const char *folder)
{
    struct removal *d = calloc(1, sizeof *d);
    if (!d)
        return;
    snprintf(d->folder, sizeof d->folder, "%s", folder);
    d->job.work = removal_work;
    d->job.done = removal_done;
    if (io_worker_submit(cache->worker, &d->job).code)
        free(d);
}

static const char *base_make(struct sh_cache *cache)
{
    const struct rlt_options *o = &cache->sh->options;
    struct statvfs            fs;
    if (cache->base[0] || cache->is_in_memory)
        return NULL;
    if (!o->dir || rlt_tree_base(o->dir, "programs", o->users.count != 0, cache->base, sizeof cache->base).code)
        return "this node has no folder for it";
    mt_tree_remove(cache->base); /* what a raylet that was killed has left */
    if (mkdir(cache->base, 0700) < 0 || chmod(cache->base, o->users.count ? 0711 : 0700) < 0)
        return "its folder on this node can't be made";
    cache->is_in_memory = statvfs(cache->base, &fs) == 0 && (fs.f_flag & ST_NOEXEC);
    if (!cache->is_in_memory)
        return NULL;
    mt_log(MT_LOG_WARN, "programs_in_memory", "folder=%s why=\"mounted noexec: libraries beside a program are not found\"",
           cache->base);
    mt_tree_remove(cache->base);
    return NULL;
}

static struct sh_cache *cache_get(struct sh *sh)
{
    struct sh_cache *cache = sh->cache;
    if (cache)
        return cache;
    cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->sh = sh;
    if (io_worker_new(sh->loop, MT_PROGRAM_CHECKS_MAX, &cache->worker).code) {
        free(cache);
        return NULL;
    }
    return sh->cache = cache;
}

/* ---- programs ------------------------------------------------------------------------------------------------------ */

static mt_id program_key(const uint8_t key[MT_SHA256_SIZE])
{
    uint64_t begin;
    memcpy(&begin, key, sizeof begin);
    return mt_map_key(begin);
}

static bool is_known(const struct sh_cache *cache, const struct program *p)
{
    return mt_map_ptr(&cache->programs, program_key(p->key)) == p;
}

static void program_memory_free(struct program *p)
{
    free(p->list);
    free(p->is_own);
    free(p);
}

static void program_free(struct sh_cache *cache, struct program *p)
{
    if (is_known(cache, p))
        mt_map_remove(&cache->programs, program_key(p->key));
    cache->bytes -= p->bytes;
    if (p->folder[0] && !p->is_installed)
        remove_later(cache, p->folder);
    program_memory_free(p);
}

/* Nobody gets it any more; it goes when its last user has let it go. */
static void program_discard(struct sh_cache *cache, struct program *p)
{
    char old[FOLDER_SIZE];
    if (!is_known(cache, p))
        return;
    mt_map_remove(&cache->programs, program_key(p->key));
    snprintf(old, sizeof old, "%.250s/old-%llu", cache->base, (unsigned long long)cache->folders++);
    if (p->folder[0] && rename(p->folder, old) == 0)
        memcpy(p->folder, old, sizeof p->folder);
}

static bool room_make(struct sh_cache *cache, uint64_t bytes)
{
    while (cache->bytes + bytes > (uint64_t)MT_PROGRAM_CACHE_MIB_MAX << 20) {
        struct program *oldest = NULL;
        MT_MAP_EACH(&cache->programs, entry) {
            struct program *p = entry->value.ptr;
            if (!p->uses && (!oldest || p->used_at < oldest->used_at))
                oldest = p;
        }
        if (!oldest)
            return false;
        program_free(cache, oldest);
    }
    return true;
}

/* With users apart none: theirs may not come to the installation's folder. */
static bool may_be_own(const struct sh_cache *cache, const struct peer_program_file *file)
{
    return !cache->sh->options.users.count && !mt_map_find(&cache->refused, program_key(file->sha256));
}

static bool is_installed(const struct sh_cache *cache, struct program *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (!may_be_own(cache, &p->list[i]))
            return false;
    return sh_own_tree(p->list, p->count, p->folder, sizeof p->folder);
}

static struct program *program_new(struct sh_cache *cache, const struct rlt_a_program_open *a, const uint8_t key[MT_SHA256_SIZE])
{
    struct program *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->list = malloc(a->count * sizeof *p->list);
    p->is_own = calloc(a->count, sizeof *p->is_own);
    if (!p->list || !p->is_own) {
        program_memory_free(p);
        return NULL;
    }
    memcpy(p->list, a->files, a->count * sizeof *p->list);
    memcpy(p->key, key, sizeof p->key);
    p->count = (uint32_t)a->count;
    if ((p->is_installed = p->is_whole = is_installed(cache, p))) {
        memset(p->is_own, true, p->count * sizeof *p->is_own);
        return p;
    }
    p->folder[0] = 0;
    if (cache->is_in_memory)
        p->count = 1;
    for (uint32_t i = 0; i < p->count; i++)
        p->bytes += p->list[i].size;
    cache->bytes += p->bytes;
    return p;
}

/* All its files are here: from now on others may have it. One that came in the meantime is as good. */
static const char *program_settle(struct sh_cache *cache, struct use *u)
{
    struct program *p = u->program, *other = mt_map_ptr(&cache->programs, program_key(p->key));
    char            hex[MT_SHA256_HEX_SIZE], folder[FOLDER_SIZE];
    p->is_whole = true;
    if (cache->is_in_memory)
        return NULL;
    if (other) {
        if (memcmp(other->key, p->key, sizeof p->key) != 0)
            return "its SHA-256 begins like that of another";
        other->uses++;
        u->program = other;
        program_free(cache, p);
        return NULL;
    }
    mt_sha256_hex(p->key, hex);
    snprintf(folder, sizeof folder, "%.250s/%.32s", cache->base, hex);
    if (nftw(p->folder, close_down, 16, FTW_DEPTH | FTW_PHYS) || rename(p->folder, folder) < 0)
        return "its folder on this node can't be made";
    memcpy(p->folder, folder, sizeof p->folder);
    return mt_map_put_ptr(&cache->programs, program_key(p->key), p).code ? "no memory" : NULL;
}

/* ---- who uses them ------------------------------------------------------------------------------------------------- */

static struct use *use_of(const struct sh *sh, uint64_t job)
{
    return sh->cache ? mt_map_ptr(&sh->cache->uses, mt_map_key(job)) : NULL;
}

static void use_end(struct sh_cache *cache, struct use *u)
{
    struct program *p = u->program;
    mt_map_remove(&cache->uses, mt_map_key(u->job));
    if (u->fd >= 0)
        close(u->fd);
    free(u->gathered);
    free(u);
    p->used_at = ++cache->drops;
    if (--p->uses == 0 && !is_known(cache, p))
        program_free(cache, p);
}

static const char *use_begin(struct sh_cache *cache, const struct rlt_a_program_open *a, struct use **out)
{
    uint8_t     key[MT_SHA256_SIZE];
    mt_sha256   sha;
    struct use *u = calloc(1, sizeof *u);
    if (!u)
        return "no memory";
    mt_sha256_init(&sha);
    mt_sha256_add(&sha, a->files, a->count * sizeof *a->files);
    mt_sha256_end(&sha, key);
    u->job = a->job;
    u->fd = -1;
    u->program = mt_map_ptr(&cache->programs, program_key(key));
    if (u->program && memcmp(u->program->key, key, sizeof key) != 0)
        u->program = NULL;
    bool is_new = !u->program;
    if (is_new && !(u->program = program_new(cache, a, key)))
        goto err_memory;
    if (mt_map_put_ptr(&cache->uses, mt_map_key(u->job), u).code)
        goto err_memory;
    u->program->uses++;
    *out = u;
    if (u->program->is_whole || cache->is_in_memory)
        return NULL;
    if (!room_make(cache, 0))
        return "the programs of other nodes that run here would take too much room";
    snprintf(u->program->folder, sizeof u->program->folder, "%.250s/new-%llu", cache->base, (unsigned long long)cache->folders++);
    return mkdir(u->program->folder, 0700) < 0 ? "its folder on this node can't be made" : NULL;

err_memory:
    if (is_new && u->program)
        program_free(cache, u->program);
    free(u);
    return "no memory";
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static int file_open(const struct program *p, uint32_t index)
{
    char path[FOLDER_SIZE + CTL_PROGRAM_PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", p->folder, p->list[index].path);
    return open(path, O_RDONLY | (p->is_own[index] ? 0 : O_NOFOLLOW) | O_CLOEXEC);
}

static void opened(struct sh *sh, uint64_t job, int fd, uint32_t missing, const char *why)
{
    const struct use *u = use_of(sh, job);
    struct rlt_event  e;
    sh_event(&e, RLT_EV_PROGRAM_OPENED);
    e.program_opened.job = job;
    e.program_opened.fd = fd;
    e.program_opened.missing = missing;
    e.program_opened.is_refused = why != NULL;
    e.program_opened.remark = why ? why : u && !u->program->folder[0] ? in_memory : NULL;
    sh_post(sh, &e);
}

/* The next files, as long as they are libraries that this node has anyway. */
static void own_take(const struct sh_cache *cache, struct use *u)
{
    struct program *p = u->program;
    for (; u->next && u->next < p->count && may_be_own(cache, &p->list[u->next]) && sh_own_link(p->folder, &p->list[u->next]);
         u->next++)
        p->is_own[u->next] = true;
}

void sh_program_open(struct sh *sh, const struct rlt_a_program_open *a)
{
    struct sh_cache *cache = cache_get(sh);
    struct use      *u = use_of(sh, a->job);
    const char      *why = cache ? base_make(cache) : "no memory";
    int              fd = -1;
    if (!why && !u)
        why = use_begin(cache, a, &u);
    if (!why && !u->program->is_whole)
        own_take(cache, u);
    if (!why && u->next < u->program->count && !u->program->is_whole) {
        opened(sh, a->job, -1, u->next, NULL);
        return;
    }
    if (!why && !u->program->is_whole)
        why = program_settle(cache, u);
    if (!why)
        fd = u->program->folder[0] ? file_open(u->program, 0) : fcntl(u->fd, F_DUPFD_CLOEXEC, 0);
    if (!why && fd < 0)
        why = "its file on this node can't be opened";
    if (why && u)
        use_end(cache, u);
    opened(sh, a->job, fd, 0, why);
}

void sh_program_drop(struct sh *sh, uint64_t job)
{
    struct use *u = use_of(sh, job);
    if (u)
        use_end(sh->cache, u);
}

int sh_cache_file(struct sh *sh, uint64_t job, uint32_t index)
{
    const struct use *u = use_of(sh, job);
    return u && u->program->is_whole && index < u->program->count && u->program->folder[0] ? file_open(u->program, index) : -1;
}

size_t sh_cache_libraries(const struct sh *sh, uint64_t job, char *out, size_t size)
{
    const struct use *u = use_of(sh, job);
    size_t            at = 0;
    for (uint32_t i = 1; u && i < u->program->count; i++) {
        char        folder[FOLDER_SIZE + CTL_PROGRAM_PATH_SIZE];
        const char *path = u->program->list[i].path, *slash = strrchr(path, '/');
        snprintf(folder, sizeof folder, "%s/%.*s", u->program->folder, slash ? (int)(slash - path) : 0, path);
        size_t      length = strlen(folder);
        const char *known = strstr(out, folder);
        bool        is_there = at && known && (known[length] == ':' || !known[length]);
        if (is_there || at + length + 2 > size)
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ":" : "", folder);
    }
    return at;
}

/* ---- receiving ----------------------------------------------------------------------------------------------------- */

static bool file_begin(const struct sh_cache *cache, struct use *u)
{
    const struct program *p = u->program;
    u->have = u->gathered_size = 0;
    if (!u->gathered && !(u->gathered = malloc(GATHER_BYTES)))
        return false;
    mt_sha256_init(&u->sha);
    u->fd = cache->is_in_memory ? memfd_create("manta-program", MFD_CLOEXEC)
                                : rlt_tree_create(p->folder, p->list[u->next].path, 0700);
    return u->fd >= 0;
}

/* A file that is open for writing can't be executed: of one in memory a descriptor for reading is kept, of others none. */
static bool file_end(const struct sh_cache *cache, struct use *u)
{
    char path[64];
    int  fd = -1;
    if (fchmod(u->fd, 0555) < 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", u->fd);
    if (cache->is_in_memory && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    close(u->fd);
    u->fd = fd;
    u->next++;
    return true;
}

static bool gathered_write(struct use *u)
{
    bool is_written = mt_write_all(u->fd, u->gathered, u->gathered_size) == 0;
    mt_sha256_add(&u->sha, u->gathered, u->gathered_size);
    u->gathered_size = 0;
    return is_written;
}

static bool gather(struct use *u, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0, part; at < size; at += part) {
        size_t room = GATHER_BYTES - u->gathered_size;
        part = size - at < room ? size - at : room;
        memcpy(u->gathered + u->gathered_size, bytes + at, part);
        u->gathered_size += part;
        if (u->gathered_size == GATHER_BYTES && !gathered_write(u))
            return false;
    }
    u->have += size;
    return true;
}

static const char *write_wrong(const struct sh_cache *cache, struct use *u, const struct rlt_a_file_write *a)
{
    uint8_t sum[MT_SHA256_SIZE];
    if (!u || u->program->is_whole || a->file.index != u->next || (a->offset && (u->fd < 0 || a->offset != u->have)))
        return "a piece of it came out of turn";
    if (!a->offset && !file_begin(cache, u))
        return errno == EEXIST ? "two of its files stand at one place" : "a file of it can't be made on this node";
    if (!gather(u, a->bytes, a->size))
        return "no room for it on this node";
    if (u->have < a->total)
        return NULL;
    if (!gathered_write(u))
        return "no room for it on this node";
    free(u->gathered);
    u->gathered = NULL;
    mt_sha256_end(&u->sha, sum);
    if (memcmp(sum, a->sha256, sizeof sum) != 0)
        return "a file of it is not what its SHA-256 says";
    return file_end(cache, u) ? NULL : "a file of it can't be made on this node";
}

void sh_cache_write(struct sh *sh, const struct rlt_a_file_write *a)
{
    struct use      *u = use_of(sh, a->file.job);
    const char      *why = write_wrong(sh->cache, u, a);
    struct rlt_event e;
    if (!why && u->fd >= 0 && u->have < a->total)
        return; /* more of it follows */
    if (why && u)
        use_end(sh->cache, u);
    sh_event(&e, RLT_EV_FILE_READY);
    e.file_ready.file = a->file;
    e.file_ready.fd = -1;
    e.file_ready.is_refused = why != NULL;
    e.file_ready.why = why;
    sh_post(sh, &e);
}

/* ---- sums ---------------------------------------------------------------------------------------------------------- */

/* Files of the installation that only looked like those of the program: from now on these are sent. */
static void refuse_wrong(struct sh_cache *cache, const struct sh_sums *sums)
{
    if (cache->refused.count > MT_PROGRAM_REFUSED_MAX)
        mt_map_fini(&cache->refused);
    for (uint32_t i = 0; i < sums->count; i++)
        if (sums->files[i].is_wrong && sums->files[i].is_own &&
            mt_map_put_num(&cache->refused, program_key(sums->files[i].expected.sha256), 1).code)
            return; /* no memory: at worst it is tried again */
}

static void check_done(struct sh_sums *sums, bool is_right)
{
    struct sh       *sh = sums->sh;
    struct sh_check *check = sums->user;
    struct use      *u = use_of(sh, sums->job);
    if (!is_right && u && !sh->is_exiting) {
        mt_log(MT_LOG_WARN, "program_changed", "folder=%s why=\"%s\"", u->program->folder, sums->text);
        refuse_wrong(sh->cache, sums);
        program_discard(sh->cache, u->program);
        use_end(sh->cache, u);
    }
    sh_sums_free(sums);
    check->done(check, is_right);
}

bool sh_cache_has(const struct sh *sh, uint64_t job)
{
    return use_of(sh, job) != NULL;
}

int sh_cache_check(struct sh *sh, uint64_t job, int fd, struct sh_check *check)
{
    const struct use *u = use_of(sh, job);
    struct sh_sums   *sums = u ? sh_sums_new(sh, job, u->program->count, check_done) : NULL;
    if (!sums)
        return ENOMEM;
    sums->user = check;
    for (uint32_t i = 0; i < sums->count; i++) {
        sums->files[i].expected = u->program->list[i];
        sums->files[i].is_own = u->program->is_own[i];
        sums->files[i].fd = i ? file_open(u->program, i) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    if (io_worker_submit(sh->cache->worker, &sums->job_on_disk).code == 0)
        return 0;
    sh_sums_free(sums);
    return EAGAIN;
}

static void listed(struct sh *sh, uint64_t job, const struct peer_program_file *files, size_t count, const char *why)
{
    struct rlt_event e;
    if (why)
        mt_log(MT_LOG_WARN, "program_unlisted", "job=%llu why=\"%s\"", (unsigned long long)job, why);
    sh_event(&e, RLT_EV_PROGRAM_LISTED);
    e.program_listed.job = job;
    e.program_listed.files = files;
    e.program_listed.count = count;
    e.program_listed.is_refused = why != NULL;
    e.program_listed.why = why ? sh_keep_text(sh, why) : NULL;
    sh_post(sh, &e);
}

static void list_done(struct sh_sums *sums, bool is_right)
{
    struct peer_program_file *list = is_right ? sh_keep(sums->sh, sums->count * sizeof *list) : NULL;
    for (uint32_t i = 0; list && i < sums->count; i++)
        list[i] = sums->files[i].expected;
    if (!sums->sh->is_exiting)
        listed(sums->sh, sums->job, list, sums->count, list ? NULL : is_right ? "no memory" : sums->text);
    sh_sums_free(sums);
}

void sh_program_list(struct sh *sh, const struct rlt_a_program_list *a)
{
    struct sh_cache *cache = cache_get(sh);
    struct sh_sums  *sums = cache ? sh_sums_new(sh, a->job, (uint32_t)a->count, list_done) : NULL;
    for (uint32_t i = 0; sums && i < sums->count; i++) {
        memcpy(sums->files[i].expected.path, a->files[i].path, sizeof a->files[i].path);
        sums->files[i].fd = fcntl(a->files[i].fd, F_DUPFD_CLOEXEC, 0); /* the job may end first */
        sums->files[i].is_new = true;
    }
    if (sums && io_worker_submit(cache->worker, &sums->job_on_disk).code == 0)
        return;
    if (sums)
        sh_sums_free(sums);
    listed(sh, a->job, NULL, 0, "no memory");
}

/* ---- the end ------------------------------------------------------------------------------------------------------- */

void sh_cache_stop(struct sh *sh)
{
    struct sh_cache *cache = sh->cache;
    if (!cache)
        return;
    io_worker_free(cache->worker); /* which may still look at what follows */
    MT_MAP_EACH(&cache->uses, entry) {
        struct use *u = entry->value.ptr;
        if (u->fd >= 0)
            close(u->fd);
        free(u->gathered);
        if (!is_known(cache, u->program) && --u->program->uses == 0) {
            program_memory_free(u->program);
        }
        free(u);
    }
    MT_MAP_EACH(&cache->programs, entry) {
        program_memory_free(entry->value.ptr);
    }
    mt_map_fini(&cache->uses);
    mt_map_fini(&cache->programs);
    mt_map_fini(&cache->refused);
    if (cache->base[0])
        mt_tree_remove(cache->base);
    free(cache);
    sh->cache = NULL;
}
