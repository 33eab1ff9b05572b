/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - a run's tracking as files (track.h). Owns: the folder's lock and the file of metrics. Thread: the driver's.
 */
#include "core/base/clock.h"
#include "core/sys/append.h"
#include "core/text/json.h"
#include "sgd/ground/file.h"
#include "sgd/run/setup.h"
#include "sgd/run/track/track.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct sgd_track_files {
    int              folder_fd, lock_fd;
    struct mt_append metrics; /* on a full disk they wait for room */
    char            *run;
    double           begun_s;
    int64_t          validated; /* the step of the last validation that is in the file; -1: none */
};

static double unix_s(void)
{
    return (double)mt_wall_ns() * 1e-9;
}

/* ---- opening ---- */

static mt_status folder_make(int at, const char *path)
{
    if (mkdirat(at, path, 0755) == 0 || errno == EEXIST)
        return mt_ok();
    return errno == ENOENT ? mt_error(MT_ENOENT, ENOENT, "make the folder") : sgd_file_error(errno, "make the folder");
}

static mt_status run_open(struct sgd_track_files *f, const char *folder, const char *run)
{
    int parent = -1;
    MT_TRY(folder_make(AT_FDCWD, folder));
    parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mt_status st = parent < 0 ? sgd_file_error(errno, "open the folder") : folder_make(parent, run);
    if (st.code == 0 && (f->folder_fd = openat(parent, run, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        st = sgd_file_error(errno, "open the folder");
    if (parent >= 0)
        close(parent);
    MT_TRY(st);
    MT_TRY(folder_make(f->folder_fd, "artifacts"));
    f->lock_fd = openat(f->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (f->lock_fd < 0)
        return sgd_file_error(errno, "open the lock");
    if (flock(f->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return mt_error(MT_EEXIST, 0, "another driver tracks a run of this name");
    f->metrics.fd = openat(f->folder_fd, "metrics.jsonl", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return f->metrics.fd >= 0 ? mt_ok() : sgd_file_error(errno, "open metrics.jsonl");
}

manta_status sgd_track_files_open(const char *folder, const char *run, struct sgd_track_files **out, manta_error *e)
{
    char                    text[SGD_TEXT_BYTES];
    struct sgd_track_files *f = calloc(1, sizeof *f);
    mt_status               st = mt_error(MT_ENOMEM, 0, "no memory");
    *out = NULL;
    if (f) {
        *f = (struct sgd_track_files){
            .folder_fd = -1, .lock_fd = -1, .metrics.fd = -1, .begun_s = unix_s(), .validated = -1, .run = strdup(run)};
        st = f->run ? run_open(f, folder, run) : st;
    }
    if (st.code == 0) {
        *out = f;
        return MANTA_OK;
    }
    sgd_track_files_close(f);
    return sgd_fail(e, st.code, "run.tracking: %.200s, run \"%.100s\": %s", folder, run, sgd_status_text(st, text));
}

void sgd_track_files_close(struct sgd_track_files *f)
{
    if (!f)
        return;
    if (f->metrics.fd >= 0) {
        (void)mt_append(&f->metrics, NULL, 0); /* at the end nobody waits any more */
        close(f->metrics.fd);
    }
    mt_buf_fini(&f->metrics.waiting);
    if (f->lock_fd >= 0)
        close(f->lock_fd);
    if (f->folder_fd >= 0)
        close(f->folder_fd);
    free(f->run);
    free(f);
}

/* ---- small files, whole or as before ---- */

static bool is_full(int err)
{
    return err == ENOSPC || err == EDQUOT;
}

/* -1: errno says why. */
static int file_replace(const struct sgd_track_files *f, const char *name, const mt_buf *text)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, ".%s.tmp", name);
    int fd = openat(f->folder_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    errno = ENOSPC; /* of a short write */
    bool ok = write(fd, text->data, text->size) == (ssize_t)text->size;
    int  err = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        err = errno;
    }
    if (ok)
        return renameat(f->folder_fd, temporary, f->folder_fd, name);
    unlinkat(f->folder_fd, temporary, 0);
    errno = err;
    return -1;
}

static mt_status member(mt_buf *out, const char *name, const char *value)
{
    MT_TRY(mt_buf_printf(out, "%s", out->size > 1 ? ",\n" : "\n"));
    MT_TRY(mt_json_put_text(out, name));
    MT_TRY(mt_buf_append(out, ": ", 2));
    return value ? mt_json_put_text(out, value) : mt_buf_append(out, "null", 4);
}

static mt_status status_text(const struct sgd_track_files *f, mt_buf *out, const char *status, int64_t step, const char *error)
{
    MT_TRY(mt_buf_append(out, "{", 1));
    MT_TRY(member(out, "run", f->run));
    MT_TRY(member(out, "status", status));
    MT_TRY(member(out, "error", error));
    MT_TRY(mt_buf_printf(out, ",\n\"step\": %lld,\n\"begun\": %.3f", (long long)step, f->begun_s));
    return mt_buf_printf(out, ",\n\"%s\": %.3f\n}\n", strcmp(status, "running") == 0 ? "written" : "ended", unix_s());
}

static int status_write(const struct sgd_track_files *f, const char *status, int64_t step, const char *error)
{
    mt_buf out = {0};
    int    failed = status_text(f, &out, status, step, error).code ? -1 : file_replace(f, "status.json", &out);
    mt_buf_fini(&out);
    return failed;
}

/* ---- metrics ---- */

/* Where the lines of steps up to `from` end; what is behind was torn by a kill, or is told again. NULL: there are none. */
static long lines_keep(struct sgd_track_files *f, FILE *take_file, int64_t from)
{
    char  *line = NULL;
    size_t room = 0;
    long   end = 0;
    for (ssize_t n; take_file && (n = getline(&line, &room, take_file)) > 0; end += n) {
        long long step;
        if (line[n - 1] != '\n' || sscanf(line, "{\"step\": %lld", &step) != 1 || step > from || step <= 0)
            break;
        if (strstr(line, "\"validate/"))
            f->validated = step;
    }
    free(line);
    if (take_file)
        fclose(take_file);
    return end;
}

/* In the file and in what waits. */
static bool metrics_keep(struct sgd_track_files *f, int64_t from)
{
    struct mt_append *m = &f->metrics;
    int               fd = openat(f->folder_fd, "metrics.jsonl", O_RDONLY | O_CLOEXEC);
    FILE             *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file)
        return false;
    f->validated = -1;
    off_t end = lines_keep(f, file, from);
    if (end < m->end) /* what waits comes behind */
        m->waiting.size = 0;
    if (m->waiting.size)
        m->waiting.size = (size_t)lines_keep(f, fmemopen(m->waiting.data, m->waiting.size, "r"), from);
    m->end = end;
    return ftruncate(m->fd, end) == 0;
}

static int files_begin(void *user, const char *run, int64_t from)
{
    struct sgd_track_files *f = user;
    (void)run;
    bool is_first = f->metrics.end == 0;
    if (!metrics_keep(f, from))
        return -1;
    int failed = status_write(f, "running", from, NULL);
    return failed && !is_first && is_full(errno) ? 0 : failed; /* it says so still */
}

static int files_params(void *user, int count, const char *const *names, const char *const *values)
{
    mt_buf    out = {0};
    mt_status st = mt_buf_append(&out, "{", 1);
    for (int i = 0; i < count && st.code == 0; i++)
        st = member(&out, names[i], values[i]);
    if (st.code == 0)
        st = mt_buf_append(&out, "\n}\n", 3);
    int failed = st.code ? -1 : file_replace(user, "params.json", &out);
    mt_buf_fini(&out);
    return failed;
}

static mt_status metrics_text(mt_buf *out, int64_t step, int count, const char *const *names, const double *values)
{
    MT_TRY(mt_buf_printf(out, "{\"step\": %lld, \"time\": %.3f", (long long)step, unix_s()));
    for (int i = 0; i < count; i++) {
        MT_TRY(mt_buf_append(out, ", ", 2));
        MT_TRY(mt_json_put_text(out, names[i]));
        if (isfinite(values[i]))
            MT_TRY(mt_buf_printf(out, ": %.9g", values[i]));
        else
            MT_TRY(mt_buf_append(out, ": null", 6)); /* JSON has no word for it */
    }
    return mt_buf_append(out, "}\n", 2);
}

static int files_metrics(void *user, int64_t step, int count, const char *const *names, const double *values)
{
    struct sgd_track_files *f = user;
    mt_buf                  out = {0};
    bool                    is_validation = count > 0 && strncmp(names[0], "validate/", 9) == 0;
    int                     failed = 0, err = 0;
    if (is_validation && step == f->validated) /* a checkpoint was between a step and its validation */
        return 0;
    f->validated = is_validation ? step : f->validated;
    if (metrics_text(&out, step, count, names, values).code != 0 ||
        ((err = mt_append(&f->metrics, out.data, out.size)) != 0 && err != EAGAIN))
        failed = -1;
    errno = err ? err : errno;
    mt_buf_fini(&out);
    return failed;
}

/* ---- the rest ---- */

static int files_artifact(void *user, const char *name, const char *path)
{
    struct sgd_track_files *f = user;
    char                    link[128], temporary[128];
    snprintf(link, sizeof link, "artifacts/%.100s", name);
    snprintf(temporary, sizeof temporary, "artifacts/.%.100s.tmp", name);
    if (symlinkat(path, f->folder_fd, temporary) != 0 && errno != EEXIST)
        return is_full(errno) ? 0 : -1; /* the next one is told again */
    return renameat(f->folder_fd, temporary, f->folder_fd, link);
}

static int files_end(void *user, const char *status, int64_t step, const char *error)
{
    return status_write(user, status, step, error);
}

const manta_sgd_tracker sgd_track_to_files = {
    .begin = files_begin, .params = files_params, .metrics = files_metrics, .artifact = files_artifact, .end = files_end};
