/* SPDX-License-Identifier: Apache-2.0
 *
 * proc.c - one process of this node: its entry, its greeting's texts, the word that it is to leave, how its end is told.
 *
 * Owns: nothing; procs/process.c ends what begins here. Thread: the logic loop only.
 */
#include "raylet/core/pool/pool.h"

#include "core/base/machine.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/*   GREETING --CTL_HELLO--> ALIVE --socket or process ends--> DYING --rings read, status known or late--> gone
 *      '--------- ends, or has not greeted within its time ------------^
 */
static const char *const proc_names[] = {[PROC_GREETING] = "GREETING", [PROC_ALIVE] = "ALIVE", [PROC_DYING] = "DYING"};
static const uint32_t    proc_next[] = {
       [PROC_GREETING] = MT_STATE(PROC_ALIVE) | MT_STATE(PROC_DYING),
       [PROC_ALIVE] = MT_STATE(PROC_DYING),
       [PROC_DYING] = 0,
};
static const struct mt_machine proc_machine = MT_MACHINE("process", proc_names, proc_next);

void rlt_proc_set_state(struct rlt_proc *p, enum rlt_proc_state next)
{
    MT_TRANSITION(&proc_machine, p->state, next);
    p->state = next;
}

struct rlt_proc *rlt_proc_new(struct rlt *r, uint64_t conn)
{
    struct rlt_proc *p = rlt_calloc(sizeof *p);
    p->conn = conn;
    p->pid = -1;
    rlt_list_init(&p->classes);
    rlt_list_init(&p->owned);
    rlt_list_init(&p->served);
    rlt_list_init(&p->monitors);
    rlt_list_init(&p->in_idle);
    p->timer.kind = RLT_TIMER_PROC;
    rlt_map_put(&r->conns, mt_map_key(conn), p);
    rlt_timer_set(r, &p->timer, r->now + MT_RLT_START_MS * RLT_MS);
    return p;
}

/* argc + envc + 1 texts, each with its NUL, fill strings_size exactly. */
bool rlt_hello_strings_ok(const struct ctl_hello *h, const uint8_t *strings, size_t size)
{
    uint64_t texts = 0;
    if (h->strings_size != size || size > CTL_HELLO_STRINGS_MAX || h->argc == 0)
        return false;
    for (size_t i = 0; i < size; i++)
        texts += strings[i] == 0;
    return size && strings[size - 1] == 0 && texts == (uint64_t)h->argc + h->envc + 1;
}

void rlt_proc_leave(struct rlt *r, struct rlt_proc *p, uint64_t limit_ms, const char *why)
{
    struct ctl_reply reply = {.code = MT_OK};
    if (p->is_leaving || p->state != PROC_ALIVE)
        return;
    p->is_leaving = true;
    snprintf(reply.text, sizeof reply.text, "%s", why);
    rlt_down(r->out, p->conn, CTL_SHUTDOWN, (mt_id){0, 0}, &reply, sizeof reply);
    rlt_timer_set(r, &p->timer, r->now + limit_ms * RLT_MS);
}

bool rlt_pool_has_zygote(const struct rlt_proc *worker)
{
    const struct rlt_proc *zygote = worker->job ? worker->job->zygote : NULL;
    return zygote && zygote->conn == worker->forked_by && zygote->state != PROC_DYING;
}

void rlt_proc_describe(const struct rlt *r, const struct rlt_proc *p, char *text, size_t size)
{
    bool        is_zygote = p->role == CTL_ZYGOTE || (p->is_child && !p->forked_by);
    const char *role = p->role == CTL_DRIVER ? "driver" : is_zygote ? "zygote" : "worker";
    char        how[96] = "ended";
    if (p->stopped) {
        snprintf(text, size, "%s pid %d on node %u (%s) was stopped: %s", role, p->pid, r->node, r->config.node_name, p->stopped);
        return;
    }
    if (p->has_status && WIFSIGNALED(p->status)) {
        const char *name = sigabbrev_np(WTERMSIG(p->status));
        snprintf(how, sizeof how, "was killed by signal %d (SIG%s)", WTERMSIG(p->status), name ? name : "?");
    } else if (p->has_status && WIFEXITED(p->status)) {
        snprintf(how, sizeof how, "exited with status %d", WEXITSTATUS(p->status));
    } else if (p->forked_by && !rlt_pool_has_zygote(p)) {
        snprintf(how, sizeof how, "ended with its zygote"); /* who would have told the status */
    }
    snprintf(text, size, "%s pid %d on node %u (%s) %s%s%s", role, p->pid, r->node, r->config.node_name, how, p->crash ? "\n" : "",
             p->crash ? p->crash : "");
}
