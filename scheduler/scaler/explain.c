/* SPDX-License-Identifier: Apache-2.0
 *
 * explain.c - for people: what there is, why a demand is not met, why a node is kept, and what was decided.
 */
#include "scheduler/scaler/private.h"
#include "scheduler/scaler/why.h"

#include <inttypes.h>
#include <stdio.h>

enum { ROW_SIZE = 512, STANDS_WITHOUT = 1000 * 1000 };

static uint64_t age_s(const struct scl *s, uint64_t since_ms)
{
    return (s->now_ms - since_ms) / 1000;
}

static void say_has(const struct scl_type *type, const char *const *kinds, char *out, size_t size)
{
    struct policy_request has = {.amount_count = type->place.resource_count};
    char                  shape[MT_SCL_NAME_SIZE * 3];
    out[0] = '\0';
    for (uint32_t i = 0; i < has.amount_count; i++)
        has.amounts[i] = (struct policy_amount){type->place.resources[i].kind, type->place.resources[i].total};
    scl_shape_text(kinds, &has, shape, sizeof shape);
    if (type->is_unknown)
        snprintf(out, size, "; what one has is not known until the first has joined");
    else if (type->is_learnt)
        snprintf(out, size, "; one has %s, as it has told", shape);
}

static void status_type(const struct scl *s, uint32_t t, const char *const *kinds, scl_row_fn *fn, void *user)
{
    const struct type_state *st = &s->state[t];
    bool                     failed = st->back_ms > s->now_ms, is_avoided = st->avoid_ms > s->now_ms;
    char                     text[ROW_SIZE], has[MT_SCL_NAME_SIZE * 4];
    say_has(&s->types[t], kinds, has, sizeof has);
    int used = snprintf(text, sizeof text, "%u of %u..%u nodes%s%s%s%.100s", st->live, s->types[t].min, s->types[t].max,
                        s->types[t].is_spot ? ", spot" : "", has, failed ? "; could not be started: " : "", failed ? st->why : "");
    if (is_avoided)
        snprintf(text + used, sizeof text - (size_t)used, "; others come first for %" PRIu64 " s: %.150s",
                 (st->avoid_ms - s->now_ms + 999) / 1000, st->taken);
    fn(user, st->text, text);
}

/* What ends is gone once a listing is without it: where those fail nobody knows. */
static void status_provider(const struct scl *s, scl_row_fn *fn, void *user)
{
    char text[ROW_SIZE];
    if (!s->list_why[0])
        return;
    snprintf(text, sizeof text, "can't list what runs there, for %" PRIu64 " s, so nothing is known to have ended: %s",
             age_s(s, s->list_failed_ms), s->list_why);
    fn(user, "provider", text);
}

void scl_status_each(const struct scl *s, const char *const *kinds, scl_row_fn *fn, void *user)
{
    char text[ROW_SIZE], name[32];
    status_provider(s, fn, user);
    for (uint32_t t = 0; t < s->config.count; t++)
        status_type(s, t, kinds, fn, user);
    MT_MAP_EACH(&s->instances, entry) {
        const struct scl_instance *i = entry->value.ptr;
        char                       node[32] = "";
        if (i->node)
            snprintf(node, sizeof node, ", node %u", i->node);
        snprintf(name, sizeof name, "instance %" PRIu64, i->number);
        snprintf(text, sizeof text, "%s%s%s %s%s%s%s, for %" PRIu64 " s%s%s", i->type, i->zone[0] ? " in zone " : "", i->zone,
                 scl_state_text(i->state), node, i->handle[0] ? ", handle " : "", i->handle, age_s(s, i->since_ms),
                 i->why[0] ? ": " : "", i->why);
        fn(user, name, text);
    }
}

/* ---- demands ---- */

static void explain_demand(const struct scl *s, const char *const *kinds, const struct held_demand *d, scl_row_fn *fn, void *user)
{
    static const char *const words[] = {"waiting", "group", "request", "wish"};
    char                     what[MT_SCL_NAME_SIZE + 16], text[ROW_SIZE], shape[MT_SCL_NAME_SIZE * 2];
    struct scl_reason        reason;
    size_t                   used;
    scl_shape_text(kinds, d->requests, shape, sizeof shape);
    snprintf(what, sizeof what, "%s%s%s", words[d->demand.kind], d->demand.name[0] ? " " : "", d->demand.name);
    used = (size_t)snprintf(text, sizeof text, "%u x %s: ", d->demand.count, shape);
    if (d->demand.pace)
        used += (size_t)snprintf(text + used, sizeof text - used, "%" PRIu64 " s of work and %" PRIu64 " s until its deadline; ",
                                 d->pace.left_ms / 1000,
                                 d->pace.deadline_ms > s->now_ms ? (d->pace.deadline_ms - s->now_ms) / 1000 : 0);
    if (d->demand.kind == SCL_WISH && d->demand.worth >= STANDS_WITHOUT)
        used += (size_t)snprintf(text + used, sizeof text - used, "its work stands without; ");
    else if (d->demand.kind == SCL_WISH)
        used += (size_t)snprintf(text + used, sizeof text - used, "its work gets quicker by %.3g %% with one more; ",
                                 (double)d->demand.worth / 10);
    if (d->demand.pace && d->choice.wants == SCL_WANTS_NOTHING)
        snprintf(text + used, sizeof text - used, "runs on node %u, and stays there", d->pace.node);
    else if (d->demand.pace && d->choice.place == SCL_ON_SURE)
        snprintf(text + used, sizeof text - used, "runs on node %u, and goes to a spot node when one is there", d->pace.node);
    else if (d->unmet) {
        scl_say_why(s, kinds, d, &reason);
        snprintf(text + used, sizeof text - used, "%u unmet: %s", d->unmet, reason.text);
    } else if (d->coming + d->started)
        snprintf(text + used, sizeof text - used, "%u wait for nodes that are being started", d->coming + d->started);
    else if (d->demand.kind == SCL_REQUEST)
        snprintf(text + used, sizeof text - used, "the nodes that there are have it");
    else
        snprintf(text + used, sizeof text - used, "fits on nodes that there are, and is being placed");
    fn(user, what, text);
}

