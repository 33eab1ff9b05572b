/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - what workers print, for drivers that want to see it: read from a pipe a worker, cut into lines, sent on.
 *
 * Owns: every struct sh_output, from the fork of its worker to the end of its pipe. Thread: the loop only.
 * Always: a pipe is read as fast as its worker writes, so nobody waits for a reader; MT_RLT_OUTPUT_BYTES of a worker go on in a
 * second, the rest is dropped and counted. What waits for a driver is bounded by its down queue (MT_SW_DOWN_MESSAGES_MAX).
 */
#include "core/base/limits/raylet.h"
#include "raylet/shell/conn/conn.h"

#include "core/wire/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEXT_MAX = 8 * 1024 };
enum { ANSWER_DUE = 1, READS_MAX = 16 }; /* of a worker that prints without end */

struct sh_output {
    struct sh_output      *next;
    struct sh             *sh;
    struct io_watch        watch;
    int                    fd;
    uint64_t               conn;
    struct rlt_output_view to;
    int32_t                pid;
    char                   name[LANE_EVENT_NAME_SIZE];
    uint64_t               second;  /* in which `passed` counts */
    uint64_t               passed;  /* bytes */
    uint64_t               dropped; /* bytes, not yet said */
    size_t                 held;    /* of a line that has not ended */
    char                   line[MT_RLT_OUTPUT_LINE];
    size_t                 size; /* of lines not yet sent */
    char                   text[TEXT_MAX];
};

static void send_text(struct sh_output *o)
{
    struct {
        struct ctl_message head;
        struct lane_output from;
        char               text[TEXT_MAX];
    } m = {.head = {.process = o->to.driver, .node = o->to.node, .subject = LANE_OUTPUT_SUBJECT}};
    size_t           size = sizeof m - TEXT_MAX + o->size;
    struct rlt_event e;
    if (!o->size)
        return;
    m.from.pid = o->pid;
    m.from.node = o->sh->node;
    memcpy(m.from.name, o->name, sizeof m.from.name);
    memcpy(m.text, o->text, o->size);
    o->size = 0;
    sh_event(&e, RLT_EV_UP); /* as if the worker had sent it: the way of messages between processes is there */
    e.up.conn = o->conn;
    e.up.record = (struct lane_record){
        .length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = CTL_MESSAGE, .id = mt_id_make(1, 1, 0)};
    e.up.payload = sh_keep(o->sh, size);
    if (!e.up.payload)
        return;
    memcpy((void *)(uintptr_t)e.up.payload, &m, size);
    sh_post(o->sh, &e);
}

static void add_line(struct sh_output *o, const char *line, size_t size)
{
    if (o->size + size + 1 > TEXT_MAX)
        send_text(o);
    memcpy(o->text + o->size, line, size);
    o->text[o->size + size] = '\n';
    o->size += size + 1;
}

/* At once, for the next line that says how much it was may never come. */
static void say_dropping(struct sh_output *o)
{
    char text[80];
    int  n = snprintf(text, sizeof text, "[lines are dropped: a worker may print %d KiB in a second]", MT_RLT_OUTPUT_BYTES >> 10);
    add_line(o, text, (size_t)n);
}

static void say_dropped(struct sh_output *o)
{
    char text[80];
    int  n;
    if (!o->dropped)
        return;
    n = snprintf(text, sizeof text, "[%llu bytes were dropped]", (unsigned long long)o->dropped);
    o->dropped = 0;
    add_line(o, text, (size_t)n);
}

/* One line, or what fits of one. */
static void take_line(struct sh_output *o, const char *line, size_t size)
{
    uint64_t second = io_now_ms() / 1000;
    if (second != o->second) {
        o->second = second;
        o->passed = 0;
    }
    if (o->passed + size + 1 > MT_RLT_OUTPUT_BYTES) {
        if (!o->dropped)
            say_dropping(o);
        o->dropped += size + 1;
        return;
    }
    say_dropped(o);
    o->passed += size + 1;
    add_line(o, line, size);
}

static void take_bytes(struct sh_output *o, const char *at, size_t size)
{
    const char *end = at + size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t      piece = (size_t)((stop ? stop : end) - at), room = sizeof o->line - o->held;
        if (piece > room) {
            piece = room;
            stop = NULL;
        }
        if (stop && !o->held) {
            take_line(o, at, piece);
        } else {
            memcpy(o->line + o->held, at, piece);
            o->held += piece;
            if (stop || o->held == sizeof o->line) {
                take_line(o, o->line, o->held);
                o->held = 0;
            }
        }
        at += piece + (stop != NULL);
    }
}

