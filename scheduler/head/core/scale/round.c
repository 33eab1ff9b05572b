/* SPDX-License-Identifier: Apache-2.0
 *
 * round.c - tells the scaler what has changed: nodes, and what waits for room. Both as they stand; it finds the differences.
 */
#include "scheduler/head/core/scale/private.h"
#include "scheduler/head/core/jobs/queue.h"

#include "core/base/hash.h"

struct told { /* a demand in the making */
    struct scl_demand demand;
    size_t            first; /* of its requests */
    size_t            held;
    uint64_t          key;
    struct scl_pace   pace; /* of a job with a deadline */
};
struct telling {
    MT_VEC(struct told) demands;
    MT_VEC(struct policy_request) requests;
    MT_VEC(uint32_t) held;
};

/* ---- nodes ---- */

static void tell_node(struct head *h, const struct node *n)
{
    char             handle[MT_SCL_NAME_SIZE];
    struct scl_event event = {.kind = SCL_EV_NODE};
    if (n->place.state == POLICY_DEAD) {
        event.kind = SCL_EV_NODE_GONE;
        event.gone.node = n->place.id;
    } else {
        head_scale_learn(h, n);
        event.node.place = &n->place;
        event.node.is_busy = !n->has_reported || n->here > 0 || n->promises.count > 0 || n->wants.count > 0;
        event.node.can_move = n->has_reported && n->tasks_here == n->here;
        event.node.instance = head_scale_instance_of(h, n->place.labels, handle);
        event.node.handle = handle;
        event.node.leaves = n->drain.is_on ? n->drain.reason : NULL;
    }
    head_scale_step(h, &event);
}

/* ---- what waits ---- */

static uint64_t hash_request(uint64_t hash, const struct policy_request *r)
{
    hash = mt_hash_bytes(hash, r->amounts, r->amount_count * sizeof *r->amounts);
    return mt_hash_bytes(hash, r->labels, strlen(r->labels) + 1);
}

static void tell_shape(struct head *h, struct telling *t, const struct policy_request *r, uint32_t count)
{
    uint64_t key = hash_request(MT_HASH_START, r);
    if (r->policy == POLICY_NODE || count == 0)
        return; /* no other node would do */
    for (size_t i = 0; i < t->demands.count; i++)
        if (t->demands.data[i].key == key && t->demands.data[i].demand.kind == SCL_LEASES) {
            t->demands.data[i].demand.count += count;
            return;
        }
    struct told fresh = {.demand = {.kind = SCL_LEASES, .count = count}, .first = t->requests.count, .key = key};
    HEAD_TRY(h, mt_vec_push(&t->requests, *r));
    t->requests.data[t->requests.count - 1].policy = POLICY_HYBRID;
    HEAD_TRY(h, mt_vec_push(&t->demands, fresh));
}

static void tell_gang(struct head *h, struct telling *t, const struct group *g)
{
    struct told fresh = {.demand = {.kind = SCL_GANG, .strategy = g->strategy}, .first = t->requests.count, .held = t->held.count};
    for (uint32_t b = 0; b < g->bundle_count; b++) {
        if (g->bundles[b].state == BUNDLE_NONE) {
            HEAD_TRY(h, mt_vec_push(&t->requests, g->bundles[b].request));
            fresh.demand.count++;
        } else {
            HEAD_TRY(h, mt_vec_push(&t->held, g->bundles[b].node));
            fresh.demand.held_count++;
        }
    }
    const char *name = g->full_name ? strrchr(g->full_name, 0x1f) : NULL;
    snprintf(fresh.demand.name, sizeof fresh.demand.name, "%.60s", name ? name + 1 : g->key);
    if (fresh.demand.count)
        HEAD_TRY(h, mt_vec_push(&t->demands, fresh));
}

static void tell_want(struct head *h, struct telling *t, const Manta__V1__ScaleWant *want)
{
    struct policy_request r = {0};
    char                  text[160];
    struct told           fresh = {.demand = {.kind = SCL_REQUEST, .count = want->count}, .first = t->requests.count};
    if (head_resources_to_request(h, want->resources, want->n_resources, &r, text, sizeof text).code)
        return; /* was checked when it came */
    snprintf(r.labels, sizeof r.labels, "%s", want->labels);
    snprintf(fresh.demand.name, sizeof fresh.demand.name, "%s", want->name);
    HEAD_TRY(h, mt_vec_push(&t->requests, r));
    HEAD_TRY(h, mt_vec_push(&t->demands, fresh));
}

static void tell_wish(struct head *h, struct telling *t, const struct node_wish *wish)
{
    struct told fresh = {.demand = {.kind = SCL_WISH, .count = wish->count, .worth = wish->worth, .owner = wish->owner},
                         .first = t->requests.count};
    snprintf(fresh.demand.name, sizeof fresh.demand.name, "%s", wish->name);
    HEAD_TRY(h, mt_vec_push(&t->requests, wish->request));
    HEAD_TRY(h, mt_vec_push(&t->demands, fresh));
}

