/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must hold between two steps.
 *
 * Owns: nothing. Thread: the logic loop only.
 */
#include "raylet/core/core.h"
#include "raylet/core/leases/leases.h"

static const char *check_resources(const struct rlt *r)
{
    int64_t     leased[MT_RLT_RESOURCES_MAX] = {0};
    int         cpu = rlt_ledger_find(&r->ledger, "CPU");
    const char *breach = rlt_bundles_check(r, leased);
    if (breach)
        return breach;
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        for (uint32_t i = 0; i < r->ledger.count && !l->bundle; i++)
            if (!l->hold.is_cpu_out || (int)i != cpu)
                leased[i] += l->hold.amount[i];
    }
    MT_MAP_EACH(&r->submitted, entry) {
        const struct rlt_submitted *job = entry->value.ptr;
        for (uint32_t i = 0; i < r->ledger.count; i++)
            leased[i] += job->hold.amount[i];
    }
    for (uint32_t i = 0; i < r->ledger.count; i++) {
        if (r->ledger.free[i] + r->ledger.leased[i] != r->ledger.total[i].milli)
            return "free + leased = total";
        if (leased[i] != r->ledger.leased[i])
            return "what the leases hold is what the ledger has leased";
    }
    return NULL;
}

const char *rlt_check(const struct rlt *r)
{
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (l->class && (!l->owner || l->class->owner != l->owner))
            return "a lease's class belongs to its owner";
        if (l->kind != LEASE_CALLER && l->worker && l->worker->lease != l)
            return "a worker serves the lease that names it";
        if (l->state == LEASE_STARTING && l->has_lane && !l->worker && l->worker_node == r->node)
            return "no lane before there is a worker";
        if (l->kind == LEASE_CALLER && !l->owner && l->owner_node == r->node && l->state == LEASE_ACTIVE)
            return "a caller's lane has a caller, or is recalled";
    }
    MT_MAP_EACH(&r->conns, entry) {
        const struct rlt_proc *p = entry->value.ptr;
        if (p->lease && p->lease->worker != p)
            return "a lease names the worker that serves it";
        if (p->lease && !rlt_list_is_empty(&p->in_idle))
            return "a warm worker has no lease";
    }
    return check_resources(r);
}