/* Of a type that is started once more: what was wrong the last time. "": nothing was. */
static void say_again(const struct scl *s, char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t t = 0; t < s->config.count && !text[0]; t++)
        if (s->state[t].launching && s->state[t].failures)
            snprintf(text, size, "type %.80s could not be started before (%.120s)", s->state[t].text, s->state[t].why);
}

void scl_wishes_each(const struct scl *s, const char *const *kinds, scl_wish_fn *fn, void *user)
{
    for (size_t i = 0; i < s->demands.count; i++) {
        const struct held_demand *d = &s->demands.data[i];
        struct scl_reason         reason = {.text = ""};
        if (d->demand.kind != SCL_WISH)
            continue;
        if (d->unmet)
            scl_say_why(s, kinds, d, &reason);
        bool                comes = d->coming + d->started > 0 || reason.is_soon;
        enum scl_wish_state state = reason.is_never ? SCL_WISH_NEVER
                                    : comes         ? SCL_WISH_COMING
                                    : d->unmet      ? SCL_WISH_WAITS
                                                    : SCL_WISH_MET;
        if (state == SCL_WISH_COMING)
            say_again(s, reason.text, sizeof reason.text);
        fn(user, d->demand.owner, d->demand.name, state, state == SCL_WISH_MET ? "" : reason.text);
    }
}

/* ---- nodes ---- */

static void explain_idle(const struct scl *s, const struct scl_known *n, const struct scl_instance *i, char *out, size_t size)
{
    uint64_t said = s->types[i->type_index].idle_ms, least = scl_idle_least(s, i->type_index);
    size_t   used = (size_t)snprintf(out, size, "kept: ");
    if (n->kept & KEPT_NEEDED)
        used += (size_t)snprintf(out + used, size - used, "something that waits, or was requested, has its place there, and ");
    if (n->kept & KEPT_MIN)
        used += (size_t)snprintf(out + used, size - used, "the minimum of type %.60s is %u, and ", i->type,
                                 s->types[i->type_index].min);
    if (n->kept & KEPT_FLOOR)
        used += (size_t)snprintf(out + used, size - used,
                                 "%u nodes at least are no spot nodes while there are such (on_demand_min), and ",
                                 s->config.on_demand_min);
    snprintf(out + used, size - used, "idle for %" PRIu64 " s of %" PRIu64 " s%s", age_s(s, n->idle_ms),
             (said > least ? said : least) / 1000,
             said > least ? "" : " (twice as long as a node of its type takes to come, at least 2 s)");
}

static void explain_node(const struct scl *s, const struct scl_known *n, scl_row_fn *fn, void *user)
{
    const struct scl_instance *i = scl_find(s, n->instance);
    char                       what[32], text[ROW_SIZE];
    snprintf(what, sizeof what, "node %u", n->place.id);
    if (!i || i->node != n->place.id)
        snprintf(text, sizeof text, "kept: the scaler has not started it");
    else if (i->state == SCL_DRAINING)
        snprintf(text, sizeof text, "leaves: %s", i->why);
    else if (n->is_busy && n->slack_ms && s->config.consolidate_ms && i->type_index != SCL_NO_TYPE)
        snprintf(text, sizeof text,
                 "kept: it is in use, but little, for %" PRIu64 " s of %" PRIu64
                 " s; then it is given back if its work has room twice on others",
                 age_s(s, n->slack_ms), scl_spare_limit(s, i->type_index) / 1000);
    else if (n->is_busy)
        snprintf(text, sizeof text, "kept: it is in use");
    else if (i->type_index != SCL_NO_TYPE)
        explain_idle(s, n, i, text, sizeof text);
    else
        snprintf(text, sizeof text, "leaves soon: its type %s%s%s is not in the configuration any more", i->type,
                 i->zone[0] ? " in zone " : "", i->zone);
    fn(user, what, text);
}

void scl_explain_each(const struct scl *s, const char *const *kinds, scl_row_fn *fn, void *user)
{
    for (size_t d = 0; d < s->demands.count; d++)
        explain_demand(s, kinds, &s->demands.data[d], fn, user);
    MT_MAP_EACH(&s->nodes, entry)
        explain_node(s, entry->value.ptr, fn, user);
}

void scl_history_each(const struct scl *s, scl_row_fn *fn, void *user)
{
    uint64_t kept = s->decisions < MT_SCL_HISTORY ? s->decisions : MT_SCL_HISTORY;
    char     when[32];
    for (uint64_t back = 1; back <= kept; back++) {
        const struct decision *d = &s->history[(s->decisions - back) % MT_SCL_HISTORY];
        snprintf(when, sizeof when, "%" PRIu64 " s ago", age_s(s, d->at_ms));
        fn(user, when, d->text);
    }
}
