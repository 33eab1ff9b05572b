/* SPDX-License-Identifier: Apache-2.0
 *
 * known.c - copies that other nodes have of what processes of this node own: told by who has fetched one, asked for when the value
 * is lost.
 *
 * Owns: struct sh_known. Thread: the loop only.
 * Always: a value has an entry only while its owner lives here; KNOWN_MAX of them, the oldest go. Who asks (CTL_SEEK) is answered
 * once: by the word that another node has the value now (take.c there, CTL_MOVED), or by CTL_SEEK. A copy that has gone is found
 * out when its node is asked.
 *
 *   reader's node (R)            owner's node                       owner
 *   fetched a copy: COPY ------> noted
 *                                the value's node is lost, or <---- CTL_SEEK {place}
 *   has it still? <------------- SEEK {place}
 *   keeps it: MOVED {to} ----------------------------------------> its ref's place is `to`
 *   SOUGHT {code} -------------> no: the next node; none is left -> CTL_SEEK
 */
#include "raylet/store/known.h"

#include "core/base/machine.h"
#include "core/base/plant.h"

#include <stdlib.h>

enum {
    KNOWN_MAX = 65536,
    NODES_OF_ONE = 4, /* that have copies of one value; the newest are remembered */
    SEEKS_MAX = 64,   /* under way at a time */
    SEEK_MS = 3000,   /* a node that says nothing for so long has no copy */
    SEEK_LOOK_MS = 500,
};

/* THERE --its node is lost, its owner asks--> LOST --its turn--> SOUGHT --a node has it, its owner knows--> THERE
 *                                              ^ '--no node left--> (none)  |
 *                                              '--has none, is silent, gone-'
 *   LOST --the owner knows another place by itself--> THERE */
enum known_state { KNOWN_THERE = 0, KNOWN_LOST = 1, KNOWN_SOUGHT = 2 };
static const char *const       state_names[] = {[KNOWN_THERE] = "THERE", [KNOWN_LOST] = "LOST", [KNOWN_SOUGHT] = "SOUGHT"};
static const uint32_t          state_next[] = {[KNOWN_THERE] = MT_STATE(KNOWN_LOST),
                                               [KNOWN_LOST] = MT_STATE(KNOWN_SOUGHT) | MT_STATE(KNOWN_THERE),
                                               [KNOWN_SOUGHT] = MT_STATE(KNOWN_THERE) | MT_STATE(KNOWN_LOST)};
static const struct mt_machine machine = MT_MACHINE("value with copies", state_names, state_next);

struct known {
    enum known_state state;
    struct rlt_list  link;                /* by state, in sh_known.lists; THERE: oldest first */
    struct lane_ref  place;               /* where its owner looks for it, as far as is known here */
    uint32_t         nodes[NODES_OF_ONE]; /* that may have copies, newest last */
    uint32_t         count;
    uint32_t         asked; /* SOUGHT: this node */
    uint64_t         asked_ms;
    bool             is_awaited; /* its owner is to hear if there is none */
};

struct sh_known {
    struct sh      *sh;
    mt_map          all; /* object id -> known */
    struct rlt_list lists[KNOWN_SOUGHT + 1];
    uint32_t        seeks;
    struct io_timer look; /* while some are SOUGHT */
};

static void known_set_state(struct sh_known *s, struct known *k, enum known_state to)
{
    MT_TRANSITION(&machine, k->state, to);
    s->seeks += (to == KNOWN_SOUGHT) - (k->state == KNOWN_SOUGHT);
    rlt_list_out(&k->link);
    rlt_list_append(&s->lists[to], &k->link);
    k->state = to;
}

static void known_forget(struct sh_known *s, struct known *k)
{
    s->seeks -= k->state == KNOWN_SOUGHT;
    rlt_list_out(&k->link);
    mt_map_remove(&s->all, k->place.id);
    free(k);
}

static struct known *known_of(const struct sh *sh, mt_id id)
{
    return sh->known ? mt_map_ptr(&sh->known->all, id) : NULL;
}

/* ---- asking ---- */

static void owner_tell(struct sh *sh, const struct lane_ref *place)
{
    const struct sh_conn *owner = sh_store_conn_of(sh, place->id.process);
    struct ctl_moved      none = {.from = *place, .code = MT_ENOENT};
    if (owner && !MT_PLANT(MT_PLANT_SEEK_UNANSWERED))
        sh_send_down(sh, owner->conn, CTL_SEEK, place->id, &none, sizeof none);
}

