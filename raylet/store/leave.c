/* SPDX-License-Identifier: Apache-2.0
 *
 * leave.c - this node leaves: values that only it has are offered to other nodes, which adopt them.
 *
 * Owns: struct sh_leave. Thread: the loop only.
 * Always: a value dies here only after its owner knows another place, or as any value does. What no node takes is counted as
 * stuck and not waited for. A look is over when each value that was here at its beginning is gone, or stuck, or is to be looked
 * at again.
 *
 * Only values of owners on other nodes count: the owners here go with the node, and what they own goes with them. A value is
 * offered to its owner's node first, for there it needs no lineage any more; then to the others in turn.
 */
#include "raylet/store/adopt.h"
#include "raylet/store/serve.h"

#include "core/base/log.h"
#include "core/base/machine.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    OFFERS_MAX = 16,               /* under way at a time ... */
    OFFERED_BYTES_MAX = 128 << 20, /* ... unless it is one alone */
    SEEN_AT_A_TIME = 64,
    NODES_MAX = 16, /* that are asked to take one value */
    AGAIN_MAX = 20, /* looks that find an owner not knowing the value; then it is what a dead worker left */
    TELL_MS = 100,
    STUCK_AGAIN_MS = 1000, /* a look so much later asks all nodes again: they may have room by then */
};

/* FOUND --offered--> OFFERED --adopted, or dead--> (none)
 *   ^ '--no other node--> STUCK --a look STUCK_AGAIN_MS later--> FOUND
 *   |                             | |  '--its owner does not know it (yet)--> AGAIN --next look--> FOUND
 *   '--refused, or that node died-' '--its owner is gone--> NOBODYS                '--too often--> NOBODYS */
#define BIT(state) MT_STATE(LEAVE_##state)
enum leave_state { LEAVE_FOUND = 0, LEAVE_OFFERED = 1, LEAVE_AGAIN = 2, LEAVE_STUCK = 3, LEAVE_NOBODYS = 4 };
static const char *const       state_names[] = {[LEAVE_FOUND] = "FOUND",
                                                [LEAVE_OFFERED] = "OFFERED",
                                                [LEAVE_AGAIN] = "AGAIN",
                                                [LEAVE_STUCK] = "STUCK",
                                                [LEAVE_NOBODYS] = "NOBODYS"};
static const uint32_t          state_next[] = {[LEAVE_FOUND] = BIT(OFFERED) | BIT(STUCK),
                                               [LEAVE_OFFERED] = BIT(FOUND) | BIT(AGAIN) | BIT(NOBODYS),
                                               [LEAVE_AGAIN] = BIT(FOUND) | BIT(NOBODYS),
                                               [LEAVE_STUCK] = BIT(FOUND),
                                               [LEAVE_NOBODYS] = 0};
static const struct mt_machine machine = MT_MACHINE("value that leaves", state_names, state_next);

struct leave {
    struct rlt_list  link; /* FOUND: sh_leave.found */
    enum leave_state state;
    struct lane_ref  ref;
    uint32_t         node;  /* OFFERED: to it; else the last one that was asked */
    uint32_t         asked; /* nodes */
    uint32_t         again;
    uint64_t         stuck_ms; /* STUCK: since */
    uint64_t         look;     /* that has seen it last */
};

struct sh_leave {
    struct sh      *sh;
    mt_map          all; /* spilled_key of the place -> leave */
    struct rlt_list found;
    struct io_timer timer;   /* the next piece of the look; or how far it is */
    uint64_t        look;    /* number of the one under way, or of the last */
    bool            is_on;   /* it is under way ... */
    bool            is_seen; /* ... and has been everywhere */
    uint32_t        segment; /* ... up to here */
    uint64_t        offset;
    uint32_t        offers, next_node, count[LEAVE_NOBODYS + 1];
    uint64_t        offered_bytes, moved, moved_bytes;
    mt_map          full;    /* node -> bytes of the smallest value for which it had no room ... */
    uint64_t        full_ms; /* ... since then: forgotten by a look STUCK_AGAIN_MS later */
};

static void leave_set_state(struct sh_leave *s, struct leave *v, enum leave_state to)
{
    MT_TRANSITION(&machine, v->state, to);
    s->count[v->state]--;
    s->count[to]++;
    if (v->state == LEAVE_OFFERED) {
        s->offers--;
        s->offered_bytes -= v->ref.size;
    }
    rlt_list_out(&v->link);
    v->state = to;
    if (to == LEAVE_FOUND)
        rlt_list_append(&s->found, &v->link);
    if (to == LEAVE_OFFERED) {
        s->offers++;
        s->offered_bytes += v->ref.size;
    }
}

