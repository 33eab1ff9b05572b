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
    ASKED_MAX = 512,   /* at the raylet at a time: it has others to serve. What is read is asked for beyond that */
};

enum ahead_state { AHEAD_QUEUED, AHEAD_ASKED, AHEAD_ANSWERED, AHEAD_STATES };
static const char *const state_names[] = {[AHEAD_QUEUED] = "QUEUED", [AHEAD_ASKED] = "ASKED", [AHEAD_ANSWERED] = "ANSWERED"};
static const uint32_t    state_next[] = {
       [AHEAD_QUEUED] = MT_STATE(AHEAD_ASKED), [AHEAD_ASKED] = MT_STATE(AHEAD_ANSWERED), [AHEAD_ANSWERED] = 0};
static const struct mt_machine machine = MT_MACHINE("value asked for", state_names, state_next);
static_assert((int)AHEAD_STATES == (int)LIB_AHEAD_LISTS, "a list for each");

struct ahead {
    enum ahead_state  state;
    struct ahead     *next, **link; /* of its state's list; link: what points here */
    struct lane_ref   ref, here;    /* ANSWERED, without `why`: its copy here */
    struct ctl_reply *why;          /* ANSWERED: it is refused; NULL: it is not */
    bool              is_read;      /* somebody wants it now, and is told why it does not come */
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
    free(a->why);
    free(a);
}

static void ask(struct ahead *a)
{
    own_send(&lib.own, CTL_PULL, a->ref.id, &a->ref, sizeof a->ref);
    set_state(a, AHEAD_ASKED);
}

static void ask_next(void)
{
    struct lib_ahead_list *queued = &lib.ahead.lists[AHEAD_QUEUED];
    while (queued->count && lib.ahead.lists[AHEAD_ASKED].count < ASKED_MAX)
        ask(queued->first);
}

/* NULL: no memory. */
static struct ahead *join(const struct lane_ref *ref)
{
    struct ahead *a = calloc(1, sizeof *a);
    if (!a || mt_map_put_ptr(&lib.ahead.all, ref->id, a).code) {
        free(a);
        return NULL;
    }
    a->ref = *ref;
    a->state = AHEAD_QUEUED;
    list_join(a);
    return a;
}

/* Nobody has read it for long; its copy stays for as long as copies do. */
static void make_room(void)
{
    struct lib_ahead_list *answered = &lib.ahead.lists[AHEAD_ANSWERED];
    if (lib.ahead.all.count >= AHEAD_MAX && answered->count)
        forget(answered->first);
}

void lib_ahead_ask(const struct lane_ref *ref)
{
    if (ref->node == lib.own.node || lib.inlined || mt_id_is_zero(ref->id) || mt_map_find(&lib.ahead.all, ref->id))
        return;
    make_room();
    if (lib.ahead.all.count < AHEAD_MAX && join(ref))
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

bool lib_ahead_read(const struct lane_ref *ref)
{
    struct ahead *a = mt_map_ptr(&lib.ahead.all, ref->id);
    if (!a) {
        make_room();
        a = join(ref);
    }
    if (!a)
        return false;
    a->is_read = true;
    if (a->state == AHEAD_QUEUED)
        ask(a);
    return true;
}

/* A reader is told why it does not come; who only wished for it asks again when it reads. */
static void refused(struct ahead *a, const struct lane_record *record, const uint8_t *payload)
{
    if (a->is_read && (a->why = calloc(1, sizeof *a->why))) {
        if (record->kind == CTL_REPLY && record->length >= LANE_RECORD_SIZE + sizeof *a->why)
            memcpy(a->why, payload, sizeof *a->why);
        if (a->why->code == MT_OK)
            a->why->code = MT_EPROTO;
        set_state(a, AHEAD_ANSWERED);
    } else {
        forget(a);
    }
}

bool lib_ahead_came(const struct lane_record *record, const uint8_t *payload)
{
    struct ahead *a;
    if ((record->kind != CTL_HERE && record->kind != CTL_REPLY) || !(a = mt_map_ptr(&lib.ahead.all, record->id)) ||
        a->state != AHEAD_ASKED)
        return false;
    if (record->kind == CTL_HERE && record->length >= LANE_RECORD_SIZE + sizeof a->here) {
        memcpy(&a->here, payload, sizeof a->here);
        a->here.id = a->ref.id;
        set_state(a, AHEAD_ANSWERED);
    } else {
        refused(a, record, payload);
    }
    ask_next();
    return true;
}

bool lib_ahead_is_coming(mt_id id)
{
    const struct ahead *a = lib.ahead.all.count ? mt_map_ptr(&lib.ahead.all, id) : NULL;
    return a && a->state != AHEAD_ANSWERED;
}

/* A copy is one wherever the value stood; a refusal is about one place. */
bool lib_ahead_take(const struct lane_ref *ref, struct lane_ref *out_here, struct ctl_reply *out_why)
{
    struct ahead *a = mt_map_ptr(&lib.ahead.all, ref->id);
    if (!a || a->state != AHEAD_ANSWERED)
        return false;
    bool is_of_it = a->why ? own_place_is(&a->ref, ref) : a->ref.attempt >= ref->attempt;
    *out_here = a->here;
    *out_why = a->why ? *a->why : (struct ctl_reply){.code = MT_OK};
    forget(a);
    return is_of_it;
}

void lib_ahead_end(void)
{
    MT_MAP_EACH(&lib.ahead.all, entry) {
        struct ahead *a = entry->value.ptr;
        free(a->why);
        free(a);
    }
    mt_map_fini(&lib.ahead.all);
    memset(&lib.ahead, 0, sizeof lib.ahead);
}