/* Who it is, as far as that is known by now. */
static void look_up(struct sh_output *o)
{
    struct rlt_output_view to;
    struct sh_conn        *c = sh_conn_find(o->sh, o->conn);
    if (rlt_output_of(o->sh->core, o->conn, &to))
        o->to = to;
    if (c && c->pid > 0)
        o->pid = c->pid;
    if (c && c->ring)
        sh_ring_running(c->ring, o->name);
}

static void output_free(struct sh_output *o)
{
    struct sh_output **link = &o->sh->outputs;
    while (*link != o)
        link = &(*link)->next;
    *link = o->next;
    io_watch_stop(&o->watch);
    close(o->fd);
    free(o);
}

/* False: nothing is left to read now, or ever. */
static bool output_read(struct sh_output *o)
{
    static char bytes[MT_RLT_OUTPUT_READ]; /* one loop thread, one piece at a time */
    ssize_t     n = read(o->fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    look_up(o);
    if (n > 0) {
        take_bytes(o, bytes, (size_t)n);
        send_text(o);
        return true;
    }
    if (o->held)
        take_line(o, o->line, o->held);
    say_dropped(o);
    send_text(o);
    output_free(o);
    return false;
}

static void output_ready(struct io_watch *watch, unsigned events)
{
    (void)events;
    output_read(mt_container_of(watch, struct sh_output, watch));
}

int sh_output_open(struct sh *sh, uint64_t conn)
{
    struct sh_output      *o;
    struct rlt_output_view to;
    int                    ends[2];
    if (!rlt_output_of(sh->core, conn, &to) || !to.is_wanted || pipe2(ends, O_CLOEXEC))
        return -1;
    o = calloc(1, sizeof *o);
    if (o && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0) {
        o->sh = sh;
        o->fd = ends[0];
        o->conn = conn;
        o->to = to;
        o->watch.ready = output_ready;
        if (io_watch_start(sh->loop, &o->watch, o->fd, IO_READABLE).code == 0) {
            o->next = sh->outputs;
            sh->outputs = o;
            return ends[1];
        }
    }
    free(o);
    close(ends[0]);
    close(ends[1]);
    return -1;
}

/* ---- a driver that leaves ---- */

static void read_all(struct sh *sh, const struct sh_conn *driver)
{
    for (struct sh_output *o = sh->outputs, *next; o; o = next) {
        next = o->next;
        for (int i = 0; i < READS_MAX && o->to.driver == driver->process && o->to.node == sh->node && output_read(o); i++)
            ;
    }
}

static void answer(struct sh *sh, const struct rlt_ev_record *e)
{
    struct {
        struct ctl_reply reply;
        uint32_t         nodes[CTL_PRINTED_NODES_MAX];
    } m = {.reply.code = MT_OK};
    const uint32_t *nodes;
    size_t          count = rlt_works_elsewhere(sh->core, e->conn, &nodes);
    if (count > CTL_PRINTED_NODES_MAX)
        count = CTL_PRINTED_NODES_MAX;
    if (count)
        memcpy(m.nodes, nodes, count * sizeof *nodes);
    m.reply.size = (uint32_t)(count * sizeof *nodes);
    sh_send_down(sh, e->conn, CTL_REPLY, e->record.id, &m, sizeof m.reply + m.reply.size);
}

/* It comes here twice: what was read is posted, and so is the word that an answer is due, behind it. */
bool sh_output_record(struct sh *sh, const struct rlt_ev_record *e)
{
    const struct sh_conn *driver = sh_conn_find(sh, e->conn);
    struct rlt_event      due;
    if (e->record.kind != CTL_PRINTED)
        return false;
    if (!driver)
        return true;
    if (e->record.aux == ANSWER_DUE) {
        answer(sh, e);
        return true;
    }
    read_all(sh, driver);
    sh_event(&due, RLT_EV_UP);
    due.up = (struct rlt_ev_record){.conn = e->conn, .record = e->record};
    due.up.record.aux = ANSWER_DUE;
    sh_post(sh, &due);
    return true;
}

void sh_outputs_stop(struct sh *sh)
{
    while (sh->outputs)
        output_free(sh->outputs);
}