static void leave_forget(struct sh_leave *s, struct leave *v)
{
    if (v->state == LEAVE_OFFERED) {
        s->offers--;
        s->offered_bytes -= v->ref.size;
    }
    s->count[v->state]--;
    rlt_list_out(&v->link);
    mt_map_remove(&s->all, spilled_key(&v->ref));
    free(v);
}

/* ---- offering ---- */

static uint32_t node_choose(struct sh_leave *s, struct leave *v)
{
    const struct rlt *core = s->sh->core;
    uint32_t          node;
    if (!v->asked && rlt_may_adopt(core, v->ref.owner_node))
        return v->ref.owner_node;
    if (v->asked >= NODES_MAX)
        return 0;
    node = rlt_adopter_after(core, v->asked > 1 ? v->node : s->next_node);
    s->next_node = v->asked > 1 ? s->next_node : node;
    return node;
}

static bool is_full_for(const struct sh_leave *s, uint32_t node, const struct leave *v)
{
    const mt_map_entry *full = mt_map_find(&s->full, mt_map_key(node));
    return full && v->ref.size >= full->value.num;
}

/* Without memory it is asked once for each value. */
static void note_full(struct sh_leave *s, const struct leave *v)
{
    if (s->full.count == 0)
        s->full_ms = io_now_ms();
    if (!is_full_for(s, v->node, v))
        (void)mt_map_put_num(&s->full, mt_map_key(v->node), v->ref.size).code;
}

static void offer(struct sh_leave *s, struct leave *v)
{
    struct rlt_event e;
    uint32_t         node;
    do {
        node = node_choose(s, v);
        if (!node) {
            v->stuck_ms = io_now_ms();
            leave_set_state(s, v, LEAVE_STUCK);
            return;
        }
        v->node = node;
        v->asked++;
    } while (is_full_for(s, node, v));
    leave_set_state(s, v, LEAVE_OFFERED);
    sh_event(&e, RLT_EV_MOVED);
    e.moved.node = node;
    e.moved.kind = PEER_ADOPT;
    e.moved.word.from = v->ref;
    sh_post(s->sh, &e);
}

/* ---- looking ---- */

static void found(struct sh_leave *s, const struct lane_ref *ref)
{
    struct leave *v = mt_map_ptr(&s->all, spilled_key(ref));
    if (ref->owner_node == 0 || ref->owner_node == s->sh->node)
        return;
    if (!v) {
        v = calloc(1, sizeof *v);
        if (!v || mt_map_put_ptr(&s->all, spilled_key(ref), v).code) {
            free(v); /* the next look finds it again */
            return;
        }
        v->ref = *ref;
        rlt_list_init(&v->link);
        rlt_list_append(&s->found, &v->link);
        s->count[LEAVE_FOUND]++;
    } else if (v->state == LEAVE_AGAIN && v->look != s->look) {
        v->asked = 0;
        leave_set_state(s, v, ++v->again > AGAIN_MAX ? LEAVE_NOBODYS : LEAVE_FOUND);
    } else if (v->state == LEAVE_STUCK && io_now_ms() - v->stuck_ms >= STUCK_AGAIN_MS) {
        v->asked = 0;
        leave_set_state(s, v, LEAVE_FOUND);
    }
    v->look = s->look;
}

static void see_spilled(struct sh_leave *s)
{
    if (!s->sh->spill)
        return;
    MT_MAP_EACH(&s->sh->spill->all, entry) {
        const struct spilled *v = entry->value.ptr;
        struct lane_ref       ref = v->ref;
        ref.node = s->sh->node; /* the store does not know its number */
        if (!v->is_dead)
            found(s, &ref);
    }
}

static void see_piece(struct sh_leave *s)
{
    struct os_seen seen[SEEN_AT_A_TIME];
    uint32_t       count = os_store_look(sh_store_of(s->sh), &s->segment, &s->offset, seen, SEEN_AT_A_TIME);
    for (uint32_t i = 0; i < count; i++) {
        const struct os_seen *o = &seen[i];
        struct lane_ref       ref = {.id = o->id,
                                     .owner_node = o->owner_node,
                                     .node = s->sh->node,
                                     .segment = o->segment,
                                     .generation = o->generation,
                                     .offset = o->offset,
                                     .size = o->size,
                                     .job = o->job,
                                     .type = o->type};
        if (!o->is_copy && !mt_id_is_zero(o->id))
            found(s, &ref);
    }
    if (s->segment == 0) {
        see_spilled(s);
        s->is_seen = true;
    }
}

/* Those that this look has not met have died meanwhile. */
static void forget_unseen(struct sh_leave *s)
{
    MT_MAP_EACH(&s->all, entry) {
        struct leave *v = entry->value.ptr;
        if (v->look != s->look)
            leave_forget(s, v);
    }
}

