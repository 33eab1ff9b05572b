/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - a trial that is another program: its arguments and environment from the parameters, metrics from its output.
 *
 * What it prints is read as it comes and kept as far as the last few lines, however much it is.
 *
 * Owns: the program while it runs. Thread: the slot's `run`, with whose process it dies.
 */
#include "core/sys/child.h"
#include "core/base/clock.h"
#include "sweep/trial/gang.h"
#include "sweep/trial/metrics.h"
#include "sweep/trial/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024, LOOK_MS = 100, TREE_MAX = 256 };

extern char **environ;

struct command {
    manta_trial *t;
    MT_VEC(char *) argv, own, env; /* own: the trial's variables; env: borrowed from them, and from our environment */
    char    file[MT_PATH_BYTES_MAX];
    char    done[MT_PATH_BYTES_MAX + 8]; /* the file by which it says that it is done, whatever dies */
    pid_t   pid;
    int     pid_fd, out_fd, err_fd;
    int64_t lines; /* of metrics */
    bool    is_stopped;
    int64_t stopped_ns;
    char    line[MT_SWEEP_LINE_BYTES]; /* the one under way */
    size_t  line_size;
    bool    is_long; /* it was longer, and holds no metrics */
    char    tail[MT_SWEEP_TAIL_BYTES];
    size_t  tail_at; /* bytes ever */
};

/* ---- arguments ---- */

static const struct swp_value *value_named(const manta_trial *t, const char *name, size_t size)
{
    for (size_t i = 0; i < t->values.count; i++)
        if (strlen(t->values.data[i].name) == size && memcmp(t->values.data[i].name, name, size) == 0)
            return &t->values.data[i];
    return NULL;
}

static mt_status file_write(struct command *c)
{
    const char *dir = manta_trial_dir(c->t);
    if (!dir)
        return mt_error(MT_ESYS, errno, "make the trial's folder");
    snprintf(c->file, sizeof c->file, "%.4000s/params.json", dir);
    FILE *f = fopen(c->file, "we");
    if (!f)
        return mt_error(MT_ESYS, errno, "write the parameters");
    bool is_written = fprintf(f, "%s\n", c->t->params) > 0;
    return fclose(f) == 0 && is_written ? mt_ok() : mt_error(MT_ESYS, errno, "write the parameters");
}

/* A file with the parameters, for {file}. A full disk is no fault of the trial's: it waits for room, as the sweep does, until
 * it is told to stop. */
static mt_status file_make(struct command *c)
{
    mt_status st = c->file[0] ? mt_ok() : file_write(c);
    while ((st.sys == ENOSPC || st.sys == EDQUOT) && !swp_slot_is_stopped(c->t->slot)) {
        mt_sleep_ms(MT_SWEEP_ROOM_MS);
        st = file_write(c);
    }
    return st;
}

/* What stands for {NAME}. */
static mt_status word_put(struct command *c, const char *name, size_t size, mt_buf *out)
{
    const struct swp_value *v = value_named(c->t, name, size);
    if (v)
        return mt_buf_printf(out, "%s", v->text);
    if (size == 6 && memcmp(name, "params", 6) == 0)
        return mt_buf_printf(out, "%s", c->t->params);
    if (size == 5 && memcmp(name, "trial", 5) == 0)
        return mt_buf_printf(out, "%" PRId64, c->t->number);
    if (size == 4 && memcmp(name, "file", 4) == 0) {
        MT_TRY(file_make(c));
        return mt_buf_printf(out, "%s", c->file);
    }
    swp_trial_fault(c->t, true, "its command has {%.*s}, which is no parameter of this trial: %.300s", (int)size, name,
                    c->t->params);
    return mt_error(MT_EINVAL, 0, "replace a parameter");
}

static mt_status expand(struct command *c, const char *text, mt_buf *out)
{
    while (*text) {
        size_t size = strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
        if (*text == '{' && size && text[size + 1] == '}') {
            MT_TRY(word_put(c, text + 1, size, out));
            text += size + 2;
        } else {
            MT_TRY(mt_buf_append(out, text++, 1));
        }
    }
    return mt_buf_terminate(out);
}

static mt_status push_expanded(struct command *c, const char *text, bool is_env)
{
    mt_buf    out = {0};
    mt_status st = expand(c, text, &out);
    char     *word = st.code == 0 ? strdup((const char *)out.data) : NULL;
    mt_buf_fini(&out);
    MT_TRY(st);
    if (!word)
        return mt_error(MT_ENOMEM, 0, "make the command");
    return is_env ? mt_vec_push(&c->own, word) : mt_vec_push(&c->argv, word);
}

