/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - who gets what next on this node: the one place that decides.
 *
 * Owns: the order of r->waiting. Thread: the logic loop only, once at the end of a step in which something changed.
 * Always: first come, first served, one lease a turn. A class that has waited longer than a slice reserves the
 * resources it lacks, where it can count on getting them: later ones that need the same wait behind it, and leases of
 * others that have run their slice are recalled, as many as it needs for one lease, and only from classes that hold more
 * than it does. (A reservation that nobody will fill would starve the children of the very tasks that hold the rest.) A
 * lease that was asked back long ago is not counted on: what is free meanwhile goes to whom it fits.
 * What is reserved is kept from other nodes too: their requests are refused, and the head hears of it as not free.
 * The guest is a class of another node that the head (without it, that node) has told us of: room is made and kept for
 * it in the same way, and given to the next request that comes from another node. A class of this node that holds nothing
 * and has waited for longer goes first.
 */
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/leases/patience.h"
#include "raylet/core/links/links.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/schedule/schedule.h"

#include "core/base/plant.h"
#include "core/text/labels.h"
#include "core/base/limits/env.h"

#include <stdio.h>

enum { PLACES = MT_RLT_RESOURCES_MAX }; /* beside the resources: places for processes, of which each lease takes one */

static bool has_other_nodes(const struct rlt *r)
{
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        if (n->node != r->node && rlt_node_is_there(r, n))
            return true;
    }
    return false;
}

/* Whether the head has to choose between this node, which is the class's `alternative`, and one of an earlier alternative. While it
 * is away that one is asked; once it has refused, this node is as good. */
static bool is_better_elsewhere(const struct rlt *r, const struct rlt_class *c, unsigned alternative)
{
    if (alternative < 2 || c->placed_here || (rlt_is_away(r) && c->refused_alone))
        return false;
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        unsigned               theirs = mt_selector_match(c->def.labels, n->labels);
        if (n->node != r->node && theirs && theirs < alternative && rlt_node_is_there(r, n) && rlt_node_could_ever(n, c))
            return true;
    }
    return false;
}

/* Whether this node may grant it by itself. */
static bool is_for_this_node(const struct rlt *r, const struct rlt_class *c)
{
    const struct rlt_node *wanted = rlt_node_find(r, c->def.node);
    if (ctl_class_is_grouped(&c->def))
        return true; /* where its bundle is; the head knows */
    unsigned alternative = c->def.labels[0] ? mt_selector_match(c->def.labels, r->config.labels) : 1;
    if (alternative == 0)
        return false;
    if (is_better_elsewhere(r, c, alternative))
        return false;
    if (c->def.policy == CTL_NODE)
        return c->def.node == r->node;
    if (c->def.policy == CTL_NODE_SOFT) /* there if it lives and could ever, else anywhere */
        return c->def.node == r->node || !rlt_node_is_there(r, wanted) || !rlt_node_could_ever(wanted, c);
    if (c->def.policy == CTL_SPREAD) /* over all nodes: the head counts, where there is one */
        return !r->head.is_registered || rlt_is_away(r) || c->placed_here || !has_other_nodes(r);
    return true;
}

static bool class_fits(const struct rlt *r, const struct rlt_class *c)
{
    return rlt_class_could_now(r, &c->def);
}

/* Which resources of the node a class needs and there is not enough of. */
static uint32_t lacking_mask(const struct rlt *r, const struct rlt_class *c)
{
    uint32_t mask = rlt_pool_places(r) <= 0 ? 1u << PLACES : 0;
    for (uint32_t i = 0; i < c->def.resource_count; i++) {
        int at = rlt_ledger_find(&r->ledger, c->def.resources[i].name);
        if (at >= 0 && r->ledger.free[at] < c->def.resources[i].milli)
            mask |= 1u << at;
    }
    return mask;
}

static bool uses_any(const struct rlt *r, const struct ctl_class *def, uint32_t mask)
{
    if (mask & 1u << PLACES)
        return true;
    for (uint32_t i = 0; i < def->resource_count; i++) {
        int at = rlt_ledger_find(&r->ledger, def->resources[i].name);
        if (at >= 0 && (mask & 1u << at))
            return true;
    }
    return false;
}

