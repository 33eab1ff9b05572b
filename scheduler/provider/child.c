/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - programs that a provider asks: run at once, given their input, listened to, and killed when their time is over.
 *
 * Owns: the children, until children_run returns. Thread: main.
 * Always: a child counts as ended when its process has, whoever still has its output open: what it has left behind (ssh's
 *         master, a daemon) is not waited for.
 */
#include "scheduler/provider/provider.h"

#include "core/base/clock.h"
#include "core/sys/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { WATCHED = 4, OUT_MAX = 8 * 1024 * 1024 };

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void start(struct child *c)
{
    int in[2], out[2], wrong[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(wrong, O_CLOEXEC) != 0)
        exit(1); /* the head starts another */
    struct mt_child_opts o = {.argv = (char *const *)(uintptr_t)c->argv,
                              .env = environ,
                              .session = MT_CHILD_GROUP,
                              .resets_signals = true,
                              .fds = {{in[0], 0}, {out[1], 1}, {wrong[1], 2}},
                              .fd_count = 3};
    mt_status            st = mt_child_start(&o, &c->pid);
    close(in[0]);
    close(out[1]);
    close(wrong[1]);
    c->status = -1;
    c->to = in[1];
    c->from[0] = out[0];
    c->from[1] = wrong[0];
    c->ends = st.code ? -1 : (int)syscall(SYS_pidfd_open, c->pid, 0);
    for (int i = 0; i < 3; i++)
        (void)fcntl(i == 2 ? c->to : c->from[i], F_SETFL, O_NONBLOCK);
    if (st.code == 0)
        return;
    c->pid = 0;
    if (mt_buf_printf(&c->wrong, "%s: %s", c->argv[0], strerror(st.sys ? st.sys : ENOENT)).code)
        exit(1);
}

static void give(struct child *c)
{
    size_t  size = c->input ? strlen(c->input) : 0;
    ssize_t n = c->given < size ? write(c->to, c->input + c->given, size - c->given) : 0;
    if (n > 0)
        c->given += (size_t)n;
    if (c->given == size || (n < 0 && errno != EAGAIN && errno != EINTR))
        shut(&c->to);
}

/* What is there to be read of one of its two; the rest of a flood is dropped. */
static void take(struct child *c, int which)
{
    mt_buf *into = which == 0 ? &c->out : &c->wrong;
    char    bytes[16384];
    for (int turns = 0; turns < 64; turns++) {
        ssize_t n = c->from[which] >= 0 ? read(c->from[which], bytes, sizeof bytes) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            shut(&c->from[which]);
            return;
        }
        if (into->size < OUT_MAX && mt_buf_append(into, bytes, (size_t)n).code)
            exit(1);
    }
}

static void end(struct child *c)
{
    int status = 0;
    if (c->pid) {
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
            ;
        c->status = WIFEXITED(status) && !c->is_late ? WEXITSTATUS(status) : -1;
    }
    take(c, 0);
    take(c, 1);
    shut(&c->to);
    shut(&c->from[0]);
    shut(&c->from[1]);
    shut(&c->ends);
    c->pid = 0;
    if (mt_buf_terminate(&c->out).code || mt_buf_terminate(&c->wrong).code)
        exit(1);
}

/* Waits for something of any of them; false: none is left. */
static bool look(struct child *children, size_t count, struct pollfd *fds, int wait_ms)
{
    bool runs = false;
    for (size_t i = 0; i < count; i++) {
        struct child *c = &children[i];
        struct pollfd each[WATCHED] = {{c->ends, POLLIN, 0}, {c->to, POLLOUT, 0}, {c->from[0], POLLIN, 0}, {c->from[1], POLLIN, 0}};
        memcpy(fds + WATCHED * i, each, sizeof each);
        runs = runs || c->pid;
    }
    if (!runs || poll(fds, (nfds_t)(WATCHED * count), wait_ms) <= 0)
        return runs;
    for (size_t i = 0; i < count; i++) {
        const struct pollfd *at = fds + WATCHED * i;
        if (at[1].revents)
            give(&children[i]);
        for (int which = 0; which < 2; which++)
            if (at[2 + which].revents)
                take(&children[i], which);
        if (at[0].revents)
            end(&children[i]);
    }
    return true;
}

void children_run(struct child *children, size_t count, int limit_ms)
{
    struct pollfd *fds = calloc(WATCHED * count + 1, sizeof *fds);
    int64_t        end_ms = mt_now_ms() + limit_ms, left = limit_ms;
    if (!fds)
        exit(1);
    for (size_t i = 0; i < count; i++) {
        start(&children[i]);
        if (!children[i].pid)
            end(&children[i]);
    }
    while (left > 0 && look(children, count, fds, (int)left))
        left = end_ms - mt_now_ms();
    for (size_t i = 0; i < count; i++)
        if (children[i].pid) {
            children[i].is_late = true;
            kill(-children[i].pid, SIGKILL);
            end(&children[i]);
        }
    free(fds);
}

void children_free(struct child *children, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mt_buf_fini(&children[i].out);
        mt_buf_fini(&children[i].wrong);
    }
}

void child_why(const struct child *c, char out[TEXT_SIZE])
{
    const char *text = (const char *)c->wrong.data;
    size_t      stop = c->wrong.size;
    while (stop > 0 && (text[stop - 1] == '\n' || text[stop - 1] == '\r'))
        stop--;
    size_t at = stop;
    while (at > 0 && text[at - 1] != '\n')
        at--;
    if (c->is_late)
        snprintf(out, TEXT_SIZE, "%.100s took too long", c->argv[0]);
    else if (stop > at)
        snprintf(out, TEXT_SIZE, "%.*s", (int)(stop - at), text + at);
    else
        snprintf(out, TEXT_SIZE, "%.100s ended with status %d", c->argv[0], c->status);
}
