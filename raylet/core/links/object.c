/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - objects whose owner is on one node and whose bytes are on another: who tells whom that they are dead.
 *
 * Owns: nothing; the object store stands beside the core, in the shell. Thread: the logic loop only.
 * Always: only its owner says that an object on another node is dead; when the owner dies, its node says so of all.
 *
 * A result that is written after its owner's death was told is found when the lease that made it ends: then the store
 * looks for what that owner had once more.
 */
#include "raylet/core/links/links.h"

void rlt_object_dead(struct rlt *r, const struct rlt_proc *p, const uint8_t *payload)
{
    struct lane_ref ref;
    memcpy(&ref, payload, sizeof ref);
    if (ref.id.process != p->process)
        return;
    if (ref.node == r->node)
        rlt_peers_tell(r, PEER_OBJECT_DEAD, &ref, sizeof ref); /* somebody has fetched it: copies go too */
    else
        rlt_peer_send(r, ref.node, PEER_OBJECT_DEAD, (mt_id){0, 0}, &ref, sizeof ref);
}

static void owner_gone(struct rlt *r, const struct rlt_peer *p, uint64_t process)
{
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        l->is_owner_dead |= l->owner_process == process && l->owner_node == p->node;
    }
    if (process)
        rlt_act(r->out, RLT_A_OWNER_GONE)->owner_gone.process = process;
}

void rlt_object_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    size_t            size = record->length - LANE_RECORD_SIZE;
    struct lane_ref   ref;
    struct peer_owner owner;
    if (record->kind == PEER_OBJECT_DEAD && size >= sizeof ref) {
        memcpy(&ref, payload, sizeof ref);
        if (ref.node && ref.owner_node == p->node)
            rlt_act(r->out, RLT_A_OBJECT_DEAD)->object_dead.ref = ref;
    } else if (record->kind == PEER_OWNER_GONE && size >= sizeof owner) {
        memcpy(&owner, payload, sizeof owner);
        owner_gone(r, p, owner.process);
    }
}

void rlt_object_lease_over(struct rlt *r, const struct rlt_lease *l)
{
    if (l->is_owner_dead)
        rlt_act(r->out, RLT_A_OWNER_GONE)->owner_gone.process = l->owner_process;
}

void rlt_object_owner_gone(struct rlt *r, const struct rlt_proc *owner)
{
    struct peer_owner gone = {owner->process};
    if (owner->has_remote)
        rlt_peers_tell(r, PEER_OWNER_GONE, &gone, sizeof gone);
}
