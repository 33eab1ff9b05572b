/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - what must hold between two steps.
 *
 * Owns: nothing. Thread: the logic loop only.
 */
#include "raylet/core/core.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/usage/usage.h"

/* A lease that may begin something while its node has fewer CPUs than tasks that run. One that has just been granted may. */
static bool keeps_too_many(const struct rlt *r, int cpu)
{
    int64_t lacks = -r->ledger.free[cpu], kept = 0;
    for (const struct rlt_list *link = r->all_leases.next; lacks > 0 && link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        int64_t                 amount = l->hold.is_cpu_out || l->bundle ? 0 : l->hold.amount[cpu];
        if (l->kind == LEASE_TASK && l->state == LEASE_ACTIVE && l->granted_at + MT_RLT_OVER_NS <= r->now)
            kept += amount;
        else if (l->kind == LEASE_TASK || l->state != LEASE_ACTIVE)
            lacks -= amount;
    }
    return lacks > 0 && kept > 0;
}

/* Who pays for what is leased. Bundles of a head that does not say whose they are are nobody's. */
static const char *check_usage(const struct rlt *r)
{
    int64_t held[MT_RLT_RESOURCES_MAX];
    rlt_usage_held(r, held);
    for (const struct rlt_list *link = r->bundles.next; link != &r->bundles; link = link->next) {
        const struct rlt_bundle *b = mt_container_of(link, const struct rlt_bundle, in_all);
        for (uint32_t i = 0; i < r->ledger.count && !b->job; i++)
            held[i] += b->hold.amount[i];
    }
    for (uint32_t i = 0; i < r->ledger.count && r->config.has_head && !r->config.is_private; i++)
        if (held[i] != r->ledger.leased[i])
            return "what jobs are charged for is what the ledger has leased";
    return NULL;
}

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
    if (r->kept && rlt_list_is_empty(&r->waiting) && !r->is_stopping && !mt_heap_holds(&r->short_over.node))
        return "what is kept is kept for somebody who waits";
    if (cpu >= 0 && !r->is_stopping && !mt_heap_holds(&r->short_over.node) && keeps_too_many(r, cpu))
        return "where more tasks run than there are CPUs, leases that could begin more are asked back";
    for (uint32_t i = 0; i < r->ledger.count; i++) {
        if (r->ledger.free[i] + r->ledger.leased[i] != r->ledger.total[i].milli)
            return "free + leased = total";
        if (leased[i] != r->ledger.leased[i])
            return "what the leases hold is what the ledger has leased";
    }
    return check_usage(r);
}

static bool is_in(const struct rlt_list *link)
{
    return !rlt_list_is_empty(link);
}

static uint32_t length(const struct rlt_list *list)
{
    uint32_t n = 0;
    for (const struct rlt_list *link = list->next; link != list; link = link->next)
        n++;
    return n;
}

static const char *check_lease(const struct rlt *r, const struct rlt_lease *l)
{
    if (is_in(&l->in_owner) != (l->owner != NULL) || is_in(&l->in_worker) != (l->worker != NULL) ||
        is_in(&l->in_class) != (l->class != NULL))
        return "a lease is in the lists of exactly the ends that it has";
    if (is_in(&l->in_needy) && (l->worker || l->state != LEASE_STARTING))
        return "a lease waits for a worker only before it has one";
    if (l->class && (!l->owner || l->class->owner != l->owner))
        return "a lease's class belongs to its owner";
    if (l->kind != LEASE_CALLER && l->worker && l->worker->lease != l)
        return "a worker serves the lease that names it";
    if (l->state == LEASE_STARTING && l->has_lane && !l->worker && l->worker_node == r->node)
        return "no lane before there is a worker";
    if (r->drain.is_on && l->worker_node == r->node && l->state <= LEASE_ACTIVE && l->kind != LEASE_CALLER && !l->end &&
        (l->kind == LEASE_TASK || l->is_restartable || l->state == LEASE_STARTING))
        return "a node that is to leave grants nothing, and has recalled what may be recalled";
    if (l->kind == LEASE_CALLER && !l->owner && l->owner_node == r->node && l->state == LEASE_ACTIVE)
        return "a caller's lane has a caller, or is recalled";
    return NULL;
}

