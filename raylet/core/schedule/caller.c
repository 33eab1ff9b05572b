/* SPDX-License-Identifier: Apache-2.0
 *
 * caller.c - lanes from any process to the worker of an actor that somebody else created.
 *
 * Owns: the leases of kind LEASE_CALLER: no resources, the worker is shared. Thread: the logic loop only.
 * Always: such a lane has a living caller, or it is recalled; it ends with the worker, or when the worker has drained it.
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/schedule/schedule.h"

#include <stdio.h>

void rlt_caller_want(struct rlt *r, struct rlt_proc *caller, mt_id request, const struct ctl_lane_want *want)
{
    struct rlt_proc *worker = rlt_proc_of_process(r, want->process);
    char             text[CTL_TEXT_SIZE];

    for (struct rlt_list *link = caller->owned.next; link != &caller->owned; link = link->next)
        if (mt_id_equal(mt_container_of(link, struct rlt_lease, in_owner)->request, request))
            return; /* asked twice: the grant is on its way */
    if (want->node != r->node && r->leases.count < MT_RLT_CALLERS_MAX && rlt_remote_lane_want(r, caller, request, want))
        return;
    if (want->node != r->node || !worker || !worker->lease || worker->lease->kind != LEASE_ACTOR ||
        worker->lease->state != LEASE_ACTIVE) {
        snprintf(text, sizeof text, "the actor's process is not on node %u any more", want->node);
        rlt_down_reply(r->out, caller->conn, request, MT_EACTOR_DIED, text);
        return;
    }
    if (r->leases.count >= MT_RLT_CALLERS_MAX) {
        rlt_down_reply(r->out, caller->conn, request, MT_EAGAIN, "too many lanes on this node");
        return;
    }
    struct rlt_lease *l = rlt_lease_new(r, LEASE_CALLER, NULL, 0);
    l->owner = caller;
    l->owner_process = caller->process;
    l->request = request;
    l->incarnation = want->incarnation;
    rlt_list_append(&caller->owned, &l->in_owner);
    rlt_lease_activate(r, l, worker);
}

/* A caller is done with its lane, or an owner could not take over what it was granted: it still wants one. */
void rlt_caller_drop(struct rlt *r, struct rlt_proc *caller, uint64_t id)
{
    struct rlt_lease *l = mt_map_ptr(&r->leases, mt_map_key(id));
    if (l && l->owner == caller)
        rlt_lease_recall(r, l, 0);
}
