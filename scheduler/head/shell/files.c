/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - the state folder beside the database: logs/<job> and blobs/<sha256>.
 *
 * Owns:    the folders, and each piece of log from the core's action until it is in its file.
 * Thread:  the loop's; *_work on the files' thread. Opening happens before the loop runs.
 */
#include "core/sys/file.h"
#include "core/base/log.h"
#include "scheduler/head/shell/shell.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct log_job {
    struct io_job      job;
    struct shell      *sh;
    char               id[HEAD_JOB_ID_SIZE]; /* of the job that it is of */
    uint64_t           offset;
    struct head_bytes *bytes;
    int                sys; /* errno, 0: written */
};

struct drop_job {
    struct io_job job;
    char          path[SHELL_PATH_SIZE];
};

int head_shell_mkdir(const struct shell *sh, const char *path)
{
    if (mkdir(path, 0700) != 0)
        return -1;
    if (!sh->is_private)
        (void)mt_name_sync(path); /* as good as the file system can; SQLite goes on there too */
    return 0;
}

/* ---- logs ---- */

/* Output never takes the last room on a disk: the store is there too, or others' things. */
static bool has_room_for_output(int fd)
{
    struct statvfs fs;
    if (fstatvfs(fd, &fs) != 0)
        return true;
    uint64_t share = (uint64_t)fs.f_blocks * fs.f_frsize / MT_HEAD_LOG_SPARE_SHARE;
    uint64_t spare = share < MT_HEAD_LOG_SPARE_BYTES ? share : MT_HEAD_LOG_SPARE_BYTES;
    return (uint64_t)fs.f_bavail * fs.f_frsize > spare;
}

static void log_work(struct io_job *job)
{
    struct log_job *l = mt_container_of(job, struct log_job, job);
    char            path[SHELL_PATH_SIZE];
    head_shell_path(l->sh, "logs", l->id, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        l->sys = errno;
        return;
    }
    l->sys = !has_room_for_output(fd) ? ENOSPC : mt_pwrite_all(fd, l->bytes->data, l->bytes->size, l->offset);
    close(fd);
}

static void log_done(struct io_job *job)
{
    struct log_job   *l = mt_container_of(job, struct log_job, job);
    struct shell     *sh = l->sh;
    struct head_event event = {.kind = HEAD_EV_LOG_WRITTEN, .log_written = {l->id, l->offset + l->bytes->size}};
    sh->log_bytes -= l->bytes->size;
    if (sh->log_bytes <= MT_HEAD_LOG_AHEAD_BYTES / 2)
        head_shell_resume_streams(sh);
    if (l->sys != 0) /* a hole in the log; the raylet is told to go on all the same, or the job would never end */
        mt_log(MT_LOG_ERROR, "log_write", "job=%s error=\"%s\"", l->id, strerror(l->sys));
    head_shell_step(sh, &event);
    head_shell_feed_wake(sh, l->id);
    free(l->bytes);
    free(l);
}

void head_shell_log_append(struct shell *sh, struct head_action *action)
{
    struct log_job *l = calloc(1, sizeof *l);
    if (!l) {
        head_shell_end(sh, mt_error(MT_ENOMEM, 0, "write a log"));
        return;
    }
    MT_ASSERT(action->log_append.bytes->refs == 1); /* a piece of log is nobody else's */
    *l = (struct log_job){{.work = log_work, .done = log_done}, sh, "", action->log_append.offset, action->log_append.bytes, 0};
    memcpy(l->id, action->log_append.job, sizeof l->id);
    action->log_append.bytes = NULL;
    mt_status st = io_worker_submit(sh->files, &l->job);
    if (st.code == 0)
        return;
    mt_log_status(MT_LOG_ERROR, "log_queue", st); /* 65536 pieces wait for the disk: this one is a hole in the log */
    sh->log_bytes -= l->bytes->size;
    free(l->bytes);
    free(l);
}

/* ---- removing ---- */