static mt_status push_printed(struct command *c, bool is_env, const char *format, ...) MT_PRINTF(3, 4);
static mt_status push_printed(struct command *c, bool is_env, const char *format, ...)
{
    char   *word = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&word, format, args);
    va_end(args);
    if (n < 0)
        return mt_error(MT_ENOMEM, 0, "make the command");
    return is_env ? mt_vec_push(&c->own, word) : mt_vec_push(&c->argv, word);
}

/* `manta run` comes first, which passes on to its ranks what this trial's program would find in its environment. */
static mt_status gang_words_push(struct command *c)
{
    char program[MT_PATH_BYTES_MAX];
    swp_gang_program(program, sizeof program);
    MT_TRY(push_printed(c, false, "%s", program));
    for (char **word = c->t->slot->setup.gang; *word; word++)
        MT_TRY(push_printed(c, false, "%s", *word));
    for (size_t i = 0; i < c->own.count; i++) {
        MT_TRY(push_printed(c, false, "--env"));
        MT_TRY(push_printed(c, false, "%s", c->own.data[i]));
    }
    return push_printed(c, false, "--");
}

static mt_status argv_make(struct command *c)
{
    if (c->t->slot->setup.gang)
        MT_TRY(gang_words_push(c));
    for (char **arg = c->t->slot->setup.argv; *arg; arg++) {
        if (strcmp(*arg, "{args}") != 0) {
            MT_TRY(push_expanded(c, *arg, false));
            continue;
        }
        for (size_t i = 0; i < c->t->values.count; i++)
            MT_TRY(push_printed(c, false, "--%s=%s", c->t->values.data[i].name, c->t->values.data[i].text));
    }
    return mt_vec_push(&c->argv, NULL);
}

static mt_status env_make(struct command *c)
{
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "MANTA_TRIAL", 11) != 0 && strncmp(*e, "MANTA_PARAM_", 12) != 0 && strncmp(*e, "MANTA_ROLE", 10) != 0)
            MT_TRY(mt_vec_push(&c->env, *e));
    MT_TRY(push_printed(c, true, "MANTA_TRIAL=%" PRId64, c->t->number));
    MT_TRY(push_printed(c, true, "MANTA_TRIAL_PARAMS=%s", c->t->params));
    MT_TRY(push_printed(c, true, "MANTA_TRIAL_ATTEMPT=%d", c->t->attempt));
    MT_TRY(push_printed(c, true, "MANTA_TRIAL_SEED=%" PRIu64, c->t->seed));
    MT_TRY(push_printed(c, true, "MANTA_TRIAL_DIR=%s/trials/%" PRId64, c->t->slot->setup.folder, c->t->number));
    MT_TRY(push_printed(c, true, "MANTA_TRIAL_DONE=%s", c->done));
    for (size_t i = 0; i < c->t->values.count; i++)
        MT_TRY(push_printed(c, true, "MANTA_PARAM_%s=%s", c->t->values.data[i].name, c->t->values.data[i].text));
    for (char **e = c->t->slot->setup.env; e && *e; e++)
        MT_TRY(push_expanded(c, *e, true));
    MT_TRY(mt_vec_reserve(&c->env, c->own.count));
    for (size_t i = 0; i < c->own.count; i++)
        c->env.count = mt_child_env_set(c->env.data, c->env.count, c->own.data[i]);
    return mt_vec_push(&c->env, NULL);
}

/* ---- output ---- */

/* One line of metrics: the sweep's own is told last, since the answer may be to stop. */
static void line_report(struct command *c, const char *line, size_t size)
{
    struct swp_metrics m;
    const char        *metric = c->t->slot->setup.metric;
    int                own = -1;
    if (!swp_metrics_read(line, size, &m))
        return;
    int64_t step = m.has_step ? m.step : c->lines;
    c->lines++;
    for (int i = 0; i < m.count; i++)
        if (strcmp(m.items[i].name, metric) == 0)
            own = i;
        else
            (void)manta_trial_report(c->t, step, m.items[i].name, m.items[i].value);
    if (own >= 0)
        (void)manta_trial_report(c->t, step, metric, m.items[own].value);
}

