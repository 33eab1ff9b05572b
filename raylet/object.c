/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - values of other nodes' owners: who says that they are dead, and when nobody is left to say it.
 *
 * Owns: nothing; the store is a machine of its own (rlt_store.c), which hears of it by RLT_A_OBJECT_DEAD and
 * RLT_A_OWNER_GONE. Thread: the logic loop only.
 * Always: what an owner got from a node it has leased from dies by its word, or by the end of one of the two.
 *
 * A result that is written after its owner's death was told is found when the lease that made it ends: then the node
 * looks for values of that owner once more.
 */
#include "raylet/state.h"

void rlt_object_dead(struct rlt *r, struct rlt_proc *from, const struct lane_record *record, const uint8_t *payload)
{
    struct lane_ref ref;
    memcpy(&ref, payload, sizeof ref);
    if (ref.id.process == from->process && ref.node != r->node)
        rlt_peer_send(r, ref.node, PEER_OBJECT_DEAD, record->id, &ref, sizeof ref); /* a lost node has nothing to free */
}

static void tell_store(struct rlt *r, uint64_t process, uint32_t node)
{
    struct rlt_action *a = rlt_act(r->out, RLT_A_OWNER_GONE);
    a->number = process;
    a->node = node;
}

void rlt_object_reached(struct rlt_proc *owner, uint32_t node)
{
    for (size_t i = 0; i < owner->reached.count; i++)
        if (owner->reached.data[i] == node)
            return;
    if (mt_vec_push(&owner->reached, node).code)
        rlt_out_of_memory();
}

void rlt_object_process_gone(struct rlt *r, struct rlt_proc *p)
{
    struct peer_owner_gone gone = {p->process};
    for (size_t i = 0; i < p->reached.count; i++)
        rlt_peer_send(r, p->reached.data[i], PEER_OWNER_GONE, (mt_id){0, 0}, &gone, sizeof gone);
    mt_vec_fini(&p->reached);
}

void rlt_object_lease_over(struct rlt *r, const struct rlt_lease *l)
{
    if (l->is_owner_dead)
        tell_store(r, l->owner_process, 0);
}

void rlt_object_node_lost(struct rlt *r, uint32_t node)
{
    tell_store(r, 0, node);
}

static void owner_gone(struct rlt *r, const struct rlt_peer *p, uint64_t process)
{
    if (!process)
        return;
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        l->is_owner_dead |= l->owner_process == process && l->owner_node == p->node;
    }
    tell_store(r, process, 0);
}

void rlt_object_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t                 size = record->length - LANE_RECORD_SIZE;
    struct peer_owner_gone gone;
    struct lane_ref        ref;
    if (record->kind == PEER_OWNER_GONE && size >= sizeof gone) {
        memcpy(&gone, payload, sizeof gone);
        owner_gone(r, p, gone.process);
    } else if (record->kind == PEER_OBJECT_DEAD && size >= sizeof ref) {
        memcpy(&ref, payload, sizeof ref);
        if (ref.node == r->node && ref.owner_node == p->node)
            rlt_act_ctl(r->out, RLT_A_OBJECT_DEAD, 0, CTL_OBJECT_DEAD, record->id, &ref, sizeof ref);
    }
}