static void grant_one(struct rlt *r, struct rlt_class *c)
{
    struct rlt_proc  *owner = c->owner;
    struct rlt_job   *job = c->job;
    struct rlt_lease *l = rlt_lease_new(r, c->def.flags & CTL_CLASS_ACTOR ? LEASE_ACTOR : LEASE_TASK, job, 0);
    l->is_strict = c->def.flags & CTL_CLASS_STRICT;
    l->is_restartable = c->def.flags & CTL_CLASS_RESTARTS;
    bool             took = rlt_lease_take(r, &c->def, l);
    struct rlt_proc *worker = rlt_pool_take(r, job);

    MT_ASSERT(took);
    r->stats.turns += !l->bundle;
    if (c->def.flags & CTL_CLASS_PIN)
        rlt_ledger_pin(rlt_lease_ledger(r, l), &l->hold);
    l->class = c;
    l->owner = owner;
    l->owner_process = owner->process;
    rlt_list_append(&c->leases, &l->in_class);
    rlt_list_append(&owner->owned, &l->in_owner);
    c->held++;
    c->placed_here -= c->placed_here > 0;
    if (worker) {
        rlt_lease_activate(r, l, worker);
        return;
    }
    rlt_list_append(&job->needy, &l->in_needy);
    job->needy_count++;
    rlt_pool_balance(r, job);
}

/* Where this node is all there is: a class that holds nothing, and has waited while the node was full of actors, is told. */
static bool is_told_of_full(struct rlt *r, const struct rlt_class *c)
{
    uint64_t since = c->waiting_since > r->full_since ? c->waiting_since : r->full_since;
    uint64_t due = since + MT_RLT_FULL_MS * RLT_MS;
    if (!r->full_since || c->held || (r->config.has_head && !r->config.is_private))
        return false;
    if (due > r->now && (!mt_heap_holds(&r->full_over.node) || r->full_over.node.key > due))
        rlt_timer_set(r, &r->full_over, due);
    return due <= r->now;
}

/* A request that no node can satisfy is answered, not kept. Without a head this node is the cluster. */
static bool class_is_hopeless(struct rlt *r, struct rlt_class *c)
{
    char     text[CTL_TEXT_SIZE];
    uint32_t lacking = 0;
    if (!c->job) {
        snprintf(text, sizeof text, "node %u does not know the runtime environment, or has %d of this job already", r->node,
                 MT_ENVS_MAX);
        rlt_class_unschedulable(r, c, MT_EENV, text);
        return true;
    }
    if (rlt_job_is_broken(r, c->job)) {
        if (c->job->is_passing)
            rlt_class_unschedulable(r, c, c->job->failure_code, c->job->failure);
        else
            rlt_class_shun(r, c, r->node, c->job->failure_code, c->job->failure);
        return true;
    }
    if (c->job->shunned.count && !rlt_class_has_node_left(r, c)) {
        rlt_class_unschedulable(r, c, c->job->shun_code, c->job->shun_text);
        return true;
    }
    if (is_told_of_full(r, c)) {
        snprintf(text, sizeof text,
                 "\"%s\": actors hold all %u processes that node %u (%s) may run (--max-workers, its limit of "
                 "descriptors)",
                 c->def.name, r->config.workers_max, r->node, r->config.node_name);
        rlt_class_unschedulable(r, c, MT_EAGAIN, text);
        return true;
    }
    if (r->config.has_head && (!r->config.is_private || ctl_class_is_grouped(&c->def)))
        return false; /* the head knows all nodes, and says so */
    if (!mt_selector_match(c->def.labels, r->config.labels)) {
        snprintf(text, sizeof text, "\"%s\" wants a node with the labels \"%.160s\"; node %u has \"%.160s\"", c->def.name,
                 c->def.labels, r->node, r->config.labels);
    } else if (c->def.policy == CTL_NODE && c->def.node != r->node) {
        snprintf(text, sizeof text, "\"%s\" wants node %u, which is not in the cluster", c->def.name, c->def.node);
    } else if (!rlt_ledger_could_ever(&r->ledger, c->def.resources, c->def.resource_count, &lacking)) {
        const struct ctl_resource *want = &c->def.resources[lacking];
        int                        at = rlt_ledger_find(&r->ledger, want->name);
        bool                       is_bytes = strcmp(want->name, "memory") == 0;
        double                     scale = is_bytes ? 1048576.0 : 1000.0;
        snprintf(text, sizeof text, "\"%s\" wants %.10g%s of \"%s\"; the largest node, %u (%s), has %.10g%s", c->def.name,
                 (double)want->milli / scale, is_bytes ? " MiB" : "", want->name, r->node, r->config.node_name,
                 at < 0 ? 0.0 : (double)r->ledger.total[at].milli / scale, is_bytes ? " MiB" : "");
    } else {
        return false;
    }
    rlt_class_unschedulable(r, c, MT_EUNSCHEDULABLE, text);
    return true;
}