static void output_take(struct command *c, const char *bytes, size_t size)
{
    while (size > 0) {
        const char *end = memchr(bytes, '\n', size);
        size_t      part = end ? (size_t)(end - bytes) : size;
        if (part >= sizeof c->line - c->line_size)
            c->is_long = true;
        if (!c->is_long) {
            memcpy(c->line + c->line_size, bytes, part);
            c->line_size += part;
        }
        if (!end)
            return;
        if (!c->is_long)
            line_report(c, c->line, c->line_size);
        c->line_size = 0;
        c->is_long = false;
        bytes += part + 1;
        size -= part + 1;
    }
}

/* A last line without an end. */
static void output_end(struct command *c)
{
    if (c->line_size && !c->is_long)
        line_report(c, c->line, c->line_size);
    c->line_size = 0;
    c->is_long = false;
}

static void tail_take(struct command *c, const char *bytes, size_t size)
{
    if (size > sizeof c->tail) {
        c->tail_at += size - sizeof c->tail;
        bytes += size - sizeof c->tail;
        size = sizeof c->tail;
    }
    for (size_t i = 0; i < size; i++)
        c->tail[c->tail_at++ % sizeof c->tail] = bytes[i];
}

static void tail_read(const struct command *c, char out[sizeof c->tail + 1])
{
    size_t size = c->tail_at < sizeof c->tail ? c->tail_at : sizeof c->tail;
    for (size_t i = 0; i < size; i++) {
        char byte = c->tail[(c->tail_at - size + i) % sizeof c->tail];
        out[i] = byte ? byte : '?';
    }
    while (size && (out[size - 1] == '\n' || out[size - 1] == ' '))
        size--;
    out[size] = 0;
}

/* Reads what is there. False: the end. */
static bool fd_read(struct command *c, int fd)
{
    char    bytes[READ_BYTES];
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    tail_take(c, bytes, (size_t)n);
    if (fd == c->out_fd && !c->t->slot->setup.metrics_file[0])
        output_take(c, bytes, (size_t)n);
    return true;
}

/* ---- the program ---- */

/* A shell dies of a signal without a word to the program that it waits for: so each of them gets it. The program itself first,
 * lest a script goes on with its next line. */
static void tree_signal(pid_t root, int number)
{
    pid_t  tree[TREE_MAX];
    size_t count = mt_process_tree(root, tree, TREE_MAX);
    for (size_t i = 0; i < count; i++)
        kill(tree[i], number);
}

static void stop_look(struct command *c)
{
    if (!c->is_stopped && swp_slot_is_stopped(c->t->slot)) {
        c->is_stopped = true;
        c->stopped_ns = mt_now_ns();
        tree_signal(c->pid, SIGTERM);
    } else if (c->is_stopped && mt_now_ns() - c->stopped_ns > MT_SWEEP_TERM_MS * 1000000ll) {
        tree_signal(c->pid, SIGKILL);
    }
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool has_ended(struct command *c, int *out_status)
{
    pid_t pid = waitpid(c->pid, out_status, WNOHANG);
    return pid == c->pid || (pid < 0 && errno != EINTR);
}

/* Serves its output until it has ended; what others that it left behind still print does not count. */
static int serve(struct command *c)
{
    int  status = 0;
    bool is_over = false;
    while (!is_over) {
        struct pollfd fds[3] = {{c->out_fd, POLLIN, 0}, {c->err_fd, POLLIN, 0}, {c->pid_fd, POLLIN, 0}};
        poll(fds, 3, c->pid_fd < 0 && c->out_fd < 0 && c->err_fd < 0 ? 1 : LOOK_MS);
        is_over = (fds[2].revents || c->pid_fd < 0 || (c->out_fd < 0 && c->err_fd < 0)) && has_ended(c, &status);
        if (fds[0].revents && !fd_read(c, c->out_fd))
            fd_close(&c->out_fd);
        if (fds[1].revents && !fd_read(c, c->err_fd))
            fd_close(&c->err_fd);
        stop_look(c);
    }
    for (int more = 1; more && c->out_fd >= 0;) { /* what was in the pipes when it ended */
        struct pollfd fd = {c->out_fd, POLLIN, 0};
        more = poll(&fd, 1, 0) > 0 && fd_read(c, c->out_fd);
    }
    for (int more = 1; more && c->err_fd >= 0;) {
        struct pollfd fd = {c->err_fd, POLLIN, 0};
        more = poll(&fd, 1, 0) > 0 && fd_read(c, c->err_fd);
    }
    return status;
}

static mt_status program_start(struct command *c)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        fd_close(&out[0]), fd_close(&out[1]);
        return mt_error(MT_ESYS, errno, "make a pipe");
    }
    struct mt_child_opts o = {.argv = c->argv.data,
                              .env = c->env.data,
                              .dies_with_parent = true,
                              .fds = {{MT_CHILD_NULL, 0}, {out[1], 1}, {err[1], 2}},
                              .fd_count = 3};
    mt_status            st = mt_child_start(&o, &c->pid);
    close(out[1]);
    close(err[1]);
    c->out_fd = out[0];
    c->err_fd = err[0];
    c->pid_fd = st.code == 0 ? (int)syscall(SYS_pidfd_open, c->pid, 0) : -1;
    return st;
}

