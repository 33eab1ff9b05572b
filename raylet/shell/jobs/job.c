/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - submitted jobs in the real world: their files, their driver process, their output.
 *
 * Owns: every struct sh_job, the folder and the log file of each. Thread: the loop.
 * Always: a job's files lie in a private folder (0700) of its own; what a path or a hash does not keep to is refused
 * before anything runs. All that the driver and its workers print is in the log before the core hears of the end.
 *
 *   fetch file after file (GetBlob, SHA-256 checked) -> run -> output to the log -> ended -> forgotten: all is removed
 */
#include "core/sys/archive.h"
#include "core/base/limits/net.h"
#include "core/base/limits/raylet.h"
#include "raylet/shell/jobs/jobs.h"
#include "raylet/shell/jobs/private.h"
#include "raylet/shell/links/links.h"
#include "raylet/shell/said/said.h"
#include "raylet/files/tree.h"

#include "core/sys/child.h"
#include "core/sys/process.h"
#include "core/base/log.h"
#include "core/sha/sha256.h"
#include "core/rpc/codec.h"
#include "core/rpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    JOB_PATH_SIZE = 4096,
    JOB_READ_SIZE = 64 * 1024,
};
#define JOB_LOG_MAX (UINT64_C(1) << 30) /* bytes of one attempt's log; what comes after is dropped, and the log says so */

struct sh_job {
    struct sh                *sh;
    char                      id[CTL_NAME_SIZE];
    uint32_t                  attempt, failures;
    ProtobufCMessage         *spec_copy;
    const Manta__V1__JobSpec *spec;
    char                      folder[JOB_PATH_SIZE / 2];
    struct sh_user            user; /* of its driver and its workers here */
    size_t                    next_file;
    int                       file_fd; /* being fetched; -1: none */
    uint64_t                  file_size;
    mt_sha256                 sha;
    struct rpc_stream        *stream;
    struct rpc_stream_handler handler;
    struct io_timer           timer; /* ENDED: how long its output is waited for */
    pid_t                     pid;   /* 0: not started, -1: reaped */
    uint64_t                  part;  /* of the node's group, that it was started in */
    int                       status;
    int                       kept;        /* its end's slot; -1: none */
    bool                      waits;       /* for room */
    bool                      is_here;     /* its files are */
    bool                      is_killed;   /* before it started */
    bool                      is_ended;    /* told to the core */
    bool                      has_workers; /* which began in its folder, too */
    bool                      is_alone;    /* when its driver had ended, nobody else whom that had started lived */
    int                       log_fd;
    uint64_t                  log_size;
    bool                      is_log_full;
    bool                      is_eof;              /* nobody holds the writing end of its output any more */
    int                       out_read, out_write; /* the pipe of its output; the zygote of its workers gets it too */
    struct io_watch           out_watch;
};

static struct sh_job *job_find(const struct sh *sh, const char *id)
{
    MT_MAP_EACH(&sh->jobs, entry) {
        struct sh_job *job = entry->value.ptr;
        if (strcmp(job->id, id) == 0)
            return job;
    }
    return NULL;
}

