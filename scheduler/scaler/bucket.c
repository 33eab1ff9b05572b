/* SPDX-License-Identifier: Apache-2.0
 *
 * bucket.c - nodes that are equal in all that a packing looks at stand in one bucket, and those that nobody uses in a list, so that
 *            a decision looks at kinds of nodes and not at each of them.
 *
 * Always: an alive node stands in the bucket of its key, any other in none; a bucket without a node is freed.
 */
#include "scheduler/scaler/private.h"

#include "core/base/hash.h"
#include "core/base/plant.h"

#include <stdlib.h>

static mt_id key_of(const struct scl_known *n)
{
    uint64_t hash = mt_hash_bytes(MT_HASH_START, n->place.labels, strlen(n->place.labels));
    for (uint32_t i = 0; i < n->place.resource_count; i++) {
        const struct policy_resource *r = &n->place.resources[i];
        int64_t                       words[3] = {r->kind, r->total, r->free};
        hash = mt_hash_bytes(hash, words, sizeof words);
    }
    return (mt_id){hash, 1 + n->is_busy};
}

static struct scl_bucket *bucket_of(struct scl *s, const struct scl_known *n)
{
    mt_id              key = key_of(n);
    struct scl_bucket *b = mt_map_ptr(&s->buckets, key);
    if (b)
        return b;
    b = calloc(1, sizeof *b);
    mt_status st = b ? mt_map_put_ptr(&s->buckets, key, b) : mt_error(MT_ENOMEM, 0, "sort a node");
    if (st.code) {
        free(b);
        SCL_TRY(s, st);
        return NULL;
    }
    b->key = key;
    b->like = n->place;
    b->is_busy = n->is_busy;
    return b;
}

static void let_go(struct scl *s, struct scl_bucket *b)
{
    if (!b || --b->count > 0)
        return;
    mt_map_remove(&s->buckets, b->key);
    free(b);
}

int64_t scl_use_of_node(const struct policy_node *n)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < n->resource_count; i++)
        if (n->resources[i].total > 0) {
            int64_t share = (n->resources[i].total - n->resources[i].free) * 1000 / n->resources[i].total;
            most = share > most ? share : most;
        }
    return most;
}

/* Little used: by half at most. */
static void sort_slack(struct scl *s, struct scl_known *n)
{
    bool is_slack = n->bucket && n->instance && (!n->is_busy || n->can_move || MT_PLANT(MT_PLANT_SPARE_FIXED)) &&
                    scl_use_of_node(&n->place) <= MT_SCL_LITTLE;
    if (!is_slack) {
        n->slack_ms = n->spare_ms = 0;
        mt_map_remove(&s->slack, mt_map_key(n->place.id));
    } else if (!n->slack_ms) {
        n->slack_ms = s->now_ms;
        s->slack_due_ms = 0; /* when it is due is found out */
        SCL_TRY(s, mt_map_put_ptr(&s->slack, mt_map_key(n->place.id), n));
    }
}

void scl_node_sort(struct scl *s, struct scl_known *n)
{
    bool               is_alive = n->place.state == POLICY_ALIVE;
    struct scl_bucket *was = n->bucket;
    n->bucket = is_alive ? bucket_of(s, n) : NULL;
    if (n->bucket)
        n->bucket->count++;
    let_go(s, was);
    if (is_alive && !n->is_busy)
        SCL_TRY(s, mt_map_put_ptr(&s->idle, mt_map_key(n->place.id), n));
    else
        mt_map_remove(&s->idle, mt_map_key(n->place.id));
    sort_slack(s, n);
}

void scl_node_unsort(struct scl *s, struct scl_known *n)
{
    let_go(s, n->bucket);
    n->bucket = NULL;
    n->slack_ms = 0;
    mt_map_remove(&s->idle, mt_map_key(n->place.id));
    mt_map_remove(&s->slack, mt_map_key(n->place.id));
}
