/* SPDX-License-Identifier: Apache-2.0
 *
 * message.c - process to process, through the raylets: refs, replies, whatever the library says to itself.
 *
 * Owns: nothing. Thread: the logic loop only.
 * Always: a message arrives, or its sender gets CTL_BOUNCE with its id, or one of the two is dead.
 */
#include "raylet/state.h"

static void bounce(struct rlt *r, uint64_t conn, mt_id id, int32_t code, uint32_t subject, uint64_t process)
{
    struct ctl_bounce b = {.code = code, .subject = subject, .process = process};
    r->stats.bounced++;
    rlt_down(r->out, conn, CTL_BOUNCE, id, &b, sizeof b);
}

void rlt_message(struct rlt *r, struct rlt_proc *from, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_message m;
    memcpy(&m, payload, sizeof m);
    if (m.node != r->node) {
        bounce(r, from->conn, record->id, MT_ENODE_DIED, m.subject, m.process);
        return;
    }
    struct rlt_proc *to = rlt_proc_of_process(r, m.process);
    if (!to) {
        bounce(r, from->conn, record->id, MT_EOWNER_DIED, m.subject, m.process);
        return;
    }
    struct rlt_action  *a = rlt_act_record(r->out, RLT_A_SW_DOWN, to->conn, record, payload);
    struct ctl_message *down = (struct ctl_message *)(void *)a->payload;
    down->process = from->process;
    down->node = r->node;
}

void rlt_message_undelivered(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_proc   *to = rlt_proc_of_conn(r, e->conn);
    struct ctl_message m;
    if (e->record.length < LANE_RECORD_SIZE + sizeof m)
        return;
    memcpy(&m, e->payload, sizeof m);
    struct rlt_proc *from = rlt_proc_of_process(r, m.process);
    if (m.node == r->node && from)
        bounce(r, from->conn, e->record.id, to ? MT_EAGAIN : MT_EOWNER_DIED, m.subject, to ? to->process : 0);
}