/* Its name in an event: it may be forgotten before that is stepped. */
static const char *kept_id(const struct sh_job *job)
{
    return sh_keep_text(job->sh, job->id);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

/* Where jobs may put executables. */
static mt_status base_folder(struct sh *sh)
{
    bool is_open = sh->options.users.count != 0;
    if (sh->job_folder[0])
        return mt_ok();
    MT_TRY(rlt_tree_base(sh->options.dir, "jobs", is_open, sh->job_folder, sizeof sh->job_folder));
    sh_ends_folder(sh);
    return mt_ok();
}

static void fetch_next(struct sh_job *job);
static void run(struct sh_job *job);

static void fetch_end(struct sh_job *job)
{
    if (job->stream)
        rpc_stream_free(job->stream);
    job->stream = NULL;
    if (job->file_fd >= 0)
        close(job->file_fd);
    job->file_fd = -1;
}

static void job_failed_with(struct sh_job *job, const char *why, bool is_unfit)
{
    struct rlt_event e;
    fetch_end(job);
    if (job->is_ended)
        return;
    job->is_ended = true;
    sh_event(&e, RLT_EV_JOB_FAILED);
    e.job_failed.id = kept_id(job);
    e.job_failed.why = sh_keep_text(job->sh, why);
    e.job_failed.is_unfit = is_unfit;
    sh_post(job->sh, &e);
}

static void job_failed(struct sh_job *job, const char *why)
{
    job_failed_with(job, why, false);
}

static void blob_message(struct rpc_stream_handler *handler, struct rpc_stream *stream, mt_view message)
{
    struct sh_job    *job = mt_container_of(handler, struct sh_job, handler);
    ProtobufCMessage *m = NULL;
    (void)stream;
    if (job->is_ended || rpc_unpack(&manta__v1__blob_chunk__descriptor, message, MT_CONTROL_BYTES_MAX, &m).code)
        return; /* what is missing shows in the hash */
    const Manta__V1__BlobChunk *chunk = (const Manta__V1__BlobChunk *)m;
    if (chunk->offset == job->file_size && job->file_size + chunk->data.len <= job->spec->files[job->next_file]->size) {
        mt_sha256_add(&job->sha, chunk->data.data, chunk->data.len);
        job->file_size += chunk->data.len;
        if (write(job->file_fd, chunk->data.data, chunk->data.len) != (ssize_t)chunk->data.len)
            job_failed(job, errno == ENOSPC ? "the disk of the node is full" : "a file of the job cannot be written");
    }
    rpc_unpack_free(m);
}

static void blob_closed(struct rpc_stream_handler *handler, struct rpc_stream *stream, const struct rpc_result *result)
{
    struct sh_job            *job = mt_container_of(handler, struct sh_job, handler);
    const Manta__V1__JobFile *file = job->spec->files[job->next_file];
    uint8_t                   sum[MT_SHA256_SIZE];
    (void)stream;
    fetch_end(job);
    if (job->is_ended)
        return;
    mt_sha256_end(&job->sha, sum);
    if (result->status.code) {
        job_failed(job, "a file of the job cannot be fetched from the head");
    } else if (job->file_size != file->size || memcmp(sum, file->sha256.data, sizeof sum)) {
        job_failed(job, "a file of the job is not what its SHA-256 says");
    } else {
        job->next_file++;
        fetch_next(job);
    }
}

static mt_status fetch_start(struct sh_job *job, const Manta__V1__JobFile *file)
{
    struct rpc_stream_config  config = {.method = "/manta.v1.Head/GetBlob", .timeout_ms = 10 * 60 * 1000};
    Manta__V1__GetBlobRequest request = MANTA__V1__GET_BLOB_REQUEST__INIT;
    mt_buf                    bytes = {0};
    mt_status                 st;
    request.sha256 = file->sha256;
    job->handler.message = blob_message;
    job->handler.closed = blob_closed;
    job->file_size = 0;
    mt_sha256_init(&job->sha);
    if (!sh_head_channel(job->sh))
        return mt_error(MT_ECONN, 0, "no head");
    MT_TRY(rpc_pack(&request.base, &bytes));
    st = rpc_stream_open(sh_head_channel(job->sh), &config, &job->handler, &job->stream);
    if (!st.code) {
        st = rpc_stream_send(job->stream, mt_buf_view(&bytes));
        rpc_stream_end(job->stream);
    }
    mt_buf_fini(&bytes);
    return st;
}

static void fetch_next(struct sh_job *job)
{
    job->is_here = job->next_file == job->spec->n_files;
    if (job->is_here && !job->waits)
        run(job);
    if (job->is_here)
        return;
    const Manta__V1__JobFile *file = job->spec->files[job->next_file];
    if (mt_archive_path_wrong(file->path) || file->sha256.len != MT_SHA256_SIZE) {
        job_failed(job, "a path of the job's files is absolute, empty or leads out of its folder");
        return;
    }
    job->file_fd = rlt_tree_create(job->folder, file->path, file->mode);
    if (job->file_fd < 0)
        job_failed(job, "a file of the job cannot be made (twice the same path, or a full disk)");
    else if (fetch_start(job, file).code)
        job_failed(job, "the head cannot be asked for the job's files");
}

/* ---- the driver ---------------------------------------------------------------------------------------------------- */

static bool is_variable(const char *line, const char *name)
{
    size_t size = strlen(name);
    return strncmp(line, name, size) == 0 && line[size] == '=';
}

/* What the warden of a detached actor finds in its environment (clients/lib/start/warden.c); "": the job is for no actor. */
static mt_status warden_text(const struct sh_job *job, mt_buf *out)
{
    const Manta__V1__DetachedActor *actor = job->spec->actor;
    char                            text[96];
    if (!actor)
        return mt_ok();
    snprintf(text, sizeof text, "MANTA_WARDEN=%u ", job->failures);
    MT_TRY(mt_buf_append(out, text, strlen(text)));
    for (size_t i = 0; i < actor->create.len; i++) {
        snprintf(text, sizeof text, "%02x", actor->create.data[i]);
        MT_TRY(mt_buf_append(out, text, 2));
    }
    return mt_buf_append(out, "", 1);
}

/* A variable that leads a job to its raylet: ours alone to set. */
static bool is_ours(const char *line)
{
    static const char *const ours[] = {"MANTA_FD",          "MANTA_ROLE",  "MANTA_JOB",    "MANTA_ADDRESS", "MANTA_JOB_ID",
                                       "MANTA_JOB_ATTEMPT", "MANTA_TOKEN", "MANTA_WARDEN", "MANTA_SOCKET",  "MANTA_MARK"};
    for (size_t k = 0; k < sizeof ours / sizeof ours[0]; k++)
        if (is_variable(line, ours[k]))
            return true;
    return false;
}

/* The node's; the job's, which win where both say the same name; those that lead it to this raylet. */
static char **environment_make(struct sh_job *job, char (*own)[512], char *warden)
{
    size_t count = 0, n = 0;
    while (environ[count])
        count++;
    char **out = calloc(count + job->spec->n_env + 7, sizeof *out);
    if (!out)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strchr(environ[i], '=') && !is_ours(environ[i]))
            out[n++] = environ[i];
    for (size_t i = 0; i < job->spec->n_env; i++)
        if (strchr(job->spec->env[i], '=') && !is_ours(job->spec->env[i]))
            n = mt_child_env_set(out, n, job->spec->env[i]);
    snprintf(own[0], sizeof own[0], "MANTA_ADDRESS=%s", job->sh->options.dir);
    snprintf(own[1], sizeof own[1], "MANTA_JOB_ID=%s", job->id);
    snprintf(own[2], sizeof own[2], "MANTA_JOB_ATTEMPT=%u", job->attempt);
    for (int i = 0; i < 3; i++)
        out[n++] = own[i];
    out[n++] = (char *)(uintptr_t)sh_cgroup_mark(job->sh);
    if (warden) {
        out[n++] = warden;
        out[n++] = (char *)(uintptr_t) "MANTA_ROLE=warden"; /* for programs that do something before manta_init */
    }
    return out;
}

