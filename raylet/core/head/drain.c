/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.c - this node is to leave: the head has said so, a signal, or its machine goes.
 *           Nothing new is granted, what is here ends or moves.
 *
 * Owns: struct rlt_drain. Thread: the logic loop only.
 * Always: the first word counts, and the earliest end; it can't be taken back. A lease that is recalled for it is marked, so
 * that its end costs its owner nothing.
 *
 *   (no) --order of the head, SIGTERM, a notice that the machine goes--> DRAINING --limit--> STOPPING what is left
 *                                            '--empty--> says so to the head --HeadShutdown--> ends with status 0
 *
 * It is empty only when the other nodes have acknowledged what it said. The head's word that it has left may come to them
 * sooner than its own last ones, and what ended well before would then end as lost.
 *
 * Task leases are recalled: the worker ends the task that it runs and returns the rest. So are those of actors that may
 * restart, which end the call that they run. All others run on until the limit, and are killed with EPREEMPTED then.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/links/links.h"
#include "raylet/core/pool/pool.h"

#include "core/base/limits/net.h"
#include "core/base/log.h"
#include "core/base/plant.h"

#include <inttypes.h>
#include <stdio.h>

enum { SAY_AGAIN_MS = 500, ALONE_MS = 1000, LOOK_AGAIN_MS = 50 };

/* ---- what is here -------------------------------------------------------------------------------------------------- */

struct here {
    uint32_t tasks, actors, jobs, wardens, drivers, bundles;
    uint32_t unheard; /* nodes that have not taken in all that this one said: how a task ended, for one */
    uint32_t values;  /* on their way to other nodes */
};

static struct here look(const struct rlt *r)
{
    struct here h = {.bundles = r->bundle_count,
                     .values = r->drain.values_left,
                     .unheard = MT_PLANT(MT_PLANT_DRAIN_UNHEARD) ? 0 : rlt_peers_unheard(r)};
    for (const struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of((struct rlt_list *)(uintptr_t)link, struct rlt_lease, in_all);
        bool                    is_here = l->worker_node == r->node && l->kind != LEASE_CALLER;
        h.tasks += is_here && l->kind == LEASE_TASK;
        h.actors += is_here && l->kind == LEASE_ACTOR;
    }
    MT_MAP_EACH(&r->submitted, entry) {
        const struct rlt_submitted *job = entry->value.ptr;
        h.wardens += job->is_warden;
        h.jobs += !job->is_warden;
    }
    MT_MAP_EACH(&r->conns, entry) {
        const struct rlt_proc *p = entry->value.ptr;
        h.drivers += p->role == CTL_DRIVER && p->state != PROC_DYING;
    }
    return h;
}

/* Nothing is left here that could make a value. */
static bool is_quiet(const struct here *h)
{
    return h->tasks + h->actors + h->jobs + h->wardens + h->drivers + h->bundles == 0;
}

static bool is_empty(const struct rlt *r, const struct here *h)
{
    if (MT_PLANT(MT_PLANT_DRAIN_EARLY))
        return h->jobs + h->wardens + h->drivers == 0;
    return is_quiet(h) && h->unheard == 0 && r->drain.is_clear;
}

uint64_t rlt_drain_hash(const struct rlt *r)
{
    if (!r->drain.is_on)
        return 0;
    struct here h = look(r);
    return ((uint64_t)h.tasks << 40) + ((uint64_t)h.actors << 20) + ((uint64_t)h.jobs << 10) + ((uint64_t)h.drivers << 50) +
           h.bundles + ((uint64_t)(h.values != 0) << 60) + ((uint64_t)(r->drain.values_stuck != 0) << 61) + 1;
}

uint32_t rlt_drain_here(const struct rlt *r, uint32_t *out_tasks)
{
    struct here h = look(r);
    *out_tasks = h.tasks;
    return h.tasks + h.actors + h.jobs + h.wardens + h.drivers + h.bundles;
}

void rlt_drain_waits(const struct rlt *r, char *out_text, size_t size)
{
    const struct here h = look(r);
    const struct {
        uint32_t    count;
        const char *one, *many;
    } kinds[] = {{h.tasks, "lease of tasks", "leases of tasks"},
                 {h.actors, "actor", "actors"},
                 {h.jobs, "job", "jobs"},
                 {h.wardens, "detached actor's warden", "detached actors' wardens"},
                 {h.drivers, "driver", "drivers"},
                 {h.bundles, "bundle of a placement group", "bundles of placement groups"},
                 {h.values, "value that others are to have", "values that others are to have"},
                 {h.unheard, "node to hear its last words", "nodes to hear its last words"},
                 {r->drain.values_stuck, "value for which no other node has room, which it does not wait for",
                  "values for which no other node has room, which it does not wait for"}};
    size_t used = 0;
    out_text[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && used < size; i++)
        if (kinds[i].count)
            used += (size_t)snprintf(out_text + used, size - used, "%s%u %s", used ? ", " : "", kinds[i].count,
                                     kinds[i].count == 1 ? kinds[i].one : kinds[i].many);
}

