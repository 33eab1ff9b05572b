/* SPDX-License-Identifier: Apache-2.0
 *
 * decide.c - what follows from time and from a packing: what is started, given up, and given back.
 *
 * No flapping: what was decided on counts as room until it is there or has failed, so no demand starts a second node; and the limit
 * after which an idle node is given back is at least twice as long as a node of its type takes to come.
 */
#include "scheduler/scaler/private.h"
#include "scheduler/scaler/why.h"

#include "core/base/plant.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- limits of single instances ---- */

static uint64_t boot_limit(const struct scl *s, const struct scl_instance *i)
{
    return i->type_index == SCL_NO_TYPE ? MT_SCL_BOOT_MS : s->types[i->type_index].boot_ms;
}

static void stop(struct scl *s, struct scl_instance *i, const char *why)
{
    scl_note(s, "end instance %" PRIu64 " (%s): %s", i->number, i->type, why);
    scl_set_state(s, i, SCL_STOPPING, why);
    scl_terminate(s, i);
}

static void never_joined(struct scl *s, struct scl_instance *i)
{
    char why[96];
    snprintf(why, sizeof why, "did not join in %" PRIu64 " s", boot_limit(s, i) / 1000);
    scl_type_failed(s, i->type_index, why);
    stop(s, i, why);
}

static void look_at(struct scl *s, struct scl_instance *i)
{
    bool     has_node = i->node && mt_map_ptr(&s->nodes, mt_map_key(i->node));
    uint64_t limit = boot_limit(s, i), age = s->now_ms - i->since_ms;
    switch (i->state) {
    case SCL_BOOTING:
        if (age >= limit)
            never_joined(s, i);
        else
            scl_due(s, i->since_ms + limit);
        break;
    case SCL_JOINED:
    case SCL_DRAINING:
        if (has_node)
            break;
        if (age >= limit)
            stop(s, i, "its node has not come back");
        else
            scl_due(s, i->since_ms + limit);
        break;
    case SCL_STOPPING:
        if (s->now_ms - i->asked_ms >= MT_SCL_AGAIN_MS)
            scl_terminate(s, i);
        scl_due(s, i->asked_ms + MT_SCL_AGAIN_MS);
        break;
    case SCL_FAILED: scl_list_soon(s); break;
    case SCL_LAUNCHING:
        if (i->is_unknown)
            scl_list_soon(s);
        break;
    default: break;
    }
}

static void count_coming(struct scl *s)
{
    for (uint32_t t = 0; t < s->config.count; t++)
        s->state[t].coming = 0;
    MT_MAP_EACH(&s->instances, entry) {
        const struct scl_instance *i = entry->value.ptr;
        if (scl_is_coming(s, i) && !(MT_PLANT(MT_PLANT_SCALE_TWICE) && i->state == SCL_BOOTING))
            s->state[i->type_index].coming++;
    }
}

/* Only where an instance has changed, or a limit is reached. */
static void look_at_all(struct scl *s)
{
    if (!s->is_changed && s->now_ms < s->due_ms)
        return;
    s->is_changed = false;
    s->due_ms = UINT64_MAX;
    MT_MAP_EACH(&s->instances, entry)
        look_at(s, entry->value.ptr);
    count_coming(s);
    for (uint32_t t = 0; t < s->config.count; t++)
        if (s->state[t].avoid_ms > s->now_ms)
            scl_due(s, s->state[t].avoid_ms);
    for (uint32_t t = 0; t < s->config.count; t++)
        if (s->state[t].back_ms > s->now_ms) {
            scl_due(s, s->state[t].back_ms);
        } else if (s->state[t].back_ms) {
            s->state[t].back_ms = 0;
            s->is_dirty = true;
        }
}

/* ---- more ---- */

static uint32_t launching(const struct scl *s)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < s->config.count; t++)
        n += s->state[t].launching;
    return n;
}

/* Those that were decided on before. */
static void launch_wanted(struct scl *s)
{
    uint32_t busy = launching(s);
    if (busy == MT_SCL_LAUNCHING_MAX || s->wanted == 0)
        return;
    MT_MAP_EACH(&s->instances, entry) {
        struct scl_instance *i = entry->value.ptr;
        if (i->state == SCL_WANTED && i->type_index != SCL_NO_TYPE && busy < MT_SCL_LAUNCHING_MAX &&
            s->now_ms >= s->state[i->type_index].back_ms) {
            scl_launch(s, i);
            busy++;
        }
    }
}

static void start(struct scl *s, const struct plan *plan)
{
    launch_wanted(s);
    uint32_t busy = launching(s);
    for (uint32_t t = 0; t < s->config.count; t++) {
        if (plan->start[t])
            scl_note(s, "start %u of type %s: %s", plan->start[t], s->state[t].text, plan->cause[t]);
        for (uint32_t n = 0; n < plan->start[t]; n++) {
            struct scl_instance *i = scl_instance_new(s, t, plan->cause[t]);
            if (!i)
                return;
            if (busy++ < MT_SCL_LAUNCHING_MAX)
                scl_launch(s, i);
            else
                scl_store(s, i);
        }
    }
}

/* Those that the provider has not been asked for yet, and nobody needs any more. Whether there were any: there is more room
 * then. */
static bool give_up(struct scl *s, const struct plan *plan)
{
    bool has = false;
    if (s->wanted == 0)
        return false;
    MT_MAP_EACH(&s->instances, entry) {
        struct scl_instance *i = entry->value.ptr;
        struct type_state   *type = i->type_index == SCL_NO_TYPE ? NULL : &s->state[i->type_index];
        if (i->state != SCL_WANTED)
            continue;
        bool is_needed = type && !s->config.is_down && (type->coming <= plan->coming_needed[i->type_index] || scl_is_least(s, i));
        if (is_needed)
            continue;
        if (type)
            type->coming--;
        scl_set_state(s, i, SCL_GONE, "nobody needs it any more");
        has = true;
    }
    return has;
}