/* Who runs a job that is a shared object, or the gangs' own driver; NULL: argv[0] is a program as any other. */
static const char *host_of(const char *program, char *path, size_t size)
{
    const char *dot = strrchr(program, '.');
    if (dot && strcmp(dot, ".so") == 0)
        return mt_process_beside("manta-so", path, size);
    return strcmp(program, "manta-run") == 0 ? mt_process_beside(program, path, size) : NULL;
}

struct command { /* and its texts */
    char **argv;
    char   uid[16], gid[16], parent[16], socket[JOB_PATH_SIZE], host[JOB_PATH_SIZE];
};

/* As another user: manta-raylet --run-as UID GID SOCKET PARENT, and then the program. 0 or an errno. */
static int command_as(struct sh_job *job, struct command *c, size_t *n)
{
    if (!sh_user_new(job->sh, &job->user))
        return EUSERS;
    snprintf(c->uid, sizeof c->uid, "%u", job->user.uid);
    snprintf(c->gid, sizeof c->gid, "%u", job->user.gid);
    snprintf(c->parent, sizeof c->parent, "%d", getpid());
    snprintf(c->socket, sizeof c->socket, "%s/raylet.sock", job->sh->options.dir);
    char *const words[] = {"manta-raylet", "--run-as", c->uid, c->gid, c->socket, c->parent};
    memcpy(c->argv, words, sizeof words);
    *n = sizeof words / sizeof words[0];
    rlt_tree_give(job->folder, job->user.uid, job->user.gid);
    return 0;
}

static int command_make(struct sh_job *job, struct command *c)
{
    const char *host = host_of(job->spec->argv[0], c->host, sizeof c->host);
    bool        is_run = host && strcmp(job->spec->argv[0], "manta-run") == 0; /* which gets no word of ours */
    size_t      n = 0, first = is_run;
    int         err = 0;
    if (!(c->argv = calloc(job->spec->n_argv + 8, sizeof *c->argv)))
        return ENOMEM;
    if (job->sh->options.users.count && (err = command_as(job, c, &n)))
        return err;
    if (host)
        c->argv[n++] = c->host;
    memcpy(c->argv + n, job->spec->argv + first, (job->spec->n_argv - first) * sizeof *c->argv);
    return 0;
}