/* What the node gets back of resource `i` when the lease ends: not the CPUs that it lends already, being blocked, and
 * nothing of a bundle, which has its own pool. */
static int64_t comes_back(const struct rlt *r, const struct rlt_lease *l, uint32_t i)
{
    bool is_lent = l->hold.is_cpu_out && (int)i == rlt_ledger_find(&r->ledger, "CPU");
    return is_lent || l->bundle ? 0 : l->hold.amount[i];
}

/* And the place of its process, which stays with it while it is blocked. */
static bool gives_place(const struct rlt *r, const struct rlt_lease *l)
{
    return l->kind != LEASE_CALLER && l->worker_node == r->node;
}

static void add_coming(const struct rlt *r, const struct rlt_lease *l, int64_t *coming)
{
    for (uint32_t i = 0; i < r->ledger.count; i++)
        coming[i] += comes_back(r, l, i);
    coming[PLACES] += gives_place(r, l);
}

/* Whether one lease of it fits with what is free and what is coming. */
static bool could_with(const struct rlt *r, const struct rlt_class *c, const int64_t *coming)
{
    return rlt_pool_places(r) + coming[PLACES] > 0 &&
           rlt_ledger_could_now(&r->ledger, c->def.resources, c->def.resource_count, coming);
}

/* Whether `waiter` may have this lease recalled once its slice is over: it has none, or the other class has more. */
static bool is_due_to(const struct rlt_lease *l, const struct rlt_class *waiter)
{
    if (l->kind != LEASE_TASK || l->state != LEASE_ACTIVE || l->class == waiter)
        return false;
    return !waiter->held || (l->class && l->class->held > waiter->held + 1);
}

/* Whether one lease of `c` will fit without anybody else's doing: free, on its way back, or to be recalled for it. What was asked
 * back long ago may take for ever. `until`: not later than when the first that counts now counts no longer. */
static bool class_can_count_on_room(const struct rlt *r, const struct rlt_class *c, uint64_t *until)
{
    int64_t  coming[PLACES + 1] = {0};
    uint64_t first = UINT64_MAX, patience = rlt_class_patience(c);
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases && !r->full_since; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        bool                    is_asked = l->state >= LEASE_RECALLED;
        uint64_t                end = MT_PLANT(MT_PLANT_RESERVE_EVER) ? UINT64_MAX : l->recalled_at + patience;
        if (is_asked ? end <= r->now : !is_due_to(l, c))
            continue;
        add_coming(r, l, coming);
        first = is_asked && end < first ? end : first;
    }
    if (!could_with(r, c, coming))
        return false;
    *until = first < *until && !MT_PLANT(MT_PLANT_RESERVE_ASLEEP) ? first : *until;
    return true;
}

/* The resources that the guest needs. */
static uint32_t guest_mask(const struct rlt *r)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < r->guest.def.resource_count; i++) {
        int at = rlt_ledger_find(&r->ledger, r->guest.def.resources[i].name);
        mask |= at < 0 ? 0 : 1u << at;
    }
    return mask;
}