static void tell(struct sh_leave *s, bool is_over)
{
    struct rlt_event e;
    sh_event(&e, RLT_EV_LEFT);
    e.left.is_over = is_over;
    e.left.left = s->count[LEAVE_AGAIN] + (is_over ? 0 : s->count[LEAVE_FOUND] + s->count[LEAVE_OFFERED]);
    e.left.stuck = s->count[LEAVE_STUCK];
    sh_post(s->sh, &e);
}

static void go_on(struct sh_leave *s)
{
    while (!rlt_list_is_empty(&s->found) && s->offers < OFFERS_MAX && (!s->offers || s->offered_bytes < OFFERED_BYTES_MAX))
        offer(s, rlt_list_first(&s->found, struct leave, link));
    if (!s->is_on)
        return;
    if (s->is_seen && rlt_list_is_empty(&s->found) && !s->offers) {
        s->is_on = false;
        io_timer_stop(&s->timer);
        forget_unseen(s);
        if (s->moved)
            mt_log(MT_LOG_INFO, "values_adopted", "values=%" PRIu64 " bytes=%" PRIu64, s->moved, s->moved_bytes);
        tell(s, true);
    } else if (!io_timer_is_started(&s->timer)) {
        bool is_waiting = s->is_seen || !rlt_list_is_empty(&s->found);
        io_timer_start(s->sh->loop, &s->timer, is_waiting ? TELL_MS : 0);
    }
}

static void ticked(struct io_timer *timer)
{
    struct sh_leave *s = mt_container_of(timer, struct sh_leave, timer);
    if (!s->is_seen && rlt_list_is_empty(&s->found))
        see_piece(s);
    else
        tell(s, false);
    go_on(s);
}

void sh_leave_begin(struct sh *sh)
{
    struct sh_leave *s = sh->leave;
    if (!s) {
        s = sh->leave = calloc(1, sizeof *s);
        if (!s)
            abort();
        s->sh = sh;
        s->timer.fire = ticked;
        rlt_list_init(&s->found);
    }
    if (s->is_on)
        return;
    s->is_on = true;
    s->is_seen = false;
    if (io_now_ms() - s->full_ms >= STUCK_AGAIN_MS)
        mt_map_fini(&s->full);
    s->look++;
    s->segment = 1;
    s->offset = 0;
    see_piece(s);
    go_on(s);
}

/* ---- what others say ---- */

static void moved(struct sh_leave *s, struct leave *v)
{
    struct sh      *sh = s->sh;
    struct lane_ref ref = v->ref;
    s->moved++;
    s->moved_bytes += ref.size;
    leave_forget(s, v);
    (void)os_store_dead(sh_store_of(sh), 0, &ref).code; /* it may be on disk alone */
    sh_spill_dead(sh, &ref);
    (void)sh_serving_was(sh, ref.id);
    sh_store_settle(sh);
}

void sh_leave_heard(struct sh *sh, const struct rlt_moved *m)
{
    struct sh_leave *s = sh->leave;
    struct leave    *v = s ? mt_map_ptr(&s->all, spilled_key(&m->word.from)) : NULL;
    if (!v || v->state != LEAVE_OFFERED || v->node != m->node)
        return;
    switch (m->word.code) {
    case MT_OK: moved(s, v); break;
    case MT_EAGAIN: leave_set_state(s, v, LEAVE_AGAIN); break;
    case MT_EOWNER_DIED: leave_set_state(s, v, LEAVE_NOBODYS); break;
    case MT_EOBJ_LOST: leave_forget(s, v); break; /* it died meanwhile */
    default:
        if (m->word.code == MT_ESTORE_FULL)
            note_full(s, v);
        leave_set_state(s, v, LEAVE_FOUND);
    }
    go_on(s);
}

void sh_leave_node_lost(struct sh *sh, uint32_t node)
{
    struct sh_leave *s = sh->leave;
    if (!s)
        return;
    MT_MAP_EACH(&s->all, entry) {
        struct leave *v = entry->value.ptr;
        if (v->state == LEAVE_OFFERED && v->node == node)
            leave_set_state(s, v, LEAVE_FOUND);
    }
    go_on(s);
}

void sh_leave_stop(struct sh *sh)
{
    struct sh_leave *s = sh->leave;
    if (!s)
        return;
    io_timer_stop(&s->timer);
    MT_MAP_EACH(&s->all, entry)
        free(entry->value.ptr);
    mt_map_fini(&s->all);
    mt_map_fini(&s->full);
    free(s);
    sh->leave = NULL;
}