static int spawn_driver(struct sh_job *job)
{
    char           own[3][512];
    struct command command = {.argv = NULL};
    mt_buf         warden = {0};
    mt_status      st = warden_text(job, &warden);
    char         **envp = environment_make(job, own, (char *)warden.data);
    int            err = envp && !st.code ? command_make(job, &command) : ENOMEM;

    if (!err) {
        struct mt_child_opts o = {.program = job->sh->options.users.count ? "/proc/self/exe" : NULL,
                                  .argv = command.argv,
                                  .env = envp,
                                  .dir = job->folder,
                                  .fds = {{MT_CHILD_NULL, 0}, {job->out_write, 1}, {job->out_write, 2}},
                                  .fd_count = 3,
                                  .fds_max = job->sh->fds_before,
                                  .session = MT_CHILD_GROUP,
                                  .dies_with_parent = true, /* with the loop's thread, which lives as long as the process */
                                  .resets_signals = true};
        job->part = sh_cgroup_enter(job->sh);
        o.cgroup = sh_cgroup_folder(job->sh);
        err = mt_child_start(&o, &job->pid).sys;
        sh_cgroup_leave(job->sh, job->part, !err);
    }
    free(command.argv);
    free(envp);
    mt_buf_fini(&warden);
    return err;
}

/* Made with the first output: most that run for a moment only have none. */
static bool log_open(struct sh_job *job)
{
    char path[JOB_PATH_SIZE];
    snprintf(path, sizeof path, "%s.log", job->folder);
    job->log_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return job->log_fd >= 0;
}

static void log_append(struct sh_job *job, const char *text, size_t size)
{
    static const char full[] = "\n[manta: the log is full; what follows is not kept]\n";
    if (job->is_log_full)
        return;
    if (job->log_size + size > JOB_LOG_MAX) {
        job->is_log_full = true;
        text = full;
        size = sizeof full - 1;
    }
    ssize_t n = job->log_fd >= 0 || log_open(job) ? write(job->log_fd, text, size) : -1;
    if (n < 0)
        job->is_log_full = true; /* the disk is; the driver must not wait for it */
    else
        job->log_size += (uint64_t)n;
}

/* False: nothing is there now, or (is_eof) never again. */
static bool output_read(struct sh_job *job)
{
    char    text[JOB_READ_SIZE];
    ssize_t n = read(job->out_read, text, sizeof text);
    if (n > 0)
        log_append(job, text, (size_t)n);
    else
        job->is_eof |= n == 0 || (errno != EAGAIN && errno != EINTR);
    return n > 0;
}

static void output_close(struct sh_job *job)
{
    io_watch_stop(&job->out_watch);
    if (job->out_read >= 0)
        close(job->out_read);
    if (job->out_write >= 0)
        close(job->out_write);
    job->out_read = job->out_write = -1;
}

/* The last line of its output. "": there is none. */
static void last_line(const struct sh_job *job, char out[SH_SAID_SIZE])
{
    uint64_t from = job->log_size > SH_SAID_SIZE - 1 ? job->log_size - (SH_SAID_SIZE - 1) : 0;
    ssize_t  n = job->log_fd >= 0 ? pread(job->log_fd, out, SH_SAID_SIZE - 1, (off_t)from) : 0;
    size_t   size = n > 0 ? (size_t)n : 0;
    while (size > 0 && out[size - 1] == '\n')
        size--;
    out[size] = 0;
    const char *before = strrchr(out, '\n');
    if (before)
        memmove(out, before + 1, strlen(before + 1) + 1);
}

/* Of one that has not come so far as to be its own program: why, by the loader's mouth. Kept; NULL: it was loaded. */
static const char *loader_words(const struct sh_job *job)
{
    char line[SH_SAID_SIZE];
    int  code = WIFEXITED(job->status) ? WEXITSTATUS(job->status) : 0;
    if (code != 127 && code != 1) /* 1: a library of another version than it was made with */
        return NULL;
    last_line(job, line);
    return sh_said_by_loader(line) ? sh_keep_text(job->sh, line) : NULL;
}

static void job_ended(struct sh_job *job)
{
    struct rlt_event e;
    if (job->is_ended)
        return;
    while (job->out_read >= 0 && output_read(job))
        ;
    output_close(job);
    job->is_ended = true;
    sh_event(&e, RLT_EV_JOB_EXITED);
    e.job_exited.id = kept_id(job);
    e.job_exited.status = job->status;
    e.job_exited.log_size = job->log_size;
    e.job_exited.loader = loader_words(job);
    sh_post(job->sh, &e);
}