static bool has_guest(const struct rlt *r)
{
    return mt_heap_holds(&r->guest_over.node);
}

void rlt_guest_comes(struct rlt *r, const struct ctl_class *def, uint32_t presses, uint32_t keep_ms)
{
    if (!rlt_ledger_could_ever(&r->ledger, def->resources, def->resource_count, NULL) ||
        (has_guest(r) && presses && presses < r->guest_presses))
        return;
    if (!has_guest(r)) {
        r->guest.waiting_since = r->now;
        r->guest.patience = 0;
    }
    r->guest.def = *def;
    r->guest_presses = presses;
    r->is_dirty = true;
    rlt_timer_set(r, &r->guest_over, r->now + (keep_ms < MT_RLT_PRESS_MAX_MS ? keep_ms : MT_RLT_PRESS_MAX_MS) * (uint64_t)RLT_MS);
}

void rlt_guest_goes(struct rlt *r)
{
    rlt_timer_clear(r, &r->guest_over);
    r->is_dirty = true;
}

/* Whether a lease of such a class leaves the guest the room that it can count on, which it does `until` then at most. */
static bool leaves_room_for_guest(const struct rlt *r, const struct ctl_class *def, uint64_t *until)
{
    int64_t taken[MT_RLT_RESOURCES_MAX] = {0};
    bool    overlaps = false;
    if (!has_guest(r) || !class_can_count_on_room(r, &r->guest, until))
        return true;
    for (uint32_t i = 0; i < def->resource_count; i++) {
        int at = rlt_ledger_find(&r->ledger, def->resources[i].name);
        if (at < 0)
            continue;
        taken[at] -= def->resources[i].milli;
        overlaps |= (guest_mask(r) & 1u << at) != 0;
    }
    return !overlaps || rlt_ledger_could_now(&r->ledger, r->guest.def.resources, r->guest.def.resource_count, taken);
}

/* Both hold nothing: who came first. */
static bool is_before_guest(const struct rlt *r, const struct rlt_class *c)
{
    return !has_guest(r) || (c->held == 0 && c->waiting_since < r->guest.waiting_since);
}

bool rlt_others_may_have(const struct rlt *r, const struct ctl_class *def, uint32_t presses)
{
    uint64_t until = UINT64_MAX; /* it is refused, and waits for nothing here */
    if (ctl_class_is_grouped(def))
        return true;
    return !uses_any(r, def, r->kept) && (presses >= r->guest_presses || leaves_room_for_guest(r, def, &until));
}

int64_t rlt_free_for_others(const struct rlt *r, uint32_t resource)
{
    int64_t left = r->ledger.free[resource];
    return left > 0 && (r->kept & 1u << resource) ? 0 : left;
}

static bool may_be_recalled(const struct rlt *r, const struct rlt_lease *l, const struct rlt_class *waiter, uint32_t lacks)
{
    bool overlaps = (lacks & 1u << PLACES) && gives_place(r, l);
    for (uint32_t i = 0; i < r->ledger.count; i++)
        overlaps |= (lacks & 1u << i) && comes_back(r, l, i) > 0;
    return overlaps && is_due_to(l, waiter) && r->now - l->granted_at >= MT_RLT_SLICE_MS * RLT_MS;
}

