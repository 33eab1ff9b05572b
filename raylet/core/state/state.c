/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - memory, timers, and finding what stands in the tables.
 *
 * Owns: struct rlt. Thread: the logic loop only.
 */
#include "raylet/core/state/state.h"

#include <stdlib.h>

void *rlt_calloc(size_t size)
{
    void *p = calloc(1, size);
    if (!p)
        rlt_out_of_memory();
    return p;
}

void rlt_map_put(mt_map *map, mt_id key, void *ptr)
{
    if (mt_map_put_ptr(map, key, ptr).code)
        rlt_out_of_memory();
}

void rlt_timer_set(struct rlt *r, struct rlt_timer *t, uint64_t at)
{
    mt_heap_remove(&r->timers, &t->node);
    if (mt_heap_push(&r->timers, &t->node, at).code)
        rlt_out_of_memory();
}

void rlt_timer_clear(struct rlt *r, struct rlt_timer *t)
{
    mt_heap_remove(&r->timers, &t->node);
}

struct rlt_proc *rlt_proc_of_conn(const struct rlt *r, uint64_t conn)
{
    return mt_map_ptr(&r->conns, mt_map_key(conn));
}

struct rlt_proc *rlt_proc_of_process(const struct rlt *r, uint64_t process)
{
    return process ? mt_map_ptr(&r->processes, mt_map_key(process)) : NULL;
}

struct rlt_class *rlt_class_find(const struct rlt_proc *owner, uint32_t class_id)
{
    for (struct rlt_list *link = owner->classes.next; link != &owner->classes; link = link->next) {
        struct rlt_class *c = mt_container_of(link, struct rlt_class, in_owner);
        if (c->def.class_id == class_id)
            return c;
    }
    return NULL;
}

struct rlt_lease *rlt_lease_find(const struct rlt *r, uint64_t id)
{
    return mt_map_ptr(&r->leases, mt_map_key(id));
}

struct rlt_node *rlt_node_find(const struct rlt *r, uint32_t node)
{
    return mt_map_ptr(&r->nodes, mt_map_key(node));
}

/* How long an answer may take: many times what the last ones took, so that a head which is stopped is missed soon, and one which is
 * slow on a busy machine is waited for. */
static uint64_t head_patience(const struct rlt_head *h)
{
    uint64_t most = MT_RLT_HEAD_SILENT_MS * RLT_MS, least = MT_RLT_HEAD_SILENT_MIN_MS * RLT_MS;
    uint64_t patience = h->answer_ns ? MT_RLT_HEAD_SILENT_TIMES * h->answer_ns : most;
    return patience > most ? most : patience < least ? least : patience;
}

/* From when on nobody can count on the head; UINT64_MAX: it is there, as far as is known. One that is stopped, or out of reach
 * behind a connection that still stands, shows by what it does not answer. */
uint64_t rlt_away_since(const struct rlt *r)
{
    const struct rlt_head *h = &r->head;
    if (!r->config.has_head || !h->is_ready || r->is_stopping)
        return UINT64_MAX;
    if (!h->is_registered)
        return 0;
    return h->unanswered ? h->unanswered_at + head_patience(h) : UINT64_MAX;
}

bool rlt_is_away(const struct rlt *r)
{
    return rlt_away_since(r) <= r->now;
}