static void log_grown(struct sh_job *job)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_JOB_LOG);
    e.job_log.id = kept_id(job);
    e.job_log.size = job->log_size;
    sh_post(job->sh, &e);
}

static void output_ready(struct io_watch *watch, unsigned events)
{
    struct sh_job *job = mt_container_of(watch, struct sh_job, out_watch);
    uint64_t       size = job->log_size;
    for (int i = 0; (i < 16 || (events & IO_HANGUP)) && output_read(job); i++)
        ;
    if (job->is_eof)
        io_watch_stop(&job->out_watch);
    if (job->is_eof && job->pid == -1)
        job_ended(job);
    else if (job->log_size != size)
        log_grown(job);
}

static void linger_over(struct io_timer *timer)
{
    job_ended(mt_container_of(timer, struct sh_job, timer));
}

/* In its log too, for those who follow it. */
static void cannot_run(struct sh_job *job, int err)
{
    char text[CTL_TEXT_SIZE];
    int  size = snprintf(text, sizeof text, "manta: cannot run %.100s: %s\n", job->spec->argv[0], strerrordesc_np(err));
    job->pid = 0;
    output_close(job);
    log_append(job, text, (size_t)size);
    log_grown(job);
    snprintf(text, sizeof text, "%.100s: %s", job->spec->argv[0], strerrordesc_np(err));
    job_failed_with(job, text, !mt_child_may_pass(err));
}

static void run(struct sh_job *job)
{
    int              pipe_fds[2], err;
    struct rlt_event e;
    if (job->is_killed || !job->spec->n_argv) {
        job_failed(job, job->is_killed ? "stopped" : "no command");
        return;
    }
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        job_failed(job, "there can be no pipe for its output");
        return;
    }
    job->out_read = pipe_fds[0];
    job->out_write = pipe_fds[1];
    job->out_watch.ready = output_ready;
    fcntl(job->out_read, F_SETFL, O_NONBLOCK);
    err = spawn_driver(job);
    if (err) {
        cannot_run(job, err);
        return;
    }
    if (io_watch_start(job->sh->loop, &job->out_watch, job->out_read, IO_READABLE).code)
        log_append(job, "[manta: output is shown at the end only]\n", 41);
    sh_event(&e, RLT_EV_JOB_STARTED);
    e.job_started.id = kept_id(job);
    e.job_started.pid = job->pid;
    sh_post(job->sh, &e);
}

/* ---- from the shell -------------------------------------------------------------------------------------------------- */

void sh_job_ends(struct sh *sh, pid_t pid)
{
    MT_MAP_EACH(&sh->jobs, entry) {
        struct sh_job *job = entry->value.ptr;
        if (job->pid != pid)
            continue;
        kill(-pid, SIGKILL); /* what it started in its group goes with it */
    }
}

void sh_job_reaped(struct sh *sh, pid_t pid, int status)
{
    MT_MAP_EACH(&sh->jobs, entry) {
        struct sh_job *job = entry->value.ptr;
        if (job->pid != pid)
            continue;
        job->pid = -1;
        job->status = status;
        job->is_alone = sh_cgroup_over(sh, job->part); /* as most are */
        if (job->out_write >= 0)
            close(job->out_write);
        job->out_write = -1;
        io_timer_start(sh->loop, &job->timer, MT_RLT_JOB_LINGER_MS); /* or sooner: when the last writer has closed */
        return;
    }
}

bool sh_job_user(const struct sh *sh, pid_t driver, struct sh_user *out)
{
    MT_MAP_EACH(&sh->jobs, entry) {
        const struct sh_job *job = entry->value.ptr;
        if (job->pid != driver || driver <= 0 || !job->user.uid)
            continue;
        *out = job->user;
        return true;
    }
    return false;
}

int sh_job_workers_output(struct sh *sh, pid_t driver)
{
    MT_MAP_EACH(&sh->jobs, entry) {
        struct sh_job *job = entry->value.ptr;
        if (job->pid != driver || driver <= 0)
            continue;
        job->has_workers = true;
        return job->out_write;
    }
    return -1;
}