/* One round over the waiting; whether anybody got a lease. `out_until`: when somebody may keep less from others. */
static bool grant_round(struct rlt *r, uint64_t *out_until)
{
    uint32_t reserved = 0;
    bool     any = false;
    r->kept = 0;
    *out_until = UINT64_MAX;
    RLT_LIST_EACH(&r->waiting, link) {
        struct rlt_class *c = mt_container_of(link, struct rlt_class, in_waiting);
        if (class_is_hopeless(r, c) || (r->drain.is_on && !MT_PLANT(MT_PLANT_DRAIN_GRANTS)) || !is_for_this_node(r, c))
            continue;
        bool is_grouped = ctl_class_is_grouped(&c->def);
        if (is_grouped && !class_fits(r, c))
            continue;
        if (is_grouped || (class_fits(r, c) && !uses_any(r, &c->def, reserved) &&
                           (is_before_guest(r, c) || leaves_room_for_guest(r, &c->def, out_until)))) {
            rlt_list_out(&c->in_waiting);
            grant_one(r, c);
            rlt_class_wait(r, c); /* still short: to the end of the line */
            any = true;
        } else if (r->now - c->waiting_since >= MT_RLT_SLICE_MS * RLT_MS && class_can_count_on_room(r, c, out_until)) {
            uint32_t lacks = lacking_mask(r, c);
            reserved |= lacks;
            r->kept |= is_before_guest(r, c) ? lacks : 0;
        }
    }
    return any;
}

/* Recalls leases that have run their slice until `c` could have one more. Returns when there is something to look at again. */
static uint64_t recall_for(struct rlt *r, struct rlt_class *c, int64_t *coming)
{
    uint32_t lacks = lacking_mask(r, c);
    uint64_t next = UINT64_MAX;
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        uint64_t          end = l->granted_at;
        if (could_with(r, c, coming))
            break;
        if (may_be_recalled(r, l, c, lacks)) {
            add_coming(r, l, coming);
            rlt_lease_recall(r, l, 0);
            end = r->now; /* after a slice it is late */
        } else if (l->kind != LEASE_TASK || l->state != LEASE_ACTIVE) {
            continue;
        }
        end += MT_RLT_SLICE_MS * RLT_MS;
        if (end > r->now && end < next)
            next = end;
    }
    /* What is on its way is promised to this class: the next one may not count on it. */
    for (uint32_t i = 0; i < c->def.resource_count; i++) {
        int at = rlt_ledger_find(&r->ledger, c->def.resources[i].name);
        if (at >= 0)
            coming[at] -= c->def.resources[i].milli;
    }
    coming[PLACES]--;
    return next;
}

/* What is on its way back soon. Who was asked a slice ago and has not come runs something long: no one knows when it ends, and
 * there may be another lease that has nothing to do. Returns when the next one is late. */
static uint64_t coming_soon(const struct rlt *r, int64_t *out)
{
    uint64_t next = UINT64_MAX;
    for (struct rlt_list *link = r->all_leases.next; link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        uint64_t                late = l->recalled_at + MT_RLT_SLICE_MS * RLT_MS;
        if (l->state < LEASE_RECALLED || (l->state == LEASE_RECALLED && late <= r->now))
            continue;
        add_coming(r, l, out);
        if (l->state == LEASE_RECALLED && late < next)
            next = late;
    }
    return next;
}

/* Returns when to look again. */
static uint64_t recall_round(struct rlt *r)
{
    int64_t  coming[PLACES + 1] = {0};
    uint64_t next = coming_soon(r, coming), end;
    if (has_guest(r)) {
        end = recall_for(r, &r->guest, coming);
        next = end < next ? end : next;
    }
    RLT_LIST_EACH(&r->waiting, link) {
        struct rlt_class *c = mt_container_of(link, struct rlt_class, in_waiting);
        if (ctl_class_is_grouped(&c->def)) {
            end = r->now - c->waiting_since < MT_RLT_SLICE_MS * RLT_MS ? c->waiting_since + MT_RLT_SLICE_MS * RLT_MS
                                                                       : rlt_bundle_recall(r, c);
            next = end < next ? end : next;
            continue;
        }
        if (!is_for_this_node(r, c) || !rlt_ledger_could_ever(&r->ledger, c->def.resources, c->def.resource_count, NULL))
            continue;
        end = recall_for(r, c, coming);
        next = end < next ? end : next;
    }
    return next;
}

/* A task that came back from its wait runs beside the one that was started in its place: more than there are CPUs. The youngest
 * leases are asked back, so that nothing begins there until there is room again. Each had time to begin something: else a task that
 * waits again and again for a moment, and for what is next in such a lease, would take it away each time. Returns when to look
 * again. */