static void drop_work(struct io_job *job)
{
    unlink(mt_container_of(job, struct drop_job, job)->path);
}

static void drop_done(struct io_job *job)
{
    free(mt_container_of(job, struct drop_job, job));
}

/* A file that could not be removed is found, and removed, at the next start. */
static void drop(struct shell *sh, const char *folder, const char *name)
{
    struct drop_job *d = calloc(1, sizeof *d);
    if (!d)
        return;
    d->job = (struct io_job){.work = drop_work, .done = drop_done};
    head_shell_path(sh, folder, name, d->path);
    if (io_worker_submit(sh->files, &d->job).code != 0)
        free(d);
}

void head_shell_log_drop(struct shell *sh, const char *job)
{
    drop(sh, "logs", job);
}

void head_shell_blob_drop(struct shell *sh, const uint8_t sha256[HEAD_SHA_SIZE])
{
    char hex[MT_SHA256_HEX_SIZE];
    drop(sh, "blobs", mt_sha256_hex(sha256, hex));
}

static void remove_all(const char *dir)
{
    char           path[SHELL_PATH_SIZE];
    DIR           *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path)
            unlink(path);
    if (d)
        closedir(d);
    rmdir(dir);
}

void head_shell_files_remove(struct shell *sh)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm", "state.db-journal", "port"};
    char                     path[SHELL_PATH_SIZE];
    head_shell_path(sh, "logs", "", path);
    remove_all(path);
    head_shell_path(sh, "blobs", "", path);
    remove_all(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        head_shell_path(sh, "", names[i], path);
        unlink(path);
    }
    rmdir(sh->state);
}

/* ---- opening ---- */

static mt_status load_log(struct shell *sh, const char *name, uint64_t size, bool *out_keep)
{
    return head_load_log(sh->head, name, size, out_keep);
}

static bool hex_read(const char *hex, uint8_t out[HEAD_SHA_SIZE])
{
    for (int i = 0; i < HEAD_SHA_SIZE; i++) {
        unsigned byte;
        char     pair[3] = {hex[2 * i], hex[2 * i] ? hex[2 * i + 1] : '\0', '\0'};
        if (strspn(pair, "0123456789abcdef") != 2 || sscanf(pair, "%2x", &byte) != 1)
            return false;
        out[i] = (uint8_t)byte;
    }
    return hex[2 * HEAD_SHA_SIZE] == '\0';
}

/* A half-uploaded file has another name, and goes. */
static mt_status load_blob(struct shell *sh, const char *name, uint64_t size, bool *out_keep)
{
    uint8_t sha256[HEAD_SHA_SIZE];
    *out_keep = hex_read(name, sha256);
    return *out_keep ? head_load_blob(sh->head, sha256, size) : mt_ok();
}

static mt_status load_folder(struct shell *sh, const char *folder,
                             mt_status (*load)(struct shell *, const char *, uint64_t, bool *))
{
    char           path[SHELL_PATH_SIZE];
    struct dirent *e;
    struct stat    info;
    mt_status      st = mt_ok();
    head_shell_path(sh, folder, "", path);
    if (head_shell_mkdir(sh, path) != 0 && errno != EEXIST)
        return mt_error(errno == ENOSPC ? MT_EDISK_FULL : MT_ESYS, errno, "make a folder in the state folder");
    DIR *d = opendir(path);
    if (!d)
        return mt_error(MT_ESYS, errno, "read the state folder");
    while (st.code == 0 && (e = readdir(d))) {
        bool keep = false;
        if (fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(info.st_mode))
            continue;
        if (S_ISREG(info.st_mode))
            st = load(sh, e->d_name, (uint64_t)info.st_size, &keep);
        if (st.code == 0 && !keep)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
    return st;
}

mt_status head_shell_files_open(struct shell *sh)
{
    MT_TRY(load_folder(sh, "logs", load_log));
    MT_TRY(load_folder(sh, "blobs", load_blob));
    return io_worker_new(sh->loop, MT_HEAD_FILE_JOBS_MAX, &sh->files);
}
