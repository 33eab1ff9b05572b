/* SPDX-License-Identifier: Apache-2.0
 *
 * provider.c - the provider's program: started when it is first needed, and again when it has ended; its requests, each with the
 *              time that it has for the answer.
 *
 * Owns:    the child, its pipes, and what was asked and is not answered.
 * Always:  each LIST, LAUNCH and TERMINATE is answered once to the core: by the program, or by us when the time is over.
 */
#include "scheduler/head/shell/provider/private.h"

#include "core/base/log.h"
#include "core/io/private.h"
#include "core/sys/child.h"
#include "core/sys/process.h"
#include "core/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATH_SIZE = 4096, RESTART_MS = 1000, LOOK_MS = 200, READ_SIZE = 65536, OUT_MAX = 16 * 1024 * 1024 };

struct asked {
    enum head_provide_op op;
    uint64_t             number, asked_ms, due_ms;
};

struct head_provider {
    struct io_loop *loop;
    const char     *cluster, *head_file;
    void (*answered)(void *user, const struct head_provided *answer);
    void           *user;
    char            name[PATH_SIZE]; /* as the cluster file says; "": none */
    mt_buf          configure;       /* its line */
    pid_t           pid;             /* 0: it does not run */
    int             to, from;        /* its standard input and output; -1: none */
    struct io_watch reads, writes;
    struct io_timer timer;
    mt_buf          in, out;
    size_t          out_at; /* of `out` was written */
    uint64_t        started_ms, heard_ms;
    MT_VEC(struct asked) asked;
    MT_VEC(pid_t) ended; /* not reaped yet */
};

/* ---- answers to the core ---- */

static void give(struct head_provider *p, const struct asked *a, int outcome, const struct provider_answer *said, const char *why)
{
    struct head_provided answer = {.op = a->op, .number = a->number, .outcome = outcome, .handle = "", .text = why};
    if (said) {
        answer.handle = said->handle;
        answer.text = said->text;
        answer.listed = said->listed.data;
        answer.count = said->listed.count;
    }
    p->answered(p->user, &answer);
}

static void give_all(struct head_provider *p, const char *why)
{
    while (p->asked.count > 0) {
        struct asked a = p->asked.data[0];
        mt_vec_remove(&p->asked, 0);
        give(p, &a, SCL_UNKNOWN, NULL, why);
    }
}

/* ---- the program ---- */

static void reap(struct head_provider *p)
{
    for (size_t i = p->ended.count; i-- > 0;)
        if (waitpid(p->ended.data[i], NULL, WNOHANG) != 0)
            mt_vec_remove_swap(&p->ended, i);
}

static void end(struct head_provider *p, const char *why)
{
    if (!p->pid)
        return;
    mt_log(MT_LOG_WARN, "provider_ended", "name=%s why=\"%s\"", p->name, why);
    io_watch_stop(&p->reads);
    io_watch_stop(&p->writes);
    close(p->to);
    close(p->from);
    p->to = p->from = -1;
    kill(p->pid, SIGKILL);
    if (mt_vec_push(&p->ended, p->pid).code != 0)
        (void)waitpid(p->pid, NULL, WNOHANG);
    p->pid = 0;
    io_private_wipe(&p->out); /* tickets may be among it */
    p->in.size = p->out_at = 0;
    reap(p);
    give_all(p, why);
}

static void flush(struct head_provider *p)
{
    while (p->pid && p->out_at < p->out.size) {
        ssize_t n = write(p->to, p->out.data + p->out_at, p->out.size - p->out_at);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            io_watch_set(&p->writes, IO_WRITABLE);
            return;
        }
        if (n < 0) {
            end(p, "it reads no more");
            return;
        }
        p->out_at += (size_t)n;
    }
    if (p->out.size)
        explicit_bzero(p->out.data, p->out.size); /* tickets may have been among it */
    p->out.size = p->out_at = 0;
    if (p->pid)
        io_watch_set(&p->writes, 0);
}

static void writable(struct io_watch *watch, unsigned events)
{
    struct head_provider *p = mt_container_of(watch, struct head_provider, writes);
    if (events & IO_HANGUP)
        end(p, "it has ended");
    else
        flush(p);
}

static const char *op_name(enum head_provide_op op)
{
    return op == HEAD_PROVIDE_LIST ? "list" : op == HEAD_PROVIDE_LAUNCH ? "launch" : "terminate";
}

