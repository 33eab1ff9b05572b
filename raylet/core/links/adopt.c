/* SPDX-License-Identifier: Apache-2.0
 *
 * adopt.c - values that other nodes adopt from one that leaves: carries the stores' words, and those of owners.
 *
 * Owns: nothing; the object stores know what is under way (raylet/store/leave.c, take.c). Thread: the logic loop only.
 * Always: what can't be delivered is answered at once, as by a node or an owner that is not there any more.
 *
 *   node that leaves (D)           adopts (T)                      owner's node (A)         owner
 *   ADOPT {from} ----------------> fetches, keeps
 *                                  MOVED {from, to} -------------> CTL_MOVED -------------> its ref's place is `to`
 *                                                 <-- MOVED_HEARD {code}   <--- CTL_MOVED
 *   ADOPTED {code} <-------------- (any code but 0: not kept)
 *   its own is dead
 *
 * A value whose node is gone: the owner's node says SEEK to one that has a copy, which keeps it, goes on as above, and says SOUGHT.
 * Who has copies the owner's node knows by COPY (raylet/store/known.c).
 */
#include "raylet/core/links/links.h"

static void to_store(struct rlt *r, uint32_t node, enum peer_kind kind, const struct ctl_moved *word, int32_t code)
{
    struct rlt_moved *a = &rlt_act(r->out, RLT_A_MOVED)->moved;
    a->node = node;
    a->kind = kind;
    a->word = *word;
    a->word.code = code;
}

/* To the store of a node, this one included. */
static bool say(struct rlt *r, uint32_t node, enum peer_kind kind, const struct ctl_moved *word, int32_t code)
{
    struct ctl_moved out = *word;
    out.code = code;
    if (node != r->node)
        return rlt_peer_send(r, node, kind, (mt_id){0, 0}, &out, sizeof out);
    to_store(r, node, kind, word, code);
    return true;
}

/* To an owner of this node. */
static void tell_owner(struct rlt *r, const struct ctl_moved *word)
{
    const struct rlt_proc *owner = rlt_proc_of_process(r, word->from.id.process);
    if (owner && owner->state != PROC_DYING)
        rlt_down(r->out, owner->conn, CTL_MOVED, word->from.id, word, sizeof *word);
    else
        (void)say(r, word->to.node, PEER_MOVED_HEARD, word, MT_EOWNER_DIED);
}

void rlt_moved_say(struct rlt *r, const struct rlt_moved *m)
{
    if (m->kind == PEER_MOVED && m->node == r->node)
        tell_owner(r, &m->word);
    else if (say(r, m->node, m->kind, &m->word, m->word.code))
        return;
    else if (m->kind == PEER_MOVED)
        to_store(r, m->node, PEER_MOVED_HEARD, &m->word, MT_EOWNER_DIED);
    else if (m->kind == PEER_ADOPT)
        to_store(r, m->node, PEER_ADOPTED, &m->word, MT_ENODE_DIED);
    else if (m->kind == PEER_SEEK)
        to_store(r, m->node, PEER_SOUGHT, &m->word, MT_ENODE_DIED);
}

void rlt_moved_up(struct rlt *r, const struct rlt_proc *owner, const uint8_t *payload)
{
    struct ctl_moved m;
    memcpy(&m, payload, sizeof m);
    if (m.from.id.process != owner->process)
        return;
    if (m.code == MT_OK)
        to_store(r, r->node, PEER_MOVED, &m, MT_OK);
    (void)say(r, m.to.node, PEER_MOVED_HEARD, &m, m.code); /* a node that is gone has no use for it */
}

void rlt_moved_record(struct rlt *r, const struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    struct ctl_moved m;
    if (record->length - LANE_RECORD_SIZE < sizeof m)
        return;
    memcpy(&m, payload, sizeof m);
    switch (record->kind) {
    case PEER_ADOPT:
        if (m.from.node != p->node) /* nobody gives away what is another's */
            (void)say(r, p->node, PEER_ADOPTED, &m, MT_EPROTO);
        else if (r->drain.is_on || r->is_stopping)
            (void)say(r, p->node, PEER_ADOPTED, &m, MT_EUNSCHEDULABLE);
        else
            to_store(r, p->node, PEER_ADOPT, &m, MT_OK);
        break;
    case PEER_SEEK:
        if (m.from.owner_node != p->node) /* only its owner knows that it is lost */
            (void)say(r, p->node, PEER_SOUGHT, &m, MT_EPROTO);
        else if (r->drain.is_on || r->is_stopping)
            (void)say(r, p->node, PEER_SOUGHT, &m, MT_EUNSCHEDULABLE);
        else
            to_store(r, p->node, PEER_SEEK, &m, MT_OK);
        break;
    case PEER_COPY:
        if (m.from.owner_node == r->node && rlt_proc_of_process(r, m.from.id.process))
            to_store(r, p->node, PEER_COPY, &m, MT_OK);
        break;
    case PEER_MOVED:
        if (m.to.node == p->node && m.from.owner_node == r->node)
            tell_owner(r, &m);
        break;
    case PEER_MOVED_HEARD:
        if (m.from.owner_node == p->node)
            to_store(r, p->node, PEER_MOVED_HEARD, &m, m.code);
        break;
    default: to_store(r, p->node, (enum peer_kind)record->kind, &m, m.code);
    }
}
