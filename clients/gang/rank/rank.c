/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.c - see rank.h. Owns: the shepherd, which is this program once more, and the descriptors.
 */
#include "clients/gang/rank/rank.h"

#include "clients/gang/rank/shepherd.h"
#include "core/base/clock.h"
#include "core/ds/vec.h"
#include "core/sys/child.h"
#include "core/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void gng_rank_init(struct gng_rank *r)
{
    mt_buf_fini(&r->said);
    *r = (struct gng_rank){.control = -1, .out = -1, .err = -1, .lines = -1};
}

bool gng_rank_runs(const struct gng_rank *r)
{
    return r->shepherd != 0;
}

/* ---- start ---- */

struct words {
    MT_VEC(char *) argv, env;
};

static mt_status env_set(struct words *w, char *variable)
{
    MT_TRY(mt_vec_reserve(&w->env, 1));
    w->env.count = mt_child_env_set(w->env.data, w->env.count, variable);
    return mt_ok();
}

static mt_status words_make(struct words *w, const struct gng_start *start, bool has_pmi, char *variable)
{
    static char name[] = GNG_SHEPHERD_NAME, pmi[] = GNG_SHEPHERD_PMI "=4", meets[] = GNG_SHEPHERD_MEETS "=4";
    mt_reader   r = mt_reader_of(start->texts);
    MT_TRY(mt_vec_push(&w->argv, name));
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "MANTA_ROLE", 10) != 0 && strncmp(*e, "MANTA_GANG", 10) != 0 && strncmp(*e, "PMI_", 4) != 0 &&
            strncmp(*e, "MANTA_TORCH_FD", 14) != 0 && strncmp(*e, "MANTA_TORCH_PEERS", 17) != 0)
            MT_TRY(mt_vec_push(&w->env, *e));
    if (variable[0])
        MT_TRY(env_set(w, variable));
    for (uint32_t i = 0; i < start->env_count + start->argc; i++) {
        const uint8_t *end = r.left ? memchr(r.at, 0, r.left) : NULL;
        if (!end)
            return mt_error(MT_EPROTO, 0, "read a rank's words");
        char *text = (char *)mt_reader_bytes(&r, (size_t)(end - r.at) + 1).data;
        MT_TRY(i < start->env_count ? env_set(w, text) : mt_vec_push(&w->argv, text));
    }
    if (has_pmi)
        MT_TRY(env_set(w, pmi));
    if (start->meets)
        MT_TRY(env_set(w, meets));
    MT_TRY(mt_vec_push(&w->argv, NULL));
    return mt_vec_push(&w->env, NULL);
}

/* `given`: the descriptor that is the rank's; -1: none. */
static mt_status shepherd_start(struct gng_rank *r, const struct words *w, int given)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, control[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) {
        int sys = errno;
        fd_close(&out[0]), fd_close(&out[1]), fd_close(&err[0]), fd_close(&err[1]);
        return mt_error(MT_ESYS, sys, "make pipes");
    }
    struct mt_child_opts o = {.program = "/proc/self/exe",
                              .argv = w->argv.data,
                              .env = w->env.data,
                              .session = MT_CHILD_GROUP,
                              .fds = {{MT_CHILD_NULL, 0}, {out[1], 1}, {err[1], 2}, {control[1], GNG_SHEPHERD_FD}},
                              .fd_count = 4};
    if (given >= 0)
        mt_child_give(&o, given, GNG_SHEPHERD_RANK_FD);
    mt_status st = mt_child_start(&o, &r->shepherd);
    close(out[1]);
    close(err[1]);
    close(control[1]);
    r->out = out[0];
    r->err = err[0];
    r->control = control[0];
    fcntl(r->out, F_SETFL, O_NONBLOCK);
    fcntl(r->err, F_SETFL, O_NONBLOCK);
    return st;
}

static mt_status say(const struct gng_rank *r, mt_buf *news, enum gng_wire_kind kind, int64_t number, mt_view bytes)
{
    return gng_wire_put(news, &(struct gng_wire){.kind = kind, .attempt = r->attempt, .number = number, .bytes = bytes});
}

/* Its socket for lines, and the end that is the rank's. */
static mt_status lines_make(struct gng_rank *r, int *out_given)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return mt_error(MT_ESYS, errno, "make a socket");
    r->lines = ends[0];
    *out_given = ends[1];
    return mt_ok();
}

