/* SPDX-License-Identifier: Apache-2.0
 *
 * stack.c - where the processes of this node are: workers write their main thread's stack when they get SIGURG.
 *
 * Owns: struct sh_stacks. Thread: the loop only.
 * Always: a process is not asked while it is in a system call that a signal would cut short (sleep, poll and the like: the
 * user's program may not expect that); then, and of drivers, the call is all that is told.
 */
#include "core/base/limits/raylet.h"
#include "core/sys/file.h"
#include "raylet/shell/conn/conn.h"
#include "raylet/shell/look/look.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct one {
    uint64_t    conn, process;
    int32_t     pid;
    uint32_t    role;
    uint32_t    count; /* of its stacks, before it was asked */
    bool        is_asked;
    const char *program_state;
    char        waits_in[64];
};

struct taking { /* one order */
    struct taking   *next;
    uint64_t         number;
    struct lane_look look;
    uint64_t         due_ms;
    uint64_t         last; /* process */
    bool             has_more;
    uint32_t         count;
    struct one       items[MT_RLT_STACKS];
};

struct sh_stacks {
    struct sh      *sh;
    struct io_timer timer;
    struct taking  *first;
};

/* ---- /proc --------------------------------------------------------------------------------------------------------- */

static bool proc_read(int32_t pid, const char *what, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    ssize_t n = mt_file_read(path, out, size);
    out[strcspn(out, "\n")] = 0;
    return n > 0;
}

/* The system call that the main thread is in; *cut: a signal would end it early. */
static void call_of(int32_t pid, char *out, size_t size, bool *cut)
{
    static const struct {
        long        number;
        const char *name;
        bool        is_cut;
    } calls[] = {
        {SYS_nanosleep, "nanosleep", true},
        {SYS_clock_nanosleep, "clock_nanosleep", true},
        {SYS_poll, "poll", true},
        {SYS_ppoll, "ppoll", true},
        {SYS_select, "select", true},
        {SYS_pselect6, "pselect", true},
        {SYS_epoll_wait, "epoll_wait", true},
        {SYS_epoll_pwait, "epoll_pwait", true},
        {SYS_semtimedop, "semtimedop", true},
        {SYS_pause, "pause", true},
        {SYS_rt_sigtimedwait, "sigtimedwait", true},
        {SYS_futex, "futex", false},
        {SYS_read, "read", false},
        {SYS_write, "write", false},
        {SYS_recvmsg, "recvmsg", false},
        {SYS_recvfrom, "recvfrom", false},
        {SYS_wait4, "wait4", false},
        {SYS_waitid, "waitid", false},
    };
    char text[128], where[64];
    *cut = false;
    out[0] = 0;
    if (!proc_read(pid, "syscall", text, sizeof text)) {
        if (proc_read(pid, "wchan", where, sizeof where) && strcmp(where, "0") != 0)
            snprintf(out, size, "%s", where);
        return;
    }
    if (strncmp(text, "running", 7) == 0)
        return;
    long number = strtol(text, NULL, 10);
    snprintf(out, size, "system call %ld", number);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].number != number)
            continue;
        snprintf(out, size, "%s", calls[i].name);
        *cut = calls[i].is_cut;
    }
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

struct choice {
    struct taking *t;
    uint64_t       after;
};

/* Keeps the MT_RLT_STACKS processes with the lowest numbers above `after`, sorted. */
static void choose(void *user, const struct rlt_proc_view *v)
{
    struct choice *c = user;
    struct taking *t = c->t;
    uint32_t       at = t->count;
    char           pid[12];
    snprintf(pid, sizeof pid, "%d", v->pid);
    if (v->process <= c->after || v->pid <= 0 || v->role == CTL_ZYGOTE || lane_look_hides(&t->look, 1, pid))
        return;
    while (at > 0 && t->items[at - 1].process > v->process)
        at--;
    t->has_more |= t->count == MT_RLT_STACKS;
    if (at == MT_RLT_STACKS)
        return;
    uint32_t last = t->count < MT_RLT_STACKS ? t->count++ : t->count - 1;
    memmove(&t->items[at + 1], &t->items[at], (last - at) * sizeof t->items[0]);
    t->items[at] = (struct one){.conn = v->conn, .process = v->process, .pid = v->pid, .role = v->role, .program_state = v->state};
}

static void ask_one(struct sh *sh, struct one *o)
{
    struct sh_conn *c = sh_conn_find(sh, o->conn);
    bool            is_cut;
    call_of(o->pid, o->waits_in, sizeof o->waits_in, &is_cut);
    if (!c || !c->park || o->role != CTL_WORKER || is_cut)
        return;
    o->count = shm_load32(&c->park->stack_count);
    o->is_asked = sh_conn_signal(c, SIGURG) == 0;
}