static uint64_t over_round(struct rlt *r)
{
    uint64_t next = UINT64_MAX;
    int      cpu = rlt_ledger_find(&r->ledger, "CPU");
    int64_t  lacks = cpu < 0 ? 0 : -r->ledger.free[cpu];
    for (struct rlt_list *link = r->all_leases.next; lacks > 0 && link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        lacks -= l->state != LEASE_ACTIVE ? comes_back(r, l, (uint32_t)cpu) : 0; /* one without a worker runs nothing yet */
    }
    for (struct rlt_list *link = r->all_leases.prev, *prev; lacks > 0 && link != &r->all_leases; link = prev) {
        struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        int64_t           amount = comes_back(r, l, (uint32_t)cpu);
        uint64_t          due = l->granted_at + MT_RLT_OVER_NS;
        prev = link->prev;
        if (l->kind != LEASE_TASK || l->state != LEASE_ACTIVE || amount == 0)
            continue;
        lacks -= amount;
        if (due <= r->now && !MT_PLANT(MT_PLANT_OVER_CPUS))
            rlt_lease_recall(r, l, 0);
        else if (due > r->now && due < next)
            next = due;
    }
    return next;
}

/* Since when every process is an actor's, so that none comes back by itself. */
static void full_note(struct rlt *r)
{
    bool is_full = rlt_pool_places(r) <= 0;
    for (struct rlt_list *link = r->all_leases.next; is_full && link != &r->all_leases; link = link->next) {
        const struct rlt_lease *l = mt_container_of(link, struct rlt_lease, in_all);
        is_full = !gives_place(r, l) || (l->kind == LEASE_ACTOR && l->state <= LEASE_ACTIVE);
    }
    if (is_full && !r->full_since)
        rlt_timer_set(r, &r->full_over, r->now + MT_RLT_FULL_MS * RLT_MS);
    r->full_since = !is_full ? 0 : r->full_since ? r->full_since : r->now;
}

bool rlt_is_stuck(const struct rlt *r)
{
    return r->full_since && r->now - r->full_since >= MT_RLT_FULL_MS * RLT_MS;
}

bool rlt_keeps_room(const struct rlt *r, uint64_t *out_ns)
{
    bool any = false;
    *out_ns = rlt_class_patience(&r->guest);
    for (struct rlt_list *link = r->waiting.next; link != &r->waiting; link = link->next) {
        const struct rlt_class *c = mt_container_of(link, struct rlt_class, in_waiting);
        uint64_t                patience = rlt_class_patience(c);
        *out_ns = patience > *out_ns ? patience : *out_ns;
        any |= is_for_this_node(r, c) && class_fits(r, c);
    }
    return any && !r->is_stopping && !r->drain.is_on && !mt_heap_holds(&r->short_over.node);
}

void rlt_alone_arm(struct rlt *r)
{
    uint64_t since = rlt_away_since(r), soon = r->asked_alone_at + MT_RLT_ALONE_MS * RLT_MS;
    soon = soon < r->now ? r->now : soon;
    if (since != UINT64_MAX && !rlt_list_is_empty(&r->waiting) && !mt_heap_holds(&r->alone.node))
        rlt_timer_set(r, &r->alone, since > soon ? since : soon);
}

void rlt_schedule(struct rlt *r)
{
    if (!r->is_dirty || r->is_stopping || mt_heap_holds(&r->short_over.node))
        return;
    r->is_dirty = false;
    full_note(r);
    uint64_t next = over_round(r), later, until;
    while (grant_round(r, &until))
        ;
    next = until < next ? until : next;
    full_note(r);
    if (!r->full_since && (has_guest(r) || !rlt_list_is_empty(&r->waiting)) &&
        (later = recall_round(r)) < next) /* else nobody to recall */
        next = later;
    if (next != UINT64_MAX)
        rlt_timer_set(r, &r->slice, next);
    rlt_alone_arm(r);
    r->is_dirty = false;
}