mt_status gng_rank_start(struct gng_rank *r, uint32_t attempt, const struct gng_start *start, int given, char *variable,
                         mt_buf *news)
{
    struct words w = {0};
    gng_rank_init(r);
    r->attempt = attempt;
    r->number = start->rank;
    r->hang_ms = start->hang_ms;
    r->mark_ns = mt_now_ns();
    mt_status st = words_make(&w, start, given >= 0, variable);
    if (st.code == 0 && start->meets)
        st = lines_make(r, &given);
    if (st.code == 0)
        st = shepherd_start(r, &w, given);
    mt_vec_fini(&w.argv);
    mt_vec_fini(&w.env);
    fd_close(&given);
    if (st.code == 0)
        return mt_ok();
    r->shepherd = 0;
    fd_close(&r->out), fd_close(&r->err), fd_close(&r->control), fd_close(&r->lines);
    return say(r, news, GNG_WIRE_ENDED, -(int64_t)(st.sys ? st.sys : ENOMEM), mt_view_text("its shepherd can't be started"));
}

void gng_rank_hears(const struct gng_rank *r, mt_view bytes)
{
    if (r->lines >= 0)
        (void)!send(r->lines, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void gng_rank_signal(const struct gng_rank *r, int number)
{
    int32_t word = number;
    if (!r->shepherd)
        return;
    (void)!send(r->control, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
    kill(r->shepherd, SIGCONT); /* one that was stopped hears of it; not reaped yet, so the number is its own */
}

/* ---- what comes of it ---- */

/* What is in a pipe now. False: its end. */
static bool pipe_read(struct gng_rank *r, int *fd, bool is_last, mt_buf *news, mt_status *st)
{
    char bytes[MT_GANG_PART_BYTES];
    do {
        ssize_t n = read(*fd, bytes, sizeof bytes);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0) {
            fd_close(fd);
            return false;
        }
        r->mark_ns = mt_now_ns();
        *st = say(r, news, fd == &r->out ? GNG_WIRE_OUT : GNG_WIRE_ERR, 0, mt_view_of(bytes, (size_t)n));
    } while (is_last && st->code == 0);
    return true;
}

/* All that it has printed comes before its end. */
static mt_status end_tell(struct gng_rank *r, int64_t number, const char *text, mt_buf *news)
{
    mt_status st = mt_ok();
    if (r->out >= 0)
        (void)pipe_read(r, &r->out, true, news, &st);
    if (r->err >= 0 && st.code == 0)
        (void)pipe_read(r, &r->err, true, news, &st);
    fd_close(&r->out), fd_close(&r->err), fd_close(&r->control), fd_close(&r->lines);
    while (waitpid(r->shepherd, NULL, 0) < 0 && errno == EINTR)
        ;
    r->shepherd = 0;
    return st.code ? st : say(r, news, GNG_WIRE_ENDED, number, mt_view_text(text));
}

/* The shepherd was killed, and the rank with it: what that has left are our children now. */
static mt_status shepherd_died(struct gng_rank *r, mt_buf *news)
{
    int status = SIGKILL;
    waitpid(r->shepherd, &status, 0);
    for (int left = MT_GANG_LEAVE_MS; left > 0; left--) {
        mt_children_kill(NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            break;
        mt_sleep_ms(1);
    }
    return end_tell(r, WIFSIGNALED(status) ? status : SIGKILL, "the process that held it was killed", news);
}

static mt_status control_read(struct gng_rank *r, mt_buf *news)
{
    struct gng_shepherd_word word;
    ssize_t                  n = recv(r->control, &word, sizeof word, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return mt_ok();
    if (n != sizeof word)
        return shepherd_died(r, news);
    switch (word.kind) {
    case GNG_SHEPHERD_STARTED: return say(r, news, GNG_WIRE_STARTED, word.value, mt_view_text(""));
    case GNG_SHEPHERD_REFUSED: return end_tell(r, -(int64_t)word.value, "", news);
    default: return end_tell(r, word.value, "", news);
    }
}

/* Whole lines become news. One without an end is a fault of the rank, and nothing more is read of it. */
static mt_status lines_read(struct gng_rank *r, mt_buf *news)
{
    struct gng_fault f = {(int)r->number, -1, false};
    char             bytes[MT_GANG_SAID_BYTES];
    ssize_t          n = recv(r->lines, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return mt_ok();
    if (n <= 0) {
        fd_close(&r->lines);
        return mt_ok();
    }
    MT_TRY(mt_buf_append(&r->said, bytes, (size_t)n));
    for (const uint8_t *end; r->said.size && (end = memchr(r->said.data, '\n', r->said.size));) {
        size_t size = (size_t)(end - r->said.data);
        MT_TRY(say(r, news, GNG_WIRE_SAID, 0, mt_view_of(r->said.data, size)));
        r->said.size -= size + 1;
        memmove(r->said.data, end + 1, r->said.size);
    }
    if (r->said.size <= MT_GANG_SAID_BYTES)
        return mt_ok();
    fd_close(&r->lines);
    return say(r, news, GNG_WIRE_FAULT, gng_fault_number(f), mt_view_text("has written a line without an end to MANTA_TORCH_FD"));
}

mt_status gng_rank_read(struct gng_rank *r, int fd, mt_buf *news)
{
    mt_status st = mt_ok();
    if (fd < 0)
        return st;
    if (fd == r->control)
        return control_read(r, news);
    if (fd == r->lines)
        return lines_read(r, news);
    if (fd == r->out)
        (void)pipe_read(r, &r->out, false, news, &st);
    else if (fd == r->err)
        (void)pipe_read(r, &r->err, false, news, &st);
    return st;
}

/* ---- ranks that do nothing ---- */

/* CPU time of processes, and of their children that have ended. */
static int64_t tree_cpu_ms(pid_t root)
{
    pid_t   tree[MT_GANG_TREE_MAX];
    size_t  count = mt_process_tree(root, tree, MT_GANG_TREE_MAX);
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct mt_process_stat stat;
        if (mt_process_stat(tree[i], 0, &stat))
            sum += stat.cpu_ms + stat.children_ms;
    }
    return sum;
}

/* Is a thread of it ready to run, or does it wait for the disk? */
static bool is_at_work(pid_t pid)
{
    struct mt_process_stat stat;
    bool                   is = false;
    DIR                   *threads = mt_process_threads(pid);
    for (pid_t thread; (thread = mt_process_next(threads));)
        is |= mt_process_stat(pid, thread, &stat) && (stat.state == 'R' || stat.state == 'D');
    return is;
}

/* Has it work to do for which the machine has no time? */
static bool tree_is_at_work(pid_t root)
{
    pid_t  tree[MT_GANG_TREE_MAX];
    size_t count = mt_process_tree(root, tree, MT_GANG_TREE_MAX);
    bool   is = false;
    for (size_t i = 0; i < count && !is; i++)
        is = is_at_work(tree[i]);
    return is;
}

int gng_rank_wait_ms(const struct gng_rank *r)
{
    int wait_ms = (int)(r->hang_ms / 4);
    return !r->shepherd || !r->hang_ms ? -1 : wait_ms < MT_GANG_TICK_MS ? MT_GANG_TICK_MS : wait_ms;
}

mt_status gng_rank_look(struct gng_rank *r, bool is_unread, mt_buf *news)
{
    struct gng_fault f = {(int)r->number, -1, false};
    char             text[96];
    if (!r->shepherd || !r->hang_ms)
        return mt_ok();
    int64_t now_ns = mt_now_ns(), idle_ms = (now_ns - r->mark_ns) / 1000000, cpu_ms = tree_cpu_ms(r->shepherd);
    bool    is_too_long = idle_ms > r->hang_ms;
    if (is_unread || (cpu_ms - r->cpu_ms) * 100 > idle_ms * MT_GANG_IDLE_PERCENT || (is_too_long && tree_is_at_work(r->shepherd))) {
        r->mark_ns = now_ns;
        r->cpu_ms = cpu_ms;
    } else if (is_too_long) {
        snprintf(text, sizeof text, "has neither printed nor computed anything for %g s", r->hang_ms / 1e3);
        r->hang_ms = 0;
        return say(r, news, GNG_WIRE_FAULT, gng_fault_number(f), mt_view_text(text));
    }
    return mt_ok();
}