/* As long as it has not ended: where it runs may be left for another node. */
static void tell_paced(struct head *h, struct telling *t, const struct bucket *b)
{
    const struct job *job = b->paced;
    struct told       fresh = {.demand = {.kind = SCL_LEASES, .count = 1}, .first = t->requests.count};
    if (job->state == JOB_PENDING && (!b->ready.count || b->is_over))
        return; /* it may not start yet */
    head_pace_of(h, job, &fresh.pace);
    fresh.key = mt_hash_bytes(MT_HASH_START, job->spec->id, strlen(job->spec->id));
    snprintf(fresh.demand.name, sizeof fresh.demand.name, "%s", job->spec->id);
    HEAD_TRY(h, mt_vec_push(&t->requests, b->request));
    t->requests.data[t->requests.count - 1].labels[0] = '\0'; /* which nodes is the scaler's choice */
    HEAD_TRY(h, mt_vec_push(&t->demands, fresh));
}

/* How many of those that wait may start now, were there room. */
static uint32_t may_start(const struct bucket *b)
{
    uint32_t left = b->limited ? b->limited->most - head_array_placed(b->limited) : UINT32_MAX; /* it is not over */
    return b->ready.count < left ? (uint32_t)b->ready.count : left;
}

static void collect(struct head *h, struct telling *t)
{
    MT_MAP_EACH(&h->nodes, entry) {
        const struct node *n = entry->value.ptr;
        for (size_t i = 0; n->stream != 0 && i < n->wishes.count; i++)
            tell_wish(h, t, &n->wishes.data[i]);
        for (size_t i = 0; n->stream != 0 && i < n->wants.count; i++)
            if (!n->wants.data[i].group.process && n->wants.data[i].wanted > n->wants.data[i].placed)
                tell_shape(h, t, &n->wants.data[i].request, n->wants.data[i].wanted - n->wants.data[i].placed);
    }
    for (struct head_index_node *at = h->buckets.first; at; at = at->next) {
        const struct bucket *b = mt_container_of(at, struct bucket, at);
        if (b->paced)
            tell_paced(h, t, b);
        else if (!b->is_over) /* more nodes would not help */
            tell_shape(h, t, &b->request, may_start(b));
    }
    for (size_t i = 0; i < h->open_groups.count; i++)
        tell_gang(h, t, h->open_groups.data[i]);
    for (size_t i = 0; i < h->scale.wants.count; i++)
        tell_want(h, t, h->scale.wants.data[i]);
}

/* What is left of its work is told anew now and then, and where it is at once. */
static uint64_t hash_paced(const struct head *h, uint64_t hash, const struct told *told)
{
    uint64_t words[4] = {told->key, told->pace.node, told->pace.stays, h->now_ms / MT_HEAD_PACE_MS};
    return told->pace.deadline_ms ? mt_hash_bytes(hash, words, sizeof words) : hash;
}

static uint64_t hash_all(const struct head *h, const struct telling *t)
{
    uint64_t hash = mt_hash_bytes(MT_HASH_START, t->held.data, t->held.count * sizeof *t->held.data);
    for (size_t i = 0; i < t->demands.count; i++) {
        uint32_t words[3] = {t->demands.data[i].demand.kind, t->demands.data[i].demand.count, t->demands.data[i].demand.worth};
        hash = mt_hash_bytes(hash, words, sizeof words);
        hash = hash_paced(h, hash, &t->demands.data[i]);
    }
    for (size_t i = 0; i < t->requests.count; i++)
        hash = hash_request(hash, &t->requests.data[i]);
    return hash;
}

static void tell_demands(struct head *h)
{
    struct telling t = {0};
    MT_VEC(struct scl_demand) list = {0};
    collect(h, &t);
    uint64_t hash = hash_all(h, &t);
    for (size_t i = 0; i < t.demands.count && hash != h->scale.demands_hash; i++) {
        struct scl_demand d = t.demands.data[i].demand;
        d.requests = t.requests.data + t.demands.data[i].first;
        d.pace = t.demands.data[i].pace.deadline_ms ? &t.demands.data[i].pace : NULL;
        d.held = t.held.data ? t.held.data + t.demands.data[i].held : NULL;
        HEAD_TRY(h, mt_vec_push(&list, d));
    }
    if (hash != h->scale.demands_hash && h->broken.code == 0) {
        struct scl_event event = {.kind = SCL_EV_DEMANDS, .demands = {list.data, list.count}};
        h->scale.demands_hash = hash;
        head_scale_step(h, &event);
    }
    mt_vec_fini(&t.demands);
    mt_vec_fini(&t.requests);
    mt_vec_fini(&t.held);
    mt_vec_fini(&list);
}

/* ---- the round ---- */

void head_scale_round(struct head *h)
{
    struct scl_event tick = {.kind = SCL_EV_TICK};
    if (!h->scale.core || head_in_grace(h)) /* nodes are still registering: what seems to lack may be there */
        return;
    MT_MAP_EACH(&h->nodes, entry)
        tell_node(h, entry->value.ptr);
    tell_demands(h);
    head_scale_step(h, &tick);
    head_scale_shut_out(h);
    if (scl_is_down(h->scale.core))
        head_scale_forget(h);
}

void head_scale_started(struct head *h)
{
    if (!h->scale.core)
        return;
    scl_load_next(h->scale.core, h->scale.stored_next);
    h->scale.actions.next_ms = h->now_ms;
    if (h->scale.config)
        head_scale_open(h);
}