static bool has_told(struct sh *sh, const struct one *o)
{
    struct sh_conn *c = sh_conn_find(sh, o->conn);
    return !o->is_asked || !c || !c->park || shm_load32_acquire(&c->park->stack_count) != o->count;
}

/* ---- answering ----------------------------------------------------------------------------------------------------- */

static mt_status row_of(struct sh *sh, struct taking *t, const struct one *o, struct mt_rows *rows)
{
    struct sh_conn *c = sh_conn_find(sh, o->conn);
    char            node[12], pid[12], running[LANE_EVENT_NAME_SIZE] = "", stack[sizeof c->park->stack + 1] = "";
    const char     *none = o->role != CTL_WORKER ? "a driver is not asked"
                           : !o->is_asked        ? "not asked: a signal would end the call that it waits in"
                                                 : "it has not answered";
    snprintf(node, sizeof node, "%u", sh->node);
    snprintf(pid, sizeof pid, "%d", o->pid);
    if (c && c->ring && shm_load64(&c->ring->events->begun) > shm_load64(&c->ring->events->ended))
        sh_ring_running(c->ring, running);
    if (c && c->park && o->is_asked && has_told(sh, o))
        shm_read(stack, c->park->stack, sizeof c->park->stack);
    for (char *at = stack; *at; at++)
        if ((unsigned char)*at < ' ' && *at != '\n')
            *at = '?';
    const char *cells[LANE_LOOK_COLUMNS] = {
        node, pid, o->role == CTL_WORKER ? "worker" : "driver", running, o->program_state, o->waits_in, stack[0] ? stack : none};
    return sh_row_add(&t->look, cells, rows);
}

static void finish(struct sh *sh, struct taking *t)
{
    struct mt_rows   rows = {0};
    mt_status        st = mt_ok();
    struct sh_cursor next = {t->has_more ? 'w' : 0, {t->last, 0}};
    for (uint32_t i = 0; i < t->count && st.code == 0; i++)
        st = row_of(sh, t, &t->items[i], &rows);
    if (st.code)
        sh_look_refuse(sh, t->number, st.code, st.what);
    else
        sh_look_answer(sh, t->number, LANE_LOOK_STACKS, &rows, &next, NULL);
    mt_rows_fini(&rows);
    free(t);
}

static void timer_fired(struct io_timer *timer)
{
    struct sh_stacks *s = mt_container_of(timer, struct sh_stacks, timer);
    struct taking   **link = &s->first;
    while (*link) {
        struct taking *t = *link;
        bool           is_done = io_now_ms() >= t->due_ms;
        for (uint32_t i = 0; !is_done && i < t->count && has_told(s->sh, &t->items[i]); i++)
            is_done = i + 1 == t->count;
        if (!is_done) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        finish(s->sh, t);
    }
    if (s->first)
        io_timer_start(s->sh->loop, &s->timer, MT_RLT_STACK_POLL_MS);
}

void sh_stacks(struct sh *sh, uint64_t number, const struct lane_look *look, struct sh_cursor at)
{
    struct taking *t = calloc(1, sizeof *t);
    struct choice  c = {.t = t, .after = at.at[0]};
    if (!sh->stacks && (sh->stacks = calloc(1, sizeof *sh->stacks))) {
        sh->stacks->sh = sh;
        sh->stacks->timer.fire = timer_fired;
    }
    if (!t || !sh->stacks) {
        free(t);
        sh_look_refuse(sh, number, MT_ENOMEM, "no memory for stacks");
        return;
    }
    t->number = number;
    t->look = *look;
    t->due_ms = io_now_ms() + MT_RLT_STACK_MS;
    rlt_each_proc(sh->core, choose, &c);
    for (uint32_t i = 0; i < t->count; i++)
        ask_one(sh, &t->items[i]);
    t->last = t->count ? t->items[t->count - 1].process : 0;
    t->next = sh->stacks->first;
    sh->stacks->first = t;
    io_timer_start(sh->loop, &sh->stacks->timer, 1);
}

void sh_stacks_stop(struct sh *sh)
{
    if (!sh->stacks)
        return;
    io_timer_stop(&sh->stacks->timer);
    while (sh->stacks->first) {
        struct taking *t = sh->stacks->first;
        sh->stacks->first = t->next;
        free(t);
    }
    free(sh->stacks);
    sh->stacks = NULL;
}