/* ---- it begins ----------------------------------------------------------------------------------------------------- */

static void say(struct rlt *r, bool is_gone)
{
    static const Manta__V1__DrainRequest empty = MANTA__V1__DRAIN_REQUEST__INIT;
    Manta__V1__NodeToHead               *m = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_DRAIN);
    Manta__V1__DrainRequest             *d = rlt_keep(r->out, &empty, sizeof empty);
    d->limit_ms = r->drain.ends > r->now ? (r->drain.ends - r->now) / RLT_MS : 0;
    d->reason = rlt_keep_text(r, r->drain.reason);
    d->is_empty = is_gone;
    m->drain = d;
    rlt_head_send(r, m);
}

static void begin(struct rlt *r, uint64_t limit_ms, const char *reason)
{
    r->drain.is_on = true;
    rlt_news(r, CTL_NEWS_NODES);
    r->drain.ends = r->now + (limit_ms < MT_DRAIN_MS_MAX ? limit_ms : MT_DRAIN_MS_MAX) * RLT_MS;
    snprintf(r->drain.reason, sizeof r->drain.reason, "%s", reason);
    mt_log(MT_LOG_INFO, "node_drains", "node=%u limit_ms=%" PRIu64 " reason=\"%s\"", r->node, limit_ms, r->drain.reason);
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (l->worker_node != r->node || l->kind == LEASE_CALLER ||
            (l->kind == LEASE_ACTOR && !l->is_restartable && l->state != LEASE_STARTING))
            continue;
        l->is_preempted = true;
        rlt_lease_recall(r, l, 0);
    }
    rlt_submit_leaving(r);
    r->is_dirty = true; /* who waits here is to be told of to the head */
}

/* The head need not be there: it hears of it when it is back. Of several ends the first one counts. */
static void noticed(struct rlt *r, uint64_t limit_ms, const char *why)
{
    struct rlt_drain *d = &r->drain;
    if (r->is_stopping || r->config.is_private || d->is_over)
        return;
    if (!d->is_on) {
        begin(r, limit_ms, why);
    } else {
        uint64_t ends = r->now + limit_ms * RLT_MS;
        if (ends >= d->ends || MT_PLANT(MT_PLANT_NOTICE_UNHEARD))
            return;
        d->ends = ends;
        rlt_submit_leaving(r);
        mt_log(MT_LOG_INFO, "node_drains", "node=%u limit_ms=%" PRIu64 " sooner=\"%s\"", r->node, limit_ms, why);
    }
    if (r->head.is_registered)
        say(r, false);
}

/* It has a head, or had one so lately that the next one may come yet: one that hands over is replaced within a second. */
static bool may_have_head(const struct rlt *r)
{
    uint64_t gap = MT_PLANT(MT_PLANT_SIGNAL_GAP) ? 0 : MT_RLT_HEAD_GAP_MS * RLT_MS;
    return r->head.is_registered || (r->head.heard_at && r->now - r->head.heard_at < gap);
}

/* A signal; limit 0: at once, and so is a second one. The first may find a node that leaves already, as where its pod is ended. */
static void told(struct rlt *r, uint64_t limit_ms, const char *why)
{
    if (limit_ms == 0 || r->drain.was_told || r->is_stopping || !may_have_head(r) || r->config.is_private) {
        rlt_shut_down(r, why);
        return;
    }
    r->drain.was_told = true;
    r->drain.head_by = r->head.is_registered ? 0 : r->now + MT_RLT_HEAD_GAP_MS * RLT_MS;
    noticed(r, limit_ms, why);
}

void rlt_drain_event(struct rlt *r, const struct rlt_event *e)
{
    if (e->kind == RLT_EV_NOTICE)
        noticed(r, e->notice.limit_ms, e->notice.why);
    else
        told(r, e->shutdown.drain_ms, e->shutdown.why);
}

void rlt_drain_order(struct rlt *r, const Manta__V1__DrainOrder *order)
{
    if (order->epoch == r->epoch && !r->drain.is_on && !r->is_stopping)
        begin(r, order->limit_ms, order->reason);
}

void rlt_drain_registered(struct rlt *r)
{
    if (!r->drain.is_on)
        return;
    r->drain.said_at = 0;
    say(r, false);
}

/* ---- it ends ------------------------------------------------------------------------------------------------------- */