/* ---- less ---- */

static uint64_t idle_limit(const struct scl *s, const struct scl_instance *i)
{
    if (i->type_index == SCL_NO_TYPE)
        return 0;
    uint64_t said = s->types[i->type_index].idle_ms, least = scl_idle_least(s, i->type_index);
    return said > least || MT_PLANT(MT_PLANT_SCALE_FLAPS) ? said : least;
}

static void drain(struct scl *s, struct scl_instance *i, const char *why)
{
    scl_note(s, "drain node %u (instance %" PRIu64 ", %s): %s", i->node, i->number, i->type, why);
    scl_set_state(s, i, SCL_DRAINING, why);
    struct scl_known *n = mt_map_ptr(&s->nodes, mt_map_key(i->node));
    if (n) {
        n->place.state = POLICY_DRAINING;
        scl_node_unsort(s, n);
    }
    scl_drain_order(s, i);
}

/* Takes one of the places that the plan uses of nodes like `n`. */
static bool use_up(const struct scl_known *n)
{
    struct scl_bucket *b = n->bucket;
    uint32_t           needed = b->requested > b->waited_for ? b->requested : b->waited_for;
    if (needed == 0 || MT_PLANT(MT_PLANT_SCALE_FLAPS))
        return false;
    b->requested -= b->requested > 0;
    b->waited_for -= b->waited_for > 0;
    return true;
}

static void maybe_drain(struct scl *s, struct scl_known *n, struct scl_instance *i)
{
    uint64_t limit = idle_limit(s, i), idle = s->now_ms - n->idle_ms;
    char     why[64];
    n->kept = (use_up(n) ? KEPT_NEEDED : 0) | (scl_is_least(s, i) ? KEPT_MIN : 0) | (idle < limit ? KEPT_YOUNG : 0) |
              (scl_is_floor(s, i) ? KEPT_FLOOR : 0);
    if (n->kept & KEPT_YOUNG)
        scl_due(s, n->idle_ms + limit);
    if (n->kept)
        return;
    snprintf(why, sizeof why, "idle for %" PRIu64 " s", idle / 1000);
    drain(s, i, why);
}

static void shrink(struct scl *s)
{
    for (int ours = 0; ours < 2; ours++) /* what can't be given back is used first */
        MT_MAP_EACH(&s->idle, entry) {
            struct scl_known    *n = entry->value.ptr;
            struct scl_instance *i = scl_find(s, n->instance);
            bool                 is_ours = i && i->state == SCL_JOINED && i->node == n->place.id;
            if (is_ours != (ours == 1))
                continue;
            if (is_ours)
                maybe_drain(s, n, i);
            else
                (void)use_up(n);
        }
}

/* What runs there ends in peace, and comes elsewhere from now on. */
static void drain_spare(struct scl *s, uint32_t node)
{
    struct scl_known    *n = node ? mt_map_ptr(&s->nodes, mt_map_key(node)) : NULL;
    struct scl_instance *i = n ? scl_find(s, n->instance) : NULL;
    char                 why[96];
    if (!i || i->state != SCL_JOINED)
        return;
    snprintf(why, sizeof why, "little used for %" PRIu64 " s, and its work fits on others", (s->now_ms - n->slack_ms) / 1000);
    drain(s, i, why);
    i->is_moved = true;
}

/* Its job goes on elsewhere: on a spot node that is there, or later. */
static void drain_paced(struct scl *s, uint32_t node)
{
    struct scl_known    *n = mt_map_ptr(&s->nodes, mt_map_key(node));
    struct scl_instance *i = n ? scl_find(s, n->instance) : NULL;
    if (!i || i->state != SCL_JOINED)
        return;
    i->drain_ms = MT_SCL_PACE_STOP_MS;
    drain(s, i, "its job has time to spare, and goes on on a spot node");
}

static void go_down(struct scl *s)
{
    MT_MAP_EACH(&s->instances, entry) {
        struct scl_instance *i = entry->value.ptr;
        if (i->state == SCL_LAUNCHING || i->state == SCL_BOOTING)
            stop(s, i, "the cluster goes down");
        else if (i->state == SCL_JOINED)
            drain(s, i, "the cluster goes down");
    }
}

/* ---- all of it ---- */

static void list(struct scl *s)
{
    if (s->is_listing || s->now_ms < s->list_ms || (!s->config.count && !s->instances.count))
        return;
    struct scl_action action = {.kind = SCL_ACT_LIST, .sequence = ++s->list_sequence};
    s->is_listing = true;
    SCL_TRY(s, mt_vec_push(&s->out->list, action));
}

void scl_decide(struct scl *s)
{
    s->is_dirty = s->is_dirty || s->now_ms >= s->due_ms; /* a node may have been idle for long enough */
    if (s->is_dirty)
        look_at_all(s);
    if (s->is_dirty && s->broken.code == 0) {
        struct plan plan = {0};
        scl_pack(s, &plan);
        scl_note_left(s, &plan);
        start(s, &plan);
        shrink(s);
        drain_spare(s, plan.spare);
        for (uint32_t k = 0; k < plan.leave_count; k++)
            drain_paced(s, plan.leaves[k]);
        if (s->config.is_down)
            go_down(s);
        s->is_dirty = give_up(s, &plan); /* all else that has just changed is in the plan */
    }
    list(s);
}