/* A copy of the spec, since the message it came in is gone after this step. */
static mt_status spec_copy(struct sh_job *job, const Manta__V1__JobSpec *spec)
{
    mt_buf bytes = {0};
    MT_TRY(rpc_pack(&spec->base, &bytes));
    mt_status st = rpc_unpack(&manta__v1__job_spec__descriptor, mt_buf_view(&bytes), MT_CONTROL_BYTES_MAX, &job->spec_copy);
    mt_buf_fini(&bytes);
    job->spec = (const Manta__V1__JobSpec *)job->spec_copy;
    return st;
}

void sh_job_start(struct sh *sh, const struct rlt_a_job_start *a)
{
    struct sh_job *job = calloc(1, sizeof *job);
    if (!job || spec_copy(job, a->spec).code || mt_map_put_ptr(&sh->jobs, mt_map_key(sh->next_job++), job).code)
        abort();
    job->sh = sh;
    job->attempt = a->attempt;
    job->failures = a->failures;
    job->waits = a->waits;
    job->kept = job->file_fd = job->log_fd = job->out_read = job->out_write = -1;
    job->timer.fire = linger_over;
    snprintf(job->id, sizeof job->id, "%s", a->id);
    if (!sh->options.dir || strchr(job->id, '/') || job->id[0] == '.' || base_folder(sh).code) {
        job_failed(job, "this node has no folder for jobs");
        return;
    }
    snprintf(job->folder, sizeof job->folder, "%s/%s.%u", sh->job_folder, job->id, job->attempt);
    if (!sh_job_folder_make(sh, job->folder))
        job_failed(job, "the job's folder cannot be made");
    else
        fetch_next(job);
}

void sh_job_go(struct sh *sh, const char *id)
{
    struct sh_job *job = job_find(sh, id);
    if (!job || !job->waits)
        return;
    job->waits = false;
    if (job->is_here && !job->is_ended)
        run(job);
}

void sh_job_kill(struct sh *sh, const struct rlt_a_job_kill *a)
{
    struct sh_job *job = job_find(sh, a->id);
    if (!job || job->is_ended)
        return;
    if (job->pid > 0) {
        kill(-job->pid, a->signal); /* not reaped yet, so the number is still its */
    } else if (job->pid == 0) {
        job->is_killed = true;
        job_failed(job, "stopped");
    }
}

void sh_job_log_read(struct sh *sh, const struct rlt_a_job_log_read *a)
{
    struct sh_job   *job = job_find(sh, a->id);
    struct rlt_event e;
    if (!job)
        return;
    size_t   size = a->size < JOB_READ_SIZE ? a->size : JOB_READ_SIZE;
    uint8_t *text = sh_keep(sh, JOB_READ_SIZE);
    ssize_t  n = text && job->log_fd >= 0 ? pread(job->log_fd, text, size, (off_t)a->offset) : -1;
    sh_event(&e, RLT_EV_JOB_TEXT);
    e.job_text.id = sh_keep_text(sh, job->id);
    e.job_text.offset = a->offset;
    e.job_text.bytes = text;
    e.job_text.size = n > 0 ? (size_t)n : 0;
    sh_post(sh, &e);
}

static void job_free(struct sh *sh, struct sh_job *job)
{
    char path[JOB_PATH_SIZE];
    fetch_end(job);
    io_timer_stop(&job->timer);
    output_close(job);
    if (job->log_fd >= 0) {
        close(job->log_fd);
        snprintf(path, sizeof path, "%s.log", job->folder);
        unlink(path);
    }
    if (job->folder[0])
        sh_job_folder_over(sh, job->folder, job->is_alone && !job->has_workers);
    MT_MAP_EACH(&sh->jobs, entry)
        if (entry->value.ptr == job) {
            mt_map_remove(&sh->jobs, entry->key);
            break;
        }
    if (job->spec_copy)
        rpc_unpack_free(job->spec_copy);
    free(job);
}

void sh_job_keep(struct sh *sh, const struct rlt_a_job_keep *a)
{
    struct sh_job *job = job_find(sh, a->id);
    if (job && job->kept < 0)
        job->kept = sh_end_keep(sh, a);
}

void sh_job_forget(struct sh *sh, const char *id)
{
    struct sh_job *job = job_find(sh, id);
    if (!job)
        return;
    sh_end_drop(sh, job->kept);
    job_free(sh, job);
}

void sh_jobs_stop(struct sh *sh)
{
    MT_MAP_EACH(&sh->jobs, entry) {
        struct sh_job *job = entry->value.ptr;
        if (job->pid > 0)
            kill(-job->pid, SIGKILL);
        job->is_ended = true;
        job_free(sh, job);
    }
    mt_map_fini(&sh->jobs);
    sh_job_folders_stop(sh);
}
