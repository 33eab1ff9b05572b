/* SPDX-License-Identifier: Apache-2.0
 *
 * why.c - why a demand is not met: all that stands between it and new nodes of the type that is nearest, which is the one with the
 *         fewest obstacles. Where all that is named is taken away, it is placed (tests/unit/scaler/why_test.c).
 */
#include "scheduler/scaler/pack.h"
#include "scheduler/scaler/why.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum obstacle {
    TYPE_FAILED = 1, /* could not be started; is tried again later */
    TYPE_FULL = 2,   /* has, or would have, more nodes than its maximum */
    CLUSTER_FULL = 4,
};

struct reason {
    char  *out;
    size_t size, used;
    bool   has_any;
};

static void say(struct reason *r, const char *format, ...) MT_PRINTF(2, 3);
static void say(struct reason *r, const char *format, ...)
{
    va_list args;
    if (r->has_any && r->used < r->size)
        r->used += (size_t)snprintf(r->out + r->used, r->size - r->used, ", and ");
    r->has_any = true;
    va_start(args, format);
    if (r->used < r->size)
        r->used += (size_t)vsnprintf(r->out + r->used, r->size - r->used, format, args);
    va_end(args);
}

/* ---- what can ever be ---- */

bool scl_could_hold(const struct scl *s, const struct policy_request *request)
{
    for (uint32_t t = 0; t < s->config.count && !s->config.is_down; t++)
        if (s->types[t].max > 0 && request->policy != POLICY_NODE &&
            (policy_fits_total(&s->types[t].place, request) || (s->types[t].is_unknown && scl_labels_fit(s, t, request))))
            return true;
    return false;
}

static void say_never(const struct scl *s, const char *const *kinds, const struct policy_request *r, struct reason *out)
{
    const struct policy_node *places[MT_SCL_TYPES_MAX];
    char                      text[160];
    for (uint32_t t = 0; t < s->config.count; t++)
        places[t] = &s->types[t].place;
    if (s->config.count == 0) {
        say(out, "nothing can be started: the cluster has no node types");
        return;
    }
    policy_explain(places, s->config.count, r, kinds, text, sizeof text);
    say(out, "no node type can ever hold it: %s", text);
}

/* ---- what stands in the way ---- */

static uint32_t left_of(uint32_t maximum, uint32_t has)
{
    return has < maximum ? maximum - has : 0;
}

void scl_note_left(struct scl *s, const struct plan *plan)
{
    for (uint32_t t = 0; t < s->config.count; t++)
        s->left[t] = left_of(s->types[t].max, s->state[s->state[t].first].all + plan->zones[s->state[t].first]);
    s->left_all = s->config.max ? left_of(s->config.max, s->live + plan->all) : UINT32_MAX;
}

/* Between a demand and `nodes` new ones of `type`. */
static unsigned obstacles(const struct scl *s, uint32_t type, uint32_t nodes)
{
    return (s->now_ms < s->state[type].back_ms ? TYPE_FAILED : 0) | (nodes > s->left[type] ? TYPE_FULL : 0) |
           (nodes > s->left_all ? CLUSTER_FULL : 0);
}

/* So many new nodes of `type` hold `count` of it; 0: none can. */
static uint32_t nodes_for(const struct scl *s, uint32_t type, const struct policy_request *r, uint32_t count)
{
    if (s->types[type].is_unknown)
        return scl_labels_fit(s, type, r);
    uint32_t each = policy_fits_total(&s->types[type].place, r) ? scl_fit_new(s, type, r, count) : 0;
    return each ? (count + each - 1) / each : 0;
}

static uint32_t nearest(const struct scl *s, const struct policy_request *r, uint32_t count)
{
    uint32_t best = SCL_NO_TYPE;
    int      least = 0;
    for (uint32_t t = 0; t < s->config.count; t++) {
        uint32_t nodes = nodes_for(s, t, r, count);
        int      between = nodes ? __builtin_popcount(obstacles(s, t, nodes)) + s->types[t].is_unknown : 0;
        if (nodes && (best == SCL_NO_TYPE || between < least)) {
            best = t;
            least = between;
        }
    }
    return best;
}