static const char *check_class(const struct rlt_class *c)
{
    uint32_t held = 0;
    for (const struct rlt_list *link = c->leases.next; link != &c->leases; link = link->next)
        held += mt_container_of(link, struct rlt_lease, in_class)->state <= LEASE_ACTIVE;
    if (held != c->held)
        return "a class holds its leases that start or are active";
    if (is_in(&c->in_waiting) && (c->is_refused || !rlt_class_lacks(c)))
        return "a class waits only for what it lacks, and not once it was refused";
    return NULL;
}

static const char *check_proc(const struct rlt *r, const struct rlt_proc *p)
{
    const char *breach = NULL;
    if (p->lease && p->lease->worker != p)
        return "a lease names the worker that serves it";
    if (p->lease && is_in(&p->in_idle))
        return "a warm worker has no lease";
    if (p->state == PROC_ALIVE && p->is_ready && !p->lease && !is_in(&p->in_idle) && !p->is_leaving && !p->killed_at &&
        !p->job->is_ending)
        return "a worker is warm, greeting or leaving, or has a lease";
    if (p->killed_at && (is_in(&p->in_idle) || (p->lease && p->lease->granted_at > p->killed_at)))
        return "a worker that was killed serves no other lease";
    if ((p->state == PROC_ALIVE) != (p->process && rlt_proc_of_process(r, p->process) == p))
        return "a process is found by its number while it is alive";
    if (length(&p->classes) != p->class_count)
        return "a process counts its classes";
    for (const struct rlt_list *link = p->classes.next; link != &p->classes && !breach; link = link->next)
        breach = check_class(mt_container_of(link, struct rlt_class, in_owner));
    return breach;
}

static const char *check_job(const struct rlt *r, const struct rlt_job *job)
{
    uint32_t leases = 0;
    for (const struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next)
        leases += mt_container_of(link, struct rlt_lease, in_all)->job == job;
    if (leases != job->lease_count)
        return "a job counts the leases that name it";
    if (length(&job->idle) != job->idle_count || length(&job->needy) != job->needy_count)
        return "a job counts its warm workers, and the leases that wait for one";
    if (is_in(&job->in_failing))
        return "what was noted in a step is done by its end";
    return NULL;
}

static const char *check_tables(const struct rlt *r)
{
    uint32_t workers = 0;
    MT_MAP_EACH(&r->jobs, entry)
        workers += ((const struct rlt_job *)entry->value.ptr)->worker_count;
    if (workers != r->worker_count)
        return "the jobs' workers are the node's";
    if (length(&r->head.all_asked) != r->head.asked.count)
        return "a request waits for the head in one place";
    if (length(&r->all_monitors) != r->monitors.count)
        return "a monitor stands in one place";
    MT_MAP_EACH(&r->regions, entry)
        if (((const struct rlt_region *)entry->value.ptr)->members.count == 0)
            return "a region has a member";
    MT_MAP_EACH(&r->peers, entry) {
        const struct rlt_peer   *p = entry->value.ptr;
        const struct rlt_stream *s = p->stream ? mt_map_ptr(&r->streams, mt_map_key(p->stream)) : NULL;
        if (p->stream && (!p->has_link || !s || s->peer != p))
            return "a link is carried by a stream to its node";
    }
    return NULL;
}

const char *rlt_check(const struct rlt *r)
{
    const char *breach = check_tables(r);
    for (const struct rlt_list *link = r->all_leases.next; link != &r->all_leases && !breach; link = link->next)
        breach = check_lease(r, mt_container_of(link, struct rlt_lease, in_all));
    MT_MAP_EACH(&r->conns, entry)
        breach = breach ? breach : check_proc(r, entry->value.ptr);
    MT_MAP_EACH(&r->jobs, entry)
        breach = breach ? breach : check_job(r, entry->value.ptr);
    return breach ? breach : check_resources(r);
}