/* Bundles that nothing runs in any more go back; of one group all together, since the head places them anew together. */
static void give_bundles(struct rlt *r)
{
    RLT_LIST_EACH(&r->bundles, link) {
        struct rlt_bundle *b = rlt_bundle_of(link);
        bool               is_used = false;
        for (struct rlt_list *other = r->bundles.next; other != &r->bundles; other = other->next)
            is_used |= mt_id_equal(rlt_bundle_of(other)->group, b->group) && rlt_bundle_of(other)->lease_count;
        if (!is_used && b->state != BUNDLE_RETURNED)
            rlt_bundle_free(r, b);
    }
}

static void stop_all(struct rlt *r)
{
    char why[CTL_TEXT_SIZE];
    snprintf(why, sizeof why, "its node was to leave (%s), and the limit for that has passed", r->drain.reason);
    RLT_LIST_EACH(&r->all_leases, link) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        if (!l->worker || l->kind == LEASE_CALLER)
            continue;
        if (!l->worker->stopped && (l->worker->stopped = strdup(why)))
            l->worker->stopped_code = MT_EPREEMPTED;
        rlt_pool_kill(r, l->worker);
    }
    rlt_submit_preempt(r, false, why);
}

void rlt_drain_left(struct rlt *r, const struct rlt_ev_left *e)
{
    struct rlt_drain *d = &r->drain;
    if (e->stuck > d->values_stuck)
        mt_log(MT_LOG_WARN, "values_stuck", "values=%u why=\"no other node has room for them: they are lost with this one\"",
               e->stuck);
    d->values_left = e->left;
    d->values_stuck = e->stuck;
    if (!e->is_over)
        return;
    d->is_looking = false;
    d->is_clear = d->is_last_look && e->left == 0;
    d->look_at = r->now + LOOK_AGAIN_MS * RLT_MS;
}

/* When the next look is due. What ran here may have left a value until it ended, so the look that counts begins after that. */
static uint64_t values_round(struct rlt *r, const struct here *h)
{
    struct rlt_drain *d = &r->drain;
    bool              is_last = is_quiet(h);
    d->is_clear &= is_last;
    d->is_clear |= is_last && MT_PLANT(MT_PLANT_DRAIN_UNADOPTED);
    d->is_last_look &= is_last;
    if (d->is_looking || d->is_clear || MT_PLANT(MT_PLANT_DRAIN_UNADOPTED))
        return UINT64_MAX;
    if (r->now < d->look_at && is_last == d->is_last_look)
        return d->look_at;
    d->is_looking = true;
    d->is_last_look = is_last;
    rlt_act(r->out, RLT_A_LEAVE);
    return UINT64_MAX;
}

void rlt_drain_round(struct rlt *r)
{
    struct rlt_drain *d = &r->drain;
    uint64_t          due, look_at;
    if (!d->is_on || r->is_stopping)
        return;
    d->head_by = r->head.is_registered ? 0 : d->head_by;
    if (d->head_by && r->now >= d->head_by) {
        rlt_shut_down(r, "terminated; no head has come");
        return;
    }
    if (!d->is_over && r->now >= d->ends) {
        d->is_over = true;
        d->leave_by = r->now + MT_DRAIN_LEAVE_MS * RLT_MS;
        stop_all(r);
    }
    give_bundles(r);
    struct here h = look(r);
    if (h.wardens && !(h.tasks + h.actors + h.jobs)) /* last: what they answer for may have run here */
        rlt_submit_preempt(r, true, d->reason);
    look_at = values_round(r, &h);
    bool is_alone = is_empty(r, &h) && !r->head.is_registered;
    d->alone_by = !is_alone ? 0 : d->alone_by ? d->alone_by : r->now + ALONE_MS * RLT_MS;
    if ((d->is_over && r->now >= d->leave_by + MT_DRAIN_LEAVE_MS * RLT_MS) || (is_alone && r->now >= d->alone_by)) {
        rlt_shut_down(r, "drained; the head has not answered");
        return;
    }
    due = !d->is_over ? d->ends : r->now < d->leave_by ? d->leave_by : d->leave_by + MT_DRAIN_LEAVE_MS * RLT_MS;
    if (r->head.is_registered && (is_empty(r, &h) || (d->is_over && r->now >= d->leave_by))) {
        if (!d->said_at || r->now - d->said_at >= SAY_AGAIN_MS * RLT_MS) {
            d->said_at = r->now;
            say(r, true);
        }
        due = d->said_at + SAY_AGAIN_MS * RLT_MS < due ? d->said_at + SAY_AGAIN_MS * RLT_MS : due;
    }
    due = is_alone && d->alone_by < due ? d->alone_by : due;
    due = look_at < due ? look_at : due;
    due = d->head_by && d->head_by < due ? d->head_by : due;
    rlt_timer_set(r, &d->timer, due);
}