static void say_failed(const struct scl *s, uint32_t t, struct reason *out)
{
    const struct type_state *st = &s->state[t];
    if (s->now_ms < st->back_ms)
        say(out, "type %.80s could not be started (%.150s); next try in %" PRIu64 " s", st->text, st->why,
            (st->back_ms - s->now_ms + 999) / 1000);
}

/* `nodes` more, in all of its zones together. */
static void say_full(const struct scl *s, uint32_t t, uint32_t nodes, struct reason *out)
{
    uint32_t left = s->left[t];
    if (nodes > left && left == 0)
        say(out, "type %.40s has its maximum of %u nodes", s->types[t].name, s->types[t].max);
    else if (nodes > left)
        say(out, "of type %.40s only %u more nodes may be had (its maximum is %u)", s->types[t].name, left, s->types[t].max);
}

static void say_cluster(const struct scl *s, struct reason *out)
{
    uint32_t left = s->left_all;
    if (left == 0)
        say(out, "the cluster has its maximum of %u nodes", s->config.max);
    else
        say(out, "the cluster may have only %u more nodes (its maximum is %u)", left, s->config.max);
}

/* How many new nodes of each type it takes, each part of it on the nearest. NULL, or the part that no type can hold. */
static const struct policy_request *lay_out(const struct scl *s, const struct held_demand *d, struct policy_request *sum,
                                            uint32_t *nodes)
{
    bool     is_gang = d->demand.kind == SCL_GANG, is_one = is_gang && d->demand.strategy == POLICY_GROUP_STRICT_PACK;
    uint32_t parts = is_gang && !is_one ? d->demand.count : 1, count = is_gang ? 1 : d->unmet;
    if (is_one)
        scl_gang_sum(d, sum);
    if (d->demand.pace)
        scl_pace_request(d->requests, d->choice.wants, sum);
    for (uint32_t b = 0; b < parts; b++) {
        const struct policy_request *r = is_one || d->demand.pace ? sum : &d->requests[b];
        uint32_t                     type = nearest(s, r, count);
        if (type == SCL_NO_TYPE)
            return r;
        nodes[type] += nodes_for(s, type, r, count);
    }
    return NULL;
}

void scl_say_why(const struct scl *s, const char *const *kinds, const struct held_demand *d, struct scl_reason *reason)
{
    struct policy_request        sum;
    uint32_t                     nodes[MT_SCL_TYPES_MAX] = {0}, zones[MT_SCL_TYPES_MAX] = {0}, all = 0;
    struct reason                out = {.out = reason->text, .size = sizeof reason->text};
    const struct policy_request *never = lay_out(s, d, &sum, nodes);
    *reason = (struct scl_reason){.is_never = never || s->config.is_down};
    if (s->config.is_down)
        say(&out, "the cluster goes down");
    if (never) {
        say_never(s, kinds, never, &out);
        return;
    }
    if (!s->config.is_down && d->demand.kind == SCL_GANG && d->demand.count > 1)
        out.used = (size_t)snprintf(reason->text, sizeof reason->text, "all or none: ");
    for (uint32_t t = 0; t < s->config.count; t++) {
        all += nodes[t];
        zones[s->state[t].first] += nodes[t];
        if (nodes[t])
            say_failed(s, t, &out);
        if (nodes[t] && s->types[t].is_unknown)
            say(&out, "what a node of type %.40s has is not known until the first has joined", s->types[t].name);
    }
    for (uint32_t t = 0; t < s->config.count; t++)
        say_full(s, t, zones[t], &out);
    if (all > s->left_all)
        say_cluster(s, &out);
    if (d->demand.pace && d->choice.wants == SCL_WANTS_SPOT)
        say(&out, "it has time until %" PRIu64 " s from now, and waits for a spot node", (d->choice.late_ms - s->now_ms) / 1000);
    reason->is_soon = !out.has_any && d->demand.kind == SCL_WISH;
    if (reason->is_soon)
        say(&out, "a node is started for it once it has stood for %d s", MT_SCL_WISH_MS / 1000);
    else if (!out.has_any)
        say(&out, "not all of its bundles can be had at once");
}
