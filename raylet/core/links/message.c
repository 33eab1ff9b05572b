/* SPDX-License-Identifier: Apache-2.0
 *
 * message.c - process to process, through the raylets: refs, replies, whatever the library says to itself.
 *
 * Owns: nothing. Thread: the logic loop only.
 * Always: a message arrives, or its sender gets CTL_BOUNCE with its id, or one of the two is dead.
 */
#include "raylet/core/links/links.h"

static void bounce(struct rlt *r, uint64_t conn, mt_id id, int32_t code, uint32_t subject, uint64_t process)
{
    struct ctl_bounce b = {.code = code, .subject = subject, .process = process};
    r->stats.bounced++;
    rlt_down(r->out, conn, CTL_BOUNCE, id, &b, sizeof b);
}

/* To whoever sent it, here or elsewhere. */
static void bounce_to(struct rlt *r, uint32_t node, uint64_t process, mt_id id, const struct ctl_bounce *b)
{
    struct rlt_proc   *p = rlt_proc_of_process(r, process);
    struct peer_bounce m = {.to = process, .bounce = *b};
    if (node != r->node)
        rlt_peer_send(r, node, PEER_BOUNCE, id, &m, sizeof m);
    else if (p)
        bounce(r, p->conn, id, b->code, b->subject, b->process);
}

/* To a process of this node. */
static void deliver(struct rlt *r, uint32_t from_node, uint64_t from, uint64_t to, uint32_t subject, mt_id id, const uint8_t *bytes,
                    size_t size)
{
    struct rlt_proc   *p = rlt_proc_of_process(r, to);
    struct ctl_message head = {.process = from, .node = from_node, .subject = subject};
    struct ctl_bounce  b = {.code = MT_EOWNER_DIED, .subject = subject, .process = to};
    if (!p) {
        bounce_to(r, from_node, from, id, &b);
        return;
    }
    struct rlt_a_sw_down *a = &rlt_act(r->out, RLT_A_SW_DOWN)->sw_down;
    uint8_t              *payload = rlt_keep(r->out, NULL, sizeof head + size);
    memcpy(payload, &head, sizeof head);
    memcpy(payload + sizeof head, bytes, size);
    a->conn = p->conn;
    a->record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + sizeof head + size), .kind = CTL_MESSAGE, .id = id};
    a->payload = payload;
}

void rlt_message(struct rlt *r, struct rlt_proc *from, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_message m;
    const uint8_t     *bytes = payload + sizeof m;
    size_t             size = record->length - LANE_RECORD_SIZE - sizeof m;
    memcpy(&m, payload, sizeof m);
    if (m.node == r->node) {
        deliver(r, r->node, from->process, m.process, m.subject, record->id, bytes, size);
        return;
    }
    struct peer_message head = {.to = m.process, .from = from->process, .subject = m.subject};
    if (size > LANE_RECORD_MAX - LANE_RECORD_SIZE - sizeof head ||
        !rlt_peer_send2(r, m.node, PEER_MESSAGE, record->id, &head, sizeof head, bytes, size))
        bounce(r, from->conn, record->id, MT_ENODE_DIED, m.subject, m.process);
}

void rlt_message_undelivered(struct rlt *r, const struct rlt_ev_record *e)
{
    struct rlt_proc   *to = rlt_proc_of_conn(r, e->conn);
    struct ctl_message m;
    if (e->record.length < LANE_RECORD_SIZE + sizeof m)
        return;
    memcpy(&m, e->payload, sizeof m);
    struct ctl_bounce b = {.code = to ? MT_EAGAIN : MT_EOWNER_DIED, .subject = m.subject};
    b.process = to ? to->process : 0;
    bounce_to(r, m.node, m.process, e->record.id, &b);
}

void rlt_message_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t              size = record->length - LANE_RECORD_SIZE;
    struct peer_message m;
    struct peer_bounce  b;
    if (record->kind == PEER_MESSAGE && size >= sizeof m) {
        memcpy(&m, payload, sizeof m);
        deliver(r, p->node, m.from, m.to, m.subject, record->id, payload + sizeof m, size - sizeof m);
    } else if (record->kind == PEER_BOUNCE && size >= sizeof b) {
        memcpy(&b, payload, sizeof b);
        bounce_to(r, r->node, b.to, record->id, &b.bounce);
    }
}

void rlt_message_lost(struct rlt *r, const struct lane_record *record, const uint8_t *payload)
{
    struct peer_message m;
    memcpy(&m, payload, sizeof m);
    struct ctl_bounce b = {.code = MT_ENODE_DIED, .subject = m.subject, .process = m.to};
    bounce_to(r, r->node, m.from, record->id, &b);
}
