/* SPDX-License-Identifier: Apache-2.0
 *
 * listing.c - what the provider says that it has, held against what we know.
 *
 * Always:  only good listings count, and of an instance only those that began after the provider was last asked about it.
 */
#include "scheduler/scaler/private.h"

#include "core/base/plant.h"

#include <inttypes.h>
#include <stdio.h>

/* A node that has joined with that tag: not to be ended behind its back. */
static bool has_joined(const struct scl *s, const struct scl_listed *item)
{
    MT_MAP_EACH(&s->nodes, entry) {
        const struct scl_known *n = entry->value.ptr;
        if (n->instance == item->instance && (!n->handle[0] || strcmp(n->handle, item->handle) == 0))
            return true;
    }
    return false;
}

/* Nobody knows it, or it is a second one of what somebody knows. */
static void stranger(struct scl *s, const struct scl_listed *item, uint64_t sequence)
{
    struct stranger *at = NULL;
    for (size_t i = 0; i < s->strangers.count && !at; i++)
        if (s->strangers.data[i].number == item->instance && strcmp(s->strangers.data[i].handle, item->handle) == 0)
            at = &s->strangers.data[i];
    if (!at) {
        struct stranger fresh = {.number = item->instance};
        snprintf(fresh.handle, sizeof fresh.handle, "%s", item->handle);
        mt_status st = mt_vec_push(&s->strangers, fresh);
        if (st.code)
            return; /* seen again in the next one */
        at = &s->strangers.data[s->strangers.count - 1];
    }
    at->seen++;
    at->sequence = sequence;
    scl_list_soon(s);
    if (at->seen < MT_SCL_STRANGER_LISTINGS || has_joined(s, item) || MT_PLANT(MT_PLANT_SCALE_ZOMBIE))
        return;
    struct scl_instance who = {.number = item->instance};
    snprintf(who.handle, sizeof who.handle, "%s", item->handle);
    snprintf(who.why, sizeof who.why, "nobody knows it");
    scl_note(s, "end instance %" PRIu64 " %s: it runs at the provider, and nobody knows it", who.number, who.handle);
    scl_act(s, SCL_ACT_TERMINATE, &who);
}

static void take_item(struct scl *s, const struct scl_listed *item, uint64_t sequence)
{
    struct scl_instance *i = scl_find(s, item->instance);
    if (item->instance >= s->next_number)
        s->next_number = item->instance + 1; /* of a store that is older than it */
    if (!i) {
        stranger(s, item, sequence);
        return;
    }
    if (!i->handle[0])
        snprintf(i->handle, sizeof i->handle, "%s", item->handle);
    if (!item->handle[0] || strcmp(i->handle, item->handle) == 0) {
        i->is_listed = true;
        i->is_waiting = item->is_waiting;
    } else {
        stranger(s, item, sequence);
    }
}

static void is_there(struct scl *s, struct scl_instance *i)
{
    i->missing = 0;
    if (i->state == SCL_LAUNCHING) {
        scl_set_state(s, i, SCL_BOOTING, i->why);
    } else if (i->state == SCL_BOOTING && i->is_waiting) { /* the time that it has to boot begins with its job */
        i->since_ms = i->launched_ms = s->now_ms;
    } else if (i->state == SCL_FAILED) {
        scl_set_state(s, i, SCL_STOPPING, "it was started after all");
        scl_terminate(s, i);
    }
}

/* The provider still has it, and knows that nothing will come of it. Where its node lives the node counts. */
static void has_failed(struct scl *s, struct scl_instance *i, const char *why)
{
    bool is_coming = i->state == SCL_LAUNCHING || i->state == SCL_BOOTING;
    bool is_bereft = (i->state == SCL_JOINED || i->state == SCL_DRAINING) && !mt_map_ptr(&s->nodes, mt_map_key(i->node));
    if ((!is_coming && !is_bereft) || MT_PLANT(MT_PLANT_SCALE_FAILED))
        return;
    if (is_coming)
        scl_type_failed(s, i->type_index, why);
    scl_note(s, "end instance %" PRIu64 " (%s): %.150s", i->number, i->type, why);
    scl_set_state(s, i, SCL_STOPPING, why);
    scl_terminate(s, i);
}

static void take_failed(struct scl *s, const struct scl_listed *item, uint64_t sequence)
{
    struct scl_instance *i = item->failed[0] ? scl_find(s, item->instance) : NULL;
    if (i && i->is_listed && sequence >= i->list_floor && (!item->handle[0] || strcmp(i->handle, item->handle) == 0))
        has_failed(s, i, item->failed);
}

static void is_missing(struct scl *s, struct scl_instance *i)
{
    bool has_node = i->node && mt_map_ptr(&s->nodes, mt_map_key(i->node));
    i->missing++;
    if (i->is_unknown)
        scl_list_soon(s);
    if (i->state == SCL_LAUNCHING && i->is_unknown && i->missing >= MT_SCL_STRANGER_LISTINGS) {
        scl_type_failed(s, i->type_index, "the provider did not answer");
        scl_set_state(s, i, SCL_FAILED, "the provider did not answer, and does not list it");
    } else if (i->state == SCL_BOOTING && i->missing >= MT_SCL_MISSING_LISTINGS) {
        scl_type_failed(s, i->type_index, "it ended before it joined");
        scl_set_state(s, i, SCL_FAILED, "it ended before it joined");
    } else if ((i->state == SCL_JOINED || i->state == SCL_DRAINING) && !has_node && i->missing >= MT_SCL_MISSING_LISTINGS) {
        scl_set_state(s, i, SCL_GONE, "it is in no listing");
    } else if (i->state == SCL_STOPPING || i->state == SCL_FAILED) {
        scl_set_state(s, i, SCL_GONE, i->why);
    }
}

void scl_listed(struct scl *s, const struct scl_event *event)
{
    uint64_t sequence = event->listed.sequence;
    if (sequence != s->list_sequence)
        return; /* of an earlier one that was given up */
    s->is_listing = false;
    s->list_ms = s->now_ms + (event->listed.is_good ? MT_SCL_LIST_MS : MT_SCL_AGAIN_MS);
    if (!event->listed.is_good) {
        s->list_failed_ms = s->list_why[0] ? s->list_failed_ms : s->now_ms;
        snprintf(s->list_why, sizeof s->list_why, "%s", event->listed.text ? event->listed.text : "it does not say why");
        return;
    }
    s->list_why[0] = '\0';
    MT_MAP_EACH(&s->instances, entry)
        ((struct scl_instance *)entry->value.ptr)->is_listed = false;
    for (size_t k = 0; k < event->listed.count; k++)
        take_item(s, &event->listed.items[k], sequence);
    for (size_t k = 0; k < event->listed.count; k++)
        take_failed(s, &event->listed.items[k], sequence);
    for (size_t k = s->strangers.count; k-- > 0;)
        if (s->strangers.data[k].sequence != sequence)
            mt_vec_remove_swap(&s->strangers, k);
    MT_VEC(struct scl_instance *) all = {0}; /* some go, which changes the map */
    MT_MAP_EACH(&s->instances, entry)
        SCL_TRY(s, mt_vec_push(&all, (struct scl_instance *)entry->value.ptr));
    for (size_t k = 0; k < all.count; k++) {
        if (sequence < all.data[k]->list_floor)
            continue;
        if (all.data[k]->is_listed)
            is_there(s, all.data[k]);
        else
            is_missing(s, all.data[k]);
    }
    mt_vec_fini(&all);
}
