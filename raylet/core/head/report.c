/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - what the head hears of this node: what is free, who waits, what is held, when that changes and now and then.
 *
 * Owns: the times and the hash of the last report. Thread: the logic loop only.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/leases/bundles.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/schedule/schedule.h"
#include "core/base/limits/head.h"

static void hash_in(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * 0x9e3779b97f4a7c15u;
    *hash ^= *hash >> 29;
}

static uint32_t places_left(const struct rlt *r)
{
    int64_t places = rlt_pool_places(r);
    return places < 0 ? 0 : places < MT_RLT_PLACES_SAID ? (uint32_t)places : MT_RLT_PLACES_SAID;
}

static uint64_t report_hash(const struct rlt *r, uint32_t *out_wants)
{
    uint64_t hash = 1;
    *out_wants = 0;
    for (uint32_t i = 0; i < r->ledger.count; i++)
        hash_in(&hash, (uint64_t)rlt_free_for_others(r, i));
    hash_in(&hash, places_left(r) << 1 | rlt_is_stuck(r));
    hash_in(&hash, rlt_strict_hash(r));
    hash_in(&hash, rlt_drain_hash(r));
    hash_in(&hash, r->bundle_changes);
    hash_in(&hash, r->head.wish_changes);
    hash_in(&hash, r->ledger.changes); /* taken and given back since: the head lets go of what it had reserved */
    for (struct rlt_list *link = r->waiting.next; link != &r->waiting; link = link->next) {
        const struct rlt_class *c = mt_container_of(link, struct rlt_class, in_waiting);
        hash_in(&hash, c->owner->process);
        hash_in(&hash, c->def.class_id);
        hash_in(&hash, c->version << 20 | rlt_class_lacks(c));
        hash_in(&hash, c->held > 0);
        hash_in(&hash, c->ended_elsewhere);
        ++*out_wants;
    }
    return hash;
}

static Manta__V1__Want *want_make(struct rlt *r, const struct rlt_class *c)
{
    static const Manta__V1__Want empty = MANTA__V1__WANT__INIT;
    Manta__V1__Want             *w = rlt_keep(r->out, &empty, sizeof empty);
    w->owner = c->owner->process;
    w->class_id = c->def.class_id;
    w->version = c->version;
    w->wanted = rlt_class_lacks(c);
    w->held = c->held;
    w->policy = c->def.policy;
    w->group_process = c->def.group.process;
    w->group_counter = c->def.group.counter_index;
    w->bundle = c->def.bundle;
    w->node = c->def.node;
    w->labels = rlt_keep_text(r, c->def.labels);
    w->job = c->owner->job->job;
    w->n_avoid = c->job ? c->job->shunned.count : 0;
    w->avoid = w->n_avoid ? rlt_keep(r->out, c->job->shunned.data, w->n_avoid * sizeof *w->avoid) : NULL;
    w->n_resources = c->def.resource_count;
    w->resources = rlt_resources_make(r, c->def.resources, c->def.resource_count);
    return w;
}

static void report_send(struct rlt *r, uint32_t want_count)
{
    static const Manta__V1__Report empty = MANTA__V1__REPORT__INIT;
    Manta__V1__NodeToHead         *m = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_REPORT);
    Manta__V1__Report             *report = rlt_keep(r->out, &empty, sizeof empty);
    struct ctl_resource            free_now[MT_RLT_RESOURCES_MAX];
    memcpy(free_now, r->ledger.total, sizeof free_now);
    for (uint32_t i = 0; i < r->ledger.count; i++)
        free_now[i].milli = rlt_free_for_others(r, i);
    report->version = ++r->head.report_version;
    report->n_free = r->ledger.count;
    report->free = rlt_resources_make(r, free_now, r->ledger.count);
    report->wants = rlt_keep(r->out, NULL, (want_count + 1) * sizeof *report->wants);
    for (struct rlt_list *link = r->waiting.next; link != &r->waiting; link = link->next)
        report->wants[report->n_wants++] = want_make(r, mt_container_of(link, struct rlt_class, in_waiting));
    report->workers_max = r->config.workers_max;
    report->places = places_left(r);
    report->is_stuck = rlt_is_stuck(r);
    report->here = r->head.reported_here = rlt_drain_here(r, &report->tasks_here);
    if (r->drain.is_on) {
        char text[CTL_TEXT_SIZE];
        rlt_drain_waits(r, text, sizeof text);
        report->waits = rlt_keep_text(r, text);
    }
    rlt_strict_report(r, report);
    rlt_bundles_report(r, report);
    rlt_wishes_report(r, report);
    rlt_alone_reported(r, report->n_wants ? report->version : 0);
    m->report = report;
    rlt_head_send(r, m);
}

/* A change is told soon, and once more when it stands: what the head has promised of this node it lets go with the first
 * report that is MT_HEAD_PROMISE_MS younger, and what came and went in between would wait for the next sign of life. */
static uint64_t report_gap_ms(const struct rlt_head *h, uint64_t hash)
{
    if (hash != h->reported_hash)
        return MT_RLT_REPORT_MS;
    return h->is_change_reported ? MT_HEAD_PROMISE_MS + MT_RLT_REPORT_MS : MT_RLT_BEAT_MS;
}

/* Nothing new was there for a while, and nobody counts on an answer to a report or on its being said again. */
static bool may_beat(const struct rlt *r, uint64_t hash, uint32_t wants)
{
    return r->head.beats.state == BEATS_QUIET && r->head.report_version && hash == r->head.reported_hash &&
           !r->head.is_change_reported && !wants && !r->strict_count && !r->bundle_count && !r->drain.is_on;
}

void rlt_head_changed(struct rlt *r)
{
    struct rlt_head *h = &r->head;
    uint32_t         wants;
    if (!h->is_registered || r->is_stopping)
        return;
    uint64_t hash = report_hash(r, &wants);
    uint64_t due = may_beat(r, hash, wants) ? rlt_beat_due(r) : h->reported_at + report_gap_ms(h, hash) * RLT_MS;
    if (h->report_version && due > r->now) {
        if (!mt_heap_holds(&h->report.node) || h->report.node.key != due)
            rlt_timer_set(r, &h->report, due);
        return;
    }
    report_send(r, wants);
    rlt_beat_beside(r);
    h->is_change_reported = hash != h->reported_hash;
    h->reported_at = r->now;
    h->reported_hash = hash;
    rlt_timer_set(r, &h->report, r->now + report_gap_ms(h, hash) * RLT_MS);
}