static void metrics_file_read(struct command *c)
{
    mt_buf path = {0};
    char   bytes[READ_BYTES];
    size_t n;
    FILE  *f = expand(c, c->t->slot->setup.metrics_file, &path).code == 0 ? fopen((const char *)path.data, "re") : NULL;
    if (!f && !c->t->has_failed)
        swp_trial_fault(c->t, true, "its file of metrics, %.300s, can't be read: %s", (const char *)path.data, strerror(errno));
    while (f && (n = fread(bytes, 1, sizeof bytes, f)) > 0)
        output_take(c, bytes, n);
    if (f)
        fclose(f);
    mt_buf_fini(&path);
}

/* Whether it has said in a file that it is done, with its metrics: in this attempt, or before it was killed in a former one. */
static bool done_take(struct command *c)
{
    char   bytes[READ_BYTES];
    size_t n, all = 0;
    FILE  *f = fopen(c->done, "re");
    output_end(c);
    while (f && (n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        output_take(c, bytes, n);
        all += n;
    }
    if (f)
        fclose(f);
    output_end(c);
    return all > 0;
}

static manta_status ended(struct command *c, int status)
{
    char tail[MT_SWEEP_TAIL_BYTES + 1];
    if (done_take(c))
        return MANTA_OK;
    if (c->t->slot->setup.metrics_file[0] && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        metrics_file_read(c);
    output_end(c);
    if (c->is_stopped || swp_slot_is_stopped(c->t->slot) || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return MANTA_OK;
    tail_read(c, tail);
    if (WIFSIGNALED(status))
        swp_trial_fault(c->t, false, "its command was killed by signal %d (%s)%s%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                        tail[0] ? "; its last words:\n" : "", tail);
    else
        swp_trial_fault(c->t, false, "its command ended with status %d%s%s", WEXITSTATUS(status),
                        tail[0] ? "; its last words:\n" : "", tail);
    return MANTA_ETASK;
}

static void command_free(struct command *c)
{
    for (size_t i = 0; i < c->argv.count; i++)
        free(c->argv.data[i]);
    for (size_t i = 0; i < c->own.count; i++)
        free(c->own.data[i]);
    mt_vec_fini(&c->argv);
    mt_vec_fini(&c->own);
    mt_vec_fini(&c->env);
    fd_close(&c->out_fd);
    fd_close(&c->err_fd);
    fd_close(&c->pid_fd);
    free(c);
}

manta_status swp_command_run(manta_trial *t)
{
    struct command *c = calloc(1, sizeof *c);
    manta_status    code = MANTA_ETASK;
    if (!c)
        return MANTA_ENOMEM;
    c->t = t;
    c->out_fd = c->err_fd = c->pid_fd = -1;
    (void)manta_trial_dir(t); /* its environment names it; where the disk refuses, the program will say so if it needs it */
    snprintf(c->done, sizeof c->done, "%.4000s/trials/%" PRId64 "/done", t->slot->setup.folder, t->number);
    if (done_take(c)) {
        command_free(c);
        return MANTA_OK;
    }
    mt_status st = env_make(c);
    if (st.code == 0)
        st = argv_make(c);
    if (st.code == 0)
        st = program_start(c);
    if (st.code == 0)
        code = ended(c, serve(c));
    else
        swp_trial_fault(t, st.code == MT_ENOENT, "its command \"%.100s\" can't be started: %s", c->argv.data[0],
                        st.sys ? strerror(st.sys) : mt_code_text(st.code));
    command_free(c);
    return code;
}

void swp_command_tidy(manta_trial *t)
{
    char done[sizeof t->dir + 8];
    if (!t->dir[0] || !t->slot->ends.is_noted || rmdir(t->dir) == 0)
        return; /* where its end could not be noted, that file is the note */
    snprintf(done, sizeof done, "%s/done", t->dir);
    unlink(done);
    rmdir(t->dir);
}
