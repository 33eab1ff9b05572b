/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.c - who sends a large value that several nodes want.
 *
 * Owns:    every struct tree. Thread: one at a time.
 * Always:  following `from` from any member ends at the source: a member is never attached to one that it feeds.
 */
#include "objectstore/server/tree.h"

#include "core/base/plant.h"
#include "core/ds/vec.h"

#include <stdlib.h>

enum { FROM_SOURCE = -1 };

struct member {
    uint32_t node;
    int32_t  from;      /* index of the member that it gets the value from; FROM_SOURCE */
    uint32_t outs;      /* members that get it from here */
    bool     is_served; /* by the source, now */
    bool     is_left;   /* somebody could not get it there */
};

struct tree {
    MT_VEC(struct member) members; /* in the order in which they came; none ever goes */
    uint32_t served;
    uint64_t asked_ms;
};

static void tree_free(struct os_trees *trees, mt_id id)
{
    struct tree *t = mt_map_ptr(&trees->all, id);
    mt_map_remove(&trees->all, id);
    mt_vec_fini(&t->members);
    free(t);
}

/* NULL: there are too many, or no memory. */
static struct tree *tree_get(struct os_trees *trees, mt_id id, uint64_t now_ms)
{
    struct tree *t = mt_map_ptr(&trees->all, id);
    if (t)
        return t;
    MT_MAP_EACH(&trees->all, entry) {
        const struct tree *old = entry->value.ptr;
        if (!old->served && now_ms - old->asked_ms >= OS_TREE_STALE_MS)
            tree_free(trees, entry->key);
    }
    t = trees->all.count < OS_TREES_MAX ? calloc(1, sizeof *t) : NULL;
    if (!t || mt_map_put_ptr(&trees->all, id, t).code) {
        free(t);
        return NULL;
    }
    return t;
}

static int32_t member_find(const struct tree *t, uint32_t node)
{
    for (size_t i = 0; i < t->members.count; i++)
        if (t->members.data[i].node == node)
            return (int32_t)i;
    return -1;
}

static void served_end(struct tree *t, struct member *m)
{
    t->served -= m->is_served;
    m->is_served = false;
}

/* It does not get the value from where it did: what it was sent to is of no use. */
static void leave(struct tree *t, struct member *m)
{
    served_end(t, m);
    if (m->from == FROM_SOURCE)
        return;
    struct member *from = &t->members.data[m->from];
    from->outs--;
    from->is_left = true;
    m->from = FROM_SOURCE;
}

/* Whether `i` gets the value, over whomever, from `of`. */
static bool is_fed_by(const struct tree *t, int32_t i, int32_t of)
{
    while (i != FROM_SOURCE && i != of)
        i = t->members.data[i].from;
    return i == of && !MT_PLANT(MT_PLANT_TREE_CIRCLE);
}

/* Who is to send it to member `to`: the one that came first and has room, for it has most. */
static int32_t choose(const struct tree *t, int32_t to, uint32_t outs_max)
{
    bool feeds = t->members.data[to].outs > 0;
    for (int32_t i = 0; i < (int32_t)t->members.count; i++) {
        const struct member *m = &t->members.data[i];
        if (i != to && !m->is_left && m->outs < outs_max && !(feeds && is_fed_by(t, i, to)))
            return i;
    }
    return FROM_SOURCE;
}

uint32_t os_trees_ask(struct os_trees *trees, const struct lane_ref *ref, uint64_t chunks, uint32_t node, uint64_t now_ms)
{
    struct tree *t = chunks >= OS_TREE_CHUNKS_MIN && node ? tree_get(trees, ref->id, now_ms) : NULL;
    if (!t)
        return 0;
    t->asked_ms = now_ms;
    int32_t to = member_find(t, node);
    if (to >= 0)
        leave(t, &t->members.data[to]);
    else if (mt_vec_push(&t->members, ((struct member){.node = node, .from = FROM_SOURCE})).code)
        return 0;
    else
        to = (int32_t)t->members.count - 1;
    uint32_t       outs_max = t->members.count <= chunks ? 1 : 2;
    struct member *m = &t->members.data[to];
    m->is_left = false; /* it asks, so it lives, and will have it */
    m->from = t->served < outs_max ? FROM_SOURCE : choose(t, to, outs_max);
    if (m->from == FROM_SOURCE) {
        m->is_served = true;
        t->served++;
        return 0;
    }
    t->members.data[m->from].outs++;
    return t->members.data[m->from].node;
}

void os_trees_served(struct os_trees *trees, mt_id id, uint32_t node)
{
    struct tree *t = mt_map_ptr(&trees->all, id);
    int32_t      i = t ? member_find(t, node) : -1;
    if (i >= 0)
        served_end(t, &t->members.data[i]);
}

void os_trees_dead(struct os_trees *trees, mt_id id)
{
    if (mt_map_ptr(&trees->all, id))
        tree_free(trees, id);
}

void os_trees_node_lost(struct os_trees *trees, uint32_t node)
{
    MT_MAP_EACH(&trees->all, entry) {
        struct tree *t = entry->value.ptr;
        int32_t      i = member_find(t, node);
        if (i >= 0)
            t->members.data[i].is_left = true;
    }
}

void os_trees_fini(struct os_trees *trees)
{
    MT_MAP_EACH(&trees->all, entry)
        tree_free(trees, entry->key);
    mt_map_fini(&trees->all);
}