static void line_take(struct head_provider *p, mt_view line)
{
    struct provider_answer said;
    mt_status              st = head_provider_read(line, p->cluster, &said);
    if (st.code)
        mt_log(MT_LOG_WARN, "provider_garbage", "name=%s line=\"%.*s\"", p->name, line.size < 200 ? (int)line.size : 200,
               (const char *)line.data);
    for (size_t i = 0; i < p->asked.count && st.code == 0; i++) {
        struct asked a = p->asked.data[i];
        if (a.number != said.number || strcmp(op_name(a.op), said.op) != 0)
            continue;
        mt_vec_remove(&p->asked, i);
        give(p, &a, said.is_ok ? SCL_DONE : SCL_REFUSED, &said, said.text);
        break;
    }
    mt_vec_fini(&said.listed);
}

static void lines_take(struct head_provider *p)
{
    size_t at = 0;
    for (const uint8_t *end_of; p->pid && (end_of = memchr(p->in.data + at, '\n', p->in.size - at)) != NULL;) {
        size_t size = (size_t)(end_of - (p->in.data + at));
        line_take(p, mt_view_of(p->in.data + at, size));
        at += size + 1;
    }
    if (!p->pid)
        return;
    memmove(p->in.data, p->in.data + at, p->in.size - at);
    p->in.size -= at;
    if (p->in.size > MT_SCL_LINE_MAX)
        end(p, "it floods: a line of more than 4 MiB");
}

static void readable(struct io_watch *watch, unsigned events)
{
    struct head_provider *p = mt_container_of(watch, struct head_provider, reads);
    ssize_t               n = -1;
    if (mt_buf_reserve(&p->in, READ_SIZE).code == 0)
        n = read(p->from, p->in.data + p->in.size, READ_SIZE);
    if (n > 0) {
        p->heard_ms = io_now_ms();
        p->in.size += (size_t)n;
        lines_take(p);
    } else if (n == 0 || (events & IO_HANGUP) || (errno != EAGAIN && errno != EINTR)) {
        end(p, "it has ended");
    }
}

static bool watch_start(struct head_provider *p, int to, int from)
{
    p->to = to;
    p->from = from;
    p->reads.ready = readable;
    p->writes.ready = writable;
    if (io_watch_start(p->loop, &p->reads, from, IO_READABLE).code)
        return false;
    if (io_watch_start(p->loop, &p->writes, to, IO_WRITABLE).code) {
        io_watch_stop(&p->reads);
        return false;
    }
    return true;
}

static mt_status say_hello(struct head_provider *p)
{
    MT_TRY(mt_buf_printf(&p->out, "{\"op\":\"hello\",\"number\":0,\"version\":1,\"head_file\":"));
    MT_TRY(mt_json_put_text(&p->out, p->head_file));
    MT_TRY(mt_buf_printf(&p->out, "}\n"));
    return mt_buf_append(&p->out, p->configure.data, p->configure.size);
}

/* NULL, or why not. */
static const char *run(struct head_provider *p)
{
    char path[PATH_SIZE];
    int  to[2], from[2];
    if (!p->name[0])
        return "there is no provider";
    if (pipe2(to, O_CLOEXEC) != 0)
        return "no descriptors are left";
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        return "no descriptors are left";
    }
    const char          *program = strchr(p->name, '/') ? p->name : mt_process_beside("manta-provider", path, sizeof path);
    char                *argv[] = {(char *)(uintptr_t)program, p->name, NULL};
    struct mt_child_opts o = {.program = program,
                              .argv = argv,
                              .env = environ,
                              .session = MT_CHILD_SESSION,
                              .resets_signals = true,
                              .dies_with_parent = true};
    mt_child_give(&o, to[0], 0);
    mt_child_give(&o, from[1], 1);
    mt_status st = mt_child_start(&o, &p->pid);
    close(to[0]);
    close(from[1]);
    p->started_ms = p->heard_ms = io_now_ms();
    if (st.code || !watch_start(p, to[1], from[0]) || say_hello(p).code) {
        if (st.code == 0)
            end(p, "it could not be watched");
        else
            close(to[1]), close(from[0]);
        p->pid = 0;
        return "its program can't be run";
    }
    mt_log(MT_LOG_INFO, "provider_started", "name=%s pid=%d", p->name, (int)p->pid);
    return NULL;
}

/* ---- time ---- */

