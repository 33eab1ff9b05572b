/* SPDX-License-Identifier: Apache-2.0
 *
 * up.c - a control record from a process of this node: to whom it goes. Who breaks the protocol is dropped.
 *
 * Owns: nothing. Thread: the logic loop only.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/links/links.h"
#include "raylet/core/procs/procs.h"
#include "raylet/core/schedule/schedule.h"
#include "raylet/core/step.h"

/* A copy of the payload where it is at least `size` bytes long: what the sender left out stays zero. A shorter one
 * breaks the protocol, and the sender is dropped. */
static bool payload_copy(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_record *e, void *to, size_t size)
{
    if (e->record.length < LANE_RECORD_SIZE + size) {
        rlt_proc_gone(r, p);
        return false;
    }
    memcpy(to, e->payload, size);
    return true;
}

static void up_lease(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_record *e)
{
    struct ctl_lease lease;
    if (!payload_copy(r, p, e, &lease, sizeof lease))
        return;
    if (e->record.kind == CTL_DRAINED)
        rlt_lease_drained(r, p, lease.lease);
    else if (e->record.kind == CTL_KILL)
        rlt_lease_kill(r, p, lease.lease);
    else
        rlt_caller_drop(r, p, lease.lease);
}

static void up_demand(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_record *e)
{
    struct ctl_demand demand;
    if (payload_copy(r, p, e, &demand, sizeof demand))
        rlt_demand(r, p, &demand);
}

static void up_lane_want(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_record *e)
{
    struct ctl_lane_want want;
    if (payload_copy(r, p, e, &want, sizeof want))
        rlt_caller_want(r, p, e->record.id, &want);
}

static void up_monitor(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_record *e)
{
    struct ctl_monitor monitor;
    if (payload_copy(r, p, e, &monitor, sizeof monitor))
        rlt_monitor_add(r, p, e->record.id, &monitor);
}

static void up_region(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_record *e)
{
    struct ctl_region_want want = {0};
    bool                   has_owner = e->record.length >= LANE_RECORD_SIZE + sizeof want;
    if (!payload_copy(r, p, e, &want, has_owner ? sizeof want : sizeof want.segment))
        return;
    if (e->record.kind == CTL_REGION_WANT)
        rlt_region_want(r, p, e->record.id, &want);
    else
        rlt_region_drop(r, p, want.segment.segment);
}

static bool has_size(const struct rlt_ev_record *e, size_t least)
{
    return e->record.length >= LANE_RECORD_SIZE + least;
}

/* One whose payload the room reads itself. False: it is too short, or breaks the rules. */
static bool up_sized(struct rlt *r, struct rlt_proc *p, const struct rlt_ev_record *e)
{
    switch (e->record.kind) {
    case CTL_CLASS: return has_size(e, sizeof(struct ctl_class)) && rlt_class_define(r, p, e->payload);
    case CTL_MESSAGE:
        if (!has_size(e, sizeof(struct ctl_message)))
            return false;
        rlt_message(r, p, &e->record, e->payload);
        return true;
    case CTL_OBJECT_DEAD:
        if (!has_size(e, sizeof(struct lane_ref)))
            return false;
        rlt_object_dead(r, p, e->payload);
        return true;
    case CTL_MOVED:
        if (!has_size(e, sizeof(struct ctl_moved)))
            return false;
        rlt_moved_up(r, p, e->payload);
        return true;
    default:
        if (!has_size(e, sizeof(struct ctl_request)))
            return false;
        rlt_request(r, p, &e->record, e->payload);
        return true;
    }
}

void rlt_up_record(struct rlt *r, const struct rlt_ev_record *e)
{
    struct rlt_proc *p = rlt_proc_of_conn(r, e->conn);
    if (!p || p->state == PROC_GREETING)
        return;
    switch (e->record.kind) {
    case CTL_DEMAND: up_demand(r, p, e); break;
    case CTL_DRAINED:
    case CTL_KILL:
    case CTL_LANE_DROP: up_lease(r, p, e); break;
    case CTL_BLOCKED:
    case CTL_UNBLOCKED: rlt_worker_blocked(r, p, e->record.kind == CTL_BLOCKED); break;
    case CTL_LANE_WANT: up_lane_want(r, p, e); break;
    case CTL_MONITOR: up_monitor(r, p, e); break;
    case CTL_DEMONITOR: rlt_monitor_drop(r, p, e->record.id); break;
    case CTL_CLASS:
    case CTL_MESSAGE:
    case CTL_OBJECT_DEAD:
    case CTL_MOVED:
    case CTL_REQUEST:
        if (!up_sized(r, p, e))
            rlt_proc_gone(r, p);
        break;
    case CTL_REGION_WANT:
    case CTL_REGION_DROP: up_region(r, p, e); break;
    case CTL_SHUTDOWN:
        p->is_leaving = true; /* its end follows: nothing of it is to be missed */
        break;
    default: rlt_proc_gone(r, p);
    }
}
