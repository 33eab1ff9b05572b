/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.c - see ahead.h.
 *
 * The request that asks the raylet for a value bears the value's own id, so that its answer, a copy or a refusal, finds it.
 *
 * Owns:   lib.ahead.
 */
#include "clients/lib/shell/ahead/ahead.h"

#include "core/base/machine.h"

#include <stdlib.h>

enum {
    AHEAD_MAX = 65536, /* in all; beyond, nothing is asked for ahead */
    ASKED_MAX = 512,   /* at the raylet at a time: it has others to serve */
};

enum ahead_state { AHEAD_QUEUED, AHEAD_ASKED, AHEAD_HERE, AHEAD_STATES };
static const char *const state_names[] = {[AHEAD_QUEUED] = "QUEUED", [AHEAD_ASKED] = "ASKED", [AHEAD_HERE] = "HERE"};
static const uint32_t    state_next[] = {
       [AHEAD_QUEUED] = MT_STATE(AHEAD_ASKED), [AHEAD_ASKED] = MT_STATE(AHEAD_HERE), [AHEAD_HERE] = 0};
static const struct mt_machine machine = MT_MACHINE("value asked for ahead", state_names, state_next);
static_assert((int)AHEAD_STATES == (int)LIB_AHEAD_LISTS, "a list for each");

struct ahead {
    enum ahead_state state;
    struct ahead    *next, **link; /* of its state's list; link: what points here */
    struct lane_ref  ref;          /* HERE: its copy */
};

static void list_leave(struct ahead *a)
{
    struct lib_ahead_list *list = &lib.ahead.lists[a->state];
    *a->link = a->next;
    if (a->next)
        a->next->link = a->link;
    else
        list->last = a->link;
    list->count--;
}

static void list_join(struct ahead *a)
{
    struct lib_ahead_list *list = &lib.ahead.lists[a->state];
    if (!list->count)
        list->last = &list->first;
    a->next = NULL;
    a->link = list->last;
    *list->last = a;
    list->last = &a->next;
    list->count++;
}

static void set_state(struct ahead *a, enum ahead_state to)
{
    MT_TRANSITION(&machine, a->state, to);
    list_leave(a);
    a->state = to;
    list_join(a);
}

static void forget(struct ahead *a)
{
    list_leave(a);
    mt_map_remove(&lib.ahead.all, a->ref.id);
    free(a);
}

static void ask_next(void)
{
    struct lib_ahead_list *queued = &lib.ahead.lists[AHEAD_QUEUED];
    while (queued->count && lib.ahead.lists[AHEAD_ASKED].count < ASKED_MAX) {
        struct ahead *a = queued->first;
        own_send(&lib.own, CTL_PULL, a->ref.id, &a->ref, sizeof a->ref);
        set_state(a, AHEAD_ASKED);
    }
}

void lib_ahead_ask(const struct lane_ref *ref)
{
    struct lib_ahead_list *here = &lib.ahead.lists[AHEAD_HERE];
    struct ahead          *a;
    if (ref->node == lib.own.node || lib.inlined || mt_id_is_zero(ref->id) || mt_map_find(&lib.ahead.all, ref->id))
        return;
    if (lib.ahead.all.count >= AHEAD_MAX && here->count)
        forget(here->first); /* nobody has read it for long; its copy stays for as long as copies do */
    if (lib.ahead.all.count >= AHEAD_MAX || !(a = calloc(1, sizeof *a)))
        return;
    a->ref = *ref;
    a->state = AHEAD_QUEUED;
    if (mt_map_put_ptr(&lib.ahead.all, ref->id, a).code) {
        free(a);
        return;
    }
    list_join(a);
    ask_next();
}

static bool is_wanted(const struct own_ref *ref)
{
    const struct own_waiter *w = ref->waiters;
    while (w && w->kind != OWN_WAITS_FETCH)
        w = w->next;
    return w != NULL;
}

bool lib_ahead_want(struct own_ref *ref)
{
    if (ref->state == OWN_REF_PLACE)
        lib_ahead_ask(own_ref_place(&lib.own, ref));
    if (own_ref_is_ready(ref) || is_wanted(ref))
        return true;
    struct own_waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return false;
    waiter->kind = OWN_WAITS_FETCH;
    own_ref_add_waiter(&lib.own, ref, waiter);
    return true;
}

void lib_ahead_take_up(struct own_out *out)
{
    for (size_t i = 0; i < out->places.count; i++)
        lib_ahead_ask(&out->places.data[i]);
    out->places.count = 0;
}

bool lib_ahead_came(const struct lane_record *record, const uint8_t *payload)
{
    struct ahead *a;
    if ((record->kind != CTL_HERE && record->kind != CTL_REPLY) || !(a = mt_map_ptr(&lib.ahead.all, record->id)) ||
        a->state != AHEAD_ASKED)
        return false;
    if (record->kind == CTL_HERE && record->length >= LANE_RECORD_SIZE + sizeof a->ref) {
        struct lane_ref asked = a->ref;
        memcpy(&a->ref, payload, sizeof a->ref);
        a->ref.id = asked.id;
        set_state(a, AHEAD_HERE);
    } else {
        forget(a); /* who reads it asks again, and is told why */
    }
    ask_next();
    return true;
}

bool lib_ahead_is_coming(mt_id id)
{
    const struct ahead *a = lib.ahead.all.count ? mt_map_ptr(&lib.ahead.all, id) : NULL;
    return a && a->state != AHEAD_HERE;
}

bool lib_ahead_take(const struct lane_ref *ref, struct lane_ref *out_here)
{
    struct ahead *a = lib.ahead.all.count ? mt_map_ptr(&lib.ahead.all, ref->id) : NULL;
    if (!a || a->state == AHEAD_ASKED)
        return false;
    bool is_here = a->state == AHEAD_HERE && a->ref.attempt >= ref->attempt;
    *out_here = a->ref;
    forget(a);
    return is_here;
}

void lib_ahead_end(void)
{
    MT_MAP_EACH(&lib.ahead.all, entry)
        free(entry->value.ptr);
    mt_map_fini(&lib.ahead.all);
    memset(&lib.ahead, 0, sizeof lib.ahead);
}