static void look(struct io_timer *timer)
{
    struct head_provider *p = mt_container_of(timer, struct head_provider, timer);
    uint64_t              now = io_now_ms();
    reap(p);
    for (size_t i = 0; i < p->asked.count;) {
        struct asked a = p->asked.data[i];
        if (now < a.due_ms) {
            i++;
            continue;
        }
        mt_vec_remove(&p->asked, i);
        give(p, &a, SCL_UNKNOWN, NULL, "the provider did not answer in time");
        if (p->heard_ms <= a.asked_ms) {
            end(p, "it did not answer anything in time");
            break;
        }
        i = 0; /* an answer may ask more */
    }
    if (p->asked.count || p->ended.count)
        io_timer_start(p->loop, &p->timer, LOOK_MS);
}

/* ---- the door ---- */

struct head_provider *head_provider_new(struct io_loop *loop, const char *cluster, const char *head_file,
                                        void (*answered)(void *user, const struct head_provided *answer), void *user)
{
    struct head_provider *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->loop = loop;
    p->cluster = cluster;
    p->head_file = head_file;
    p->answered = answered;
    p->user = user;
    p->to = p->from = -1;
    p->timer.fire = look;
    return p;
}

/* "NAME", NUL, the line: the program goes on with it, or is another one from now on. */
static void configure(struct head_provider *p, const struct head_bytes *bytes)
{
    const char *name = (const char *)bytes->data;
    size_t      length = strnlen(name, bytes->size);
    if (length + 1 >= bytes->size || length >= sizeof p->name)
        return;
    if (strcmp(p->name, name) != 0)
        end(p, "another one takes its place");
    memcpy(p->name, name, length + 1);
    p->configure.size = 0;
    if (mt_buf_append(&p->configure, bytes->data + length + 1, bytes->size - length - 1).code ||
        mt_buf_append(&p->configure, "\n", 1).code)
        p->configure.size = 0;
    p->started_ms = 0;
    if (p->pid && mt_buf_append(&p->out, p->configure.data, p->configure.size).code == 0)
        flush(p);
}

/* A request, with the ticket as its last member. */
static mt_status line_add(struct head_provider *p, mt_view line, mt_view join)
{
    mt_buf text = {0};
    if (join.size == 0) {
        MT_TRY(mt_buf_append(&p->out, line.data, line.size));
        return mt_buf_append(&p->out, "\n", 1);
    }
    MT_TRY(mt_buf_append(&p->out, line.data, line.size - 1));
    MT_TRY(mt_buf_printf(&p->out, ",\"join\":"));
    mt_status st = mt_buf_append(&text, join.data, join.size);
    if (st.code == 0)
        st = mt_buf_terminate(&text);
    if (st.code == 0)
        st = mt_json_put_text(&p->out, (const char *)text.data);
    io_private_wipe(&text);
    return st.code ? st : mt_buf_printf(&p->out, "}\n");
}

void head_provider_order(struct head_provider *p, const struct head_action *action, mt_view join)
{
    uint64_t     now = io_now_ms();
    struct asked a = {action->provide.op, action->provide.number, now, now + action->provide.limit_ms};
    const char  *why = NULL;
    if (a.op == HEAD_PROVIDE_OPEN) {
        configure(p, action->provide.line);
        return;
    }
    if (a.op == HEAD_PROVIDE_CLOSE) {
        end(p, "the cluster is down");
        p->name[0] = '\0';
        return;
    }
    if (!p->pid)
        why = p->started_ms && now - p->started_ms < RESTART_MS ? "the provider has just ended: see the head's log" : run(p);
    if (!why && p->out.size - p->out_at > OUT_MAX)
        why = "the provider reads nothing";
    if (!why && (mt_vec_push(&p->asked, a).code ||
                 line_add(p, mt_view_of(action->provide.line->data, action->provide.line->size), join).code))
        why = "the head is out of memory";
    if (why) {
        give(p, &a, SCL_REFUSED, NULL, why); /* it was never asked */
        return;
    }
    if (!io_timer_is_started(&p->timer))
        io_timer_start(p->loop, &p->timer, LOOK_MS);
    flush(p);
}

void head_provider_free(struct head_provider *p)
{
    if (!p)
        return;
    p->asked.count = 0;
    end(p, "the head ends");
    io_timer_stop(&p->timer);
    reap(p);
    mt_vec_fini(&p->asked);
    mt_vec_fini(&p->ended);
    mt_buf_fini(&p->in);
    io_private_wipe(&p->out);
    mt_buf_fini(&p->configure);
    free(p);
}