/* No node is left. */
static void none_left(struct sh_known *s, struct known *k)
{
    struct lane_ref place = k->place;
    bool            is_awaited = k->is_awaited;
    known_forget(s, k);
    if (is_awaited)
        owner_tell(s->sh, &place);
}

static void ask_next(struct sh_known *s, struct known *k)
{
    struct rlt_event e;
    while (k->count && k->nodes[k->count - 1] == k->place.node)
        k->count--;
    if (!k->count) {
        none_left(s, k);
        return;
    }
    k->asked = k->nodes[--k->count];
    k->asked_ms = io_now_ms();
    known_set_state(s, k, KNOWN_SOUGHT);
    sh_event(&e, RLT_EV_MOVED);
    e.moved.node = k->asked;
    e.moved.kind = PEER_SEEK;
    e.moved.word.from = k->place;
    sh_post(s->sh, &e);
}

static void pump(struct sh_known *s)
{
    while (s->seeks < SEEKS_MAX && !rlt_list_is_empty(&s->lists[KNOWN_LOST]))
        ask_next(s, rlt_list_first(&s->lists[KNOWN_LOST], struct known, link));
    if (s->seeks && !io_timer_is_started(&s->look))
        io_timer_start(s->sh->loop, &s->look, SEEK_LOOK_MS);
}

/* The node that was asked has not got it. */
static void go_on(struct sh_known *s, struct known *k)
{
    known_set_state(s, k, KNOWN_LOST);
    pump(s);
}

static void look(struct io_timer *timer)
{
    struct sh_known *s = mt_container_of(timer, struct sh_known, look);
    uint64_t         now = io_now_ms();
    RLT_LIST_EACH(&s->lists[KNOWN_SOUGHT], link) {
        struct known *k = mt_container_of(link, struct known, link);
        if (now - k->asked_ms >= SEEK_MS)
            known_set_state(s, k, KNOWN_LOST);
    }
    pump(s);
}

static bool is_same_place(const struct lane_ref *a, const struct lane_ref *b)
{
    return a->node == b->node && a->segment == b->segment && a->offset == b->offset && a->generation == b->generation &&
           a->attempt == b->attempt;
}

void sh_known_seek(struct sh *sh, const struct lane_ref *place)
{
    struct known *k = known_of(sh, place->id);
    if (!k || !is_same_place(&k->place, place)) {
        owner_tell(sh, place);
        return;
    }
    k->is_awaited = true;
    if (k->state != KNOWN_THERE)
        return;
    known_set_state(sh->known, k, KNOWN_LOST);
    pump(sh->known);
}

/* ---- what is heard ---- */

void sh_known_heard(struct sh *sh, const struct rlt_moved *m)
{
    struct known *k = known_of(sh, m->word.from.id);
    if (!k)
        return;
    if (m->kind == PEER_MOVED) { /* the owner has said so */
        k->place = m->word.to;
        k->is_awaited = false;
        if (k->state != KNOWN_THERE)
            known_set_state(sh->known, k, KNOWN_THERE);
        return;
    }
    if (k->state != KNOWN_SOUGHT || k->asked != m->node)
        return;
    if (m->word.code == MT_EAGAIN) /* its owner looks for it elsewhere by now */
        none_left(sh->known, k);
    else if (m->word.code)
        go_on(sh->known, k);
}

static struct known *known_new(struct sh *sh, const struct lane_ref *place)
{
    struct sh_known *s = sh->known;
    struct known    *k;
    if (s->all.count >= KNOWN_MAX && !rlt_list_is_empty(&s->lists[KNOWN_THERE]))
        known_forget(s, rlt_list_first(&s->lists[KNOWN_THERE], struct known, link));
    k = s->all.count < KNOWN_MAX ? calloc(1, sizeof *k) : NULL;
    if (!k || mt_map_put_ptr(&s->all, place->id, k).code) {
        free(k);
        return NULL;
    }
    k->place = *place;
    rlt_list_init(&k->link);
    rlt_list_append(&s->lists[KNOWN_THERE], &k->link);
    return k;
}

