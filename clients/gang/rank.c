/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.c - see rank.h. Owns: the shepherd, which is this program once more, and the descriptors.
 */
#include "clients/gang/rank.h"

#include "clients/gang/shepherd.h"
#include "core/base/clock.h"
#include "core/ds/vec.h"
#include "core/sys/child.h"

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
    *r = (struct gng_rank){.control = -1, .out = -1, .err = -1};
}

bool gng_rank_runs(const struct gng_rank *r)
{
    return r->shepherd != 0;
}

/* ---- start ---- */

struct words {
    MT_VEC(char *) argv, env;
};

static bool is_named(const char *variable, const char *other)
{
    size_t size = strcspn(other, "=");
    return strncmp(variable, other, size) == 0 && variable[size] == '=';
}

/* Sets a variable; a later one takes the place of an earlier one. */
static mt_status env_set(struct words *w, char *variable)
{
    for (size_t i = 0; i < w->env.count; i++)
        if (is_named(w->env.data[i], variable)) {
            w->env.data[i] = variable;
            return mt_ok();
        }
    return mt_vec_push(&w->env, variable);
}

static mt_status words_make(struct words *w, mt_view start, bool has_pmi)
{
    mt_reader   r = mt_reader_of(start);
    uint32_t    env = mt_reader_u32(&r), argc = mt_reader_u32(&r);
    static char name[] = GNG_SHEPHERD_NAME, pmi[] = GNG_SHEPHERD_PMI "=4";
    MT_TRY(mt_vec_push(&w->argv, name));
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "MANTA_ROLE", 10) != 0 && strncmp(*e, "MANTA_GANG", 10) != 0 && strncmp(*e, "PMI_", 4) != 0)
            MT_TRY(mt_vec_push(&w->env, *e));
    for (uint32_t i = 0; i < env + argc; i++) {
        const uint8_t *end = memchr(r.at, 0, r.left);
        if (!end)
            return mt_error(MT_EPROTO, 0, "read a rank's words");
        char *text = (char *)mt_reader_bytes(&r, (size_t)(end - r.at) + 1).data;
        MT_TRY(i < env ? env_set(w, text) : mt_vec_push(&w->argv, text));
    }
    if (has_pmi)
        MT_TRY(env_set(w, pmi));
    MT_TRY(mt_vec_push(&w->argv, NULL));
    return mt_vec_push(&w->env, NULL);
}

static mt_status shepherd_start(struct gng_rank *r, const struct words *w, int pmi)
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
    if (pmi >= 0)
        mt_child_give(&o, pmi, GNG_SHEPHERD_PMI_FD);
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

mt_status gng_rank_start(struct gng_rank *r, uint32_t attempt, mt_view start, int pmi, mt_buf *news)
{
    struct words w = {0};
    gng_rank_init(r);
    r->attempt = attempt;
    mt_status st = words_make(&w, start, pmi >= 0);
    if (st.code == 0)
        st = shepherd_start(r, &w, pmi);
    mt_vec_fini(&w.argv);
    mt_vec_fini(&w.env);
    if (pmi >= 0)
        close(pmi);
    if (st.code == 0)
        return mt_ok();
    r->shepherd = 0;
    fd_close(&r->out), fd_close(&r->err), fd_close(&r->control);
    return say(r, news, GNG_WIRE_ENDED, -(int64_t)(st.sys ? st.sys : ENOMEM), mt_view_text("its shepherd can't be started"));
}

void gng_rank_signal(const struct gng_rank *r, int number)
{
    int32_t word = number;
    if (r->shepherd)
        (void)!send(r->control, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
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
    fd_close(&r->out), fd_close(&r->err), fd_close(&r->control);
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

mt_status gng_rank_read(struct gng_rank *r, int fd, mt_buf *news)
{
    mt_status st = mt_ok();
    if (fd < 0)
        return st;
    if (fd == r->control)
        return control_read(r, news);
    if (fd == r->out)
        (void)pipe_read(r, &r->out, false, news, &st);
    else if (fd == r->err)
        (void)pipe_read(r, &r->err, false, news, &st);
    return st;
}