void sh_known_copy(struct sh *sh, uint32_t node, const struct lane_ref *place)
{
    struct known *k = known_of(sh, place->id);
    if (!sh->known || !sh_store_conn_of(sh, place->id.process))
        return;                                                               /* its owner has gone meanwhile */
    if (k && k->place.attempt != place->attempt && k->state == KNOWN_THERE) { /* made again since then, or before */
        if (k->place.attempt > place->attempt)
            return;
        known_forget(sh->known, k);
        k = NULL;
    }
    k = k ? k : known_new(sh, place);
    if (!k || k->place.attempt != place->attempt)
        return;
    for (uint32_t i = 0; i < k->count; i++)
        if (k->nodes[i] == node)
            return;
    if (k->count == NODES_OF_ONE)
        memmove(k->nodes, k->nodes + 1, --k->count * sizeof k->nodes[0]);
    k->nodes[k->count++] = node;
}

void sh_known_dead(struct sh *sh, const struct lane_ref *place)
{
    struct known *k = known_of(sh, place->id);
    if (k && is_same_place(&k->place, place))
        known_forget(sh->known, k);
}

void sh_known_owner_gone(struct sh *sh, uint64_t owner)
{
    if (!sh->known)
        return;
    MT_MAP_EACH(&sh->known->all, entry)
        if (entry->key.process == owner)
            known_forget(sh->known, entry->value.ptr);
}

void sh_known_node_lost(struct sh *sh, uint32_t node)
{
    if (!sh->known)
        return;
    MT_MAP_EACH(&sh->known->all, entry) {
        struct known *k = entry->value.ptr;
        if ((k->state == KNOWN_THERE && k->place.node == node) || (k->state == KNOWN_SOUGHT && k->asked == node))
            known_set_state(sh->known, k, KNOWN_LOST);
    }
    pump(sh->known);
}

/* ---- telling ---- */

/* Before whoever wanted the value has it: what he says then is heard by an owner whose node knows of the copy. */
void sh_known_fetched(struct sh *sh, const struct lane_ref *ref)
{
    struct rlt_event e;
    if (ref->node == ref->owner_node || MT_PLANT(MT_PLANT_COPY_UNTOLD))
        return; /* it is lost only with its owner */
    if (ref->owner_node == sh->node) {
        sh_known_copy(sh, sh->node, ref);
        return;
    }
    sh_event(&e, RLT_EV_MOVED);
    e.moved.node = ref->owner_node;
    e.moved.kind = PEER_COPY;
    e.moved.word.from = *ref;
    sh_post(sh, &e);
}

/* ---- checking, start and end ---- */

bool sh_known_has(const struct sh *sh, mt_id id)
{
    return known_of(sh, id) != NULL;
}

const char *sh_known_check(const struct sh *sh)
{
    const struct sh_known *s = sh->known;
    uint32_t               seeks = 0, listed = 0;
    if (!s)
        return NULL;
    for (int i = 0; i <= KNOWN_SOUGHT; i++)
        for (const struct rlt_list *link = s->lists[i].next; link != &s->lists[i]; link = link->next) {
            const struct known *k = mt_container_of(link, struct known, link);
            listed++;
            seeks += k->state == KNOWN_SOUGHT;
            if ((int)k->state != i)
                return "a value with copies stands in the list of its state";
            if (k->is_awaited && k->state == KNOWN_THERE)
                return "an owner waits for a copy only while it is sought";
            if (!sh_store_conn_of(sh, k->place.id.process))
                return "a value with copies has an owner here";
        }
    if (listed != s->all.count)
        return "a value with copies stands in one list";
    if (seeks != s->seeks)
        return "what is sought is counted once";
    return s->seeks < SEEKS_MAX && !rlt_list_is_empty(&s->lists[KNOWN_LOST])
               ? "a lost value with copies is sought when there is room"
               : NULL;
}

mt_status sh_known_start(struct sh *sh)
{
    struct sh_known *s = sh->known = calloc(1, sizeof *s);
    if (!s)
        return mt_error(MT_ENOMEM, 0, "copies on other nodes");
    s->sh = sh;
    s->look.fire = look;
    for (int i = 0; i <= KNOWN_SOUGHT; i++)
        rlt_list_init(&s->lists[i]);
    return mt_ok();
}

void sh_known_stop(struct sh *sh)
{
    struct sh_known *s = sh->known;
    if (!s)
        return;
    io_timer_stop(&s->look);
    MT_MAP_EACH(&s->all, entry)
        free(entry->value.ptr);
    mt_map_fini(&s->all);
    free(s);
    sh->known = NULL;
}
