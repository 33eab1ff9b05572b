/* SPDX-License-Identifier: Apache-2.0
 *
 * scaler.c - makes the scaler, and takes each event in.
 *
 * Owns:    struct scl and all in it.
 * Thread:  the caller's; one at a time.
 */
#include "scheduler/scaler/private.h"

#include "core/base/plant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

mt_status scl_new(uint64_t now_ms, struct scl **out_scl)
{
    struct scl *s = calloc(1, sizeof *s);
    if (!s)
        return mt_error(MT_ENOMEM, 0, "make the scaler");
    s->now_ms = now_ms;
    s->next_number = s->given = 1;
    s->due_ms = now_ms;
    *out_scl = s;
    return mt_ok();
}

static void demands_clear(struct scl *s)
{
    for (size_t i = 0; i < s->demands.count; i++) {
        free(s->demands.data[i].requests);
        free(s->demands.data[i].held);
    }
    s->demands.count = 0;
}

void scl_free(struct scl *s)
{
    if (!s)
        return;
    demands_clear(s);
    mt_vec_fini(&s->demands);
    mt_vec_fini(&s->strangers);
    MT_MAP_EACH(&s->instances, entry)
        free(entry->value.ptr);
    mt_map_fini(&s->instances);
    MT_MAP_EACH(&s->nodes, entry)
        free(entry->value.ptr);
    MT_MAP_EACH(&s->buckets, entry)
        free(entry->value.ptr);
    mt_map_fini(&s->nodes);
    mt_map_fini(&s->idle);
    mt_map_fini(&s->slack);
    mt_map_fini(&s->buckets);
    free(s);
}

/* ---- configuration ---- */

static void count_all(struct scl *s)
{
    s->live_spot = s->live_on_demand = 0;
    MT_MAP_EACH(&s->instances, entry) {
        struct scl_instance *i = entry->value.ptr;
        bool                 is_live = scl_is_live(i->state);
        i->type_index = scl_type_find(s->types, s->config.count, i->type, i->zone);
        if (i->type_index == SCL_NO_TYPE)
            continue;
        s->state[i->type_index].live += is_live;
        s->state[i->type_index].launching += i->state == SCL_LAUNCHING;
        s->state[s->state[i->type_index].first].all += is_live;
        *(s->types[i->type_index].is_spot ? &s->live_spot : &s->live_on_demand) += is_live;
    }
}

static void type_name(struct scl *s, uint32_t t)
{
    struct type_state *state = &s->state[t];
    state->first = t;
    while (state->first > 0 && strcmp(s->types[state->first - 1].name, s->types[t].name) == 0)
        state->first--;
    snprintf(state->text, sizeof state->text, "%.50s%s%.50s", s->types[t].name, s->types[t].zone[0] ? " in zone " : "",
             s->types[t].zone);
}

mt_status scl_configure(struct scl *s, const struct scl_config *config)
{
    struct type_state was[MT_SCL_TYPES_MAX];
    if (config->count > MT_SCL_TYPES_MAX)
        return mt_error(MT_EINVAL, 0, "too many node types");
    memcpy(was, s->state, sizeof was);
    memset(s->state, 0, sizeof s->state);
    for (uint32_t t = 0; t < config->count; t++) { /* what was learnt of a type stays */
        uint32_t before = scl_type_find(s->types, s->config.count, config->types[t].name, config->types[t].zone);
        if (before != SCL_NO_TYPE)
            s->state[t] = was[before];
        s->state[t].live = s->state[t].all = s->state[t].launching = s->state[t].failures = 0;
        s->state[t].back_ms = 0; /* whoever says it again may have mended what failed */
    }
    s->config = *config;
    s->config.types = s->types;
    memmove(s->types, config->types, config->count * sizeof *s->types);
    for (uint32_t t = 0; t < config->count; t++) {
        s->types[t].place.state = POLICY_ALIVE;
        type_name(s, t);
    }
    count_all(s);
    s->is_dirty = s->is_changed = true;
    s->slack_due_ms = 0;
    s->list_ms = s->now_ms;
    return mt_ok();
}

bool scl_is_down(const struct scl *s)
{
    return s->config.is_down && s->instances.count == 0;
}

/* ---- demands ---- */

static int64_t size_of(const struct policy_request *r)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < r->amount_count; i++)
        sum += r->amounts[i].amount > INT32_MAX ? r->amounts[i].amount >> 20 : r->amounts[i].amount; /* bytes as MiB */
    return sum;
}

/* The large ones first: what they leave is filled with small ones. */
static int large_first(const void *a, const void *b)
{
    const struct held_demand *x = a, *y = b;
    if (x->demand.worth != y->demand.worth) /* of wishes */
        return x->demand.worth > y->demand.worth ? -1 : 1;
    if (x->requests->amount_count != y->requests->amount_count)
        return x->requests->amount_count > y->requests->amount_count ? -1 : 1;
    int64_t sx = size_of(x->requests), sy = size_of(y->requests);
    return sx != sy ? (sx > sy ? -1 : 1) : strcmp(x->demand.name, y->demand.name);
}

static mt_status demand_copy(struct scl *s, const struct scl_demand *from)
{
    struct held_demand d = {.demand = *from};
    uint32_t           requests = from->kind == SCL_GANG ? from->count : 1;
    d.requests = calloc(requests, sizeof *d.requests);
    d.held = calloc(from->held_count + 1, sizeof *d.held);
    mt_status st = d.requests && d.held ? mt_vec_push(&s->demands, d) : mt_error(MT_ENOMEM, 0, "copy a demand");
    if (st.code) {
        free(d.requests);
        free(d.held);
        return st;
    }
    if (from->pace)
        s->demands.data[s->demands.count - 1].pace = *from->pace;
    memcpy(d.requests, from->requests, requests * sizeof *d.requests);
    if (from->held_count)
        memcpy(d.held, from->held, from->held_count * sizeof *d.held);
    return st;
}

static bool is_same(const struct scl *s, const struct scl_event *event)
{
    /* told sorted in another order than kept: a cheap test is enough where nothing waits */
    return s->demands.count == 0 && event->demands.count == 0;
}

static void take_demands(struct scl *s, const struct scl_event *event)
{
    if (is_same(s, event))
        return;
    demands_clear(s);
    for (size_t i = 0; i < event->demands.count && i < MT_SCL_DEMANDS_MAX; i++)
        if (event->demands.items[i].count > 0)
            SCL_TRY(s, demand_copy(s, &event->demands.items[i]));
    if (s->demands.count > 1)
        qsort(s->demands.data, s->demands.count, sizeof *s->demands.data, large_first);
    s->is_dirty = true;
}

/* ---- nodes ---- */

static void joined(struct scl *s, struct scl_instance *i, const struct scl_known *n)
{
    struct type_state *t = i->type_index == SCL_NO_TYPE ? NULL : &s->state[i->type_index];
    i->node = n->place.id;
    if (n->handle[0])
        snprintf(i->handle, sizeof i->handle, "%s", n->handle);
    if (t) {
        uint64_t took = i->launched_ms ? s->now_ms - i->launched_ms : 0;
        t->failures = 0;
        t->back_ms = 0;
        t->why[0] = '\0';
        t->boot_ms = took > t->boot_ms ? took : (3 * t->boot_ms + took) / 4;
    }
    scl_set_state(s, i, SCL_JOINED, i->why);
}

/* Which of an instance's two nodes is meant, if it can be told. */
static bool is_same_handle(const struct scl_instance *i, const struct scl_known *n)
{
    return !i->handle[0] || !n->handle[0] || strcmp(i->handle, n->handle) == 0;
}

/* A node that nobody wants: a second one of an instance, or one of an instance that was given up. What runs there may end. */
static void send_away(struct scl *s, const struct scl_known *n)
{
    struct scl_instance who = {.number = n->instance, .node = n->place.id};
    if (n->place.state != POLICY_ALIVE)
        return;
    snprintf(who.why, sizeof who.why, "instance %" PRIu64 " has another node, or was given up", n->instance);
    scl_drain_order(s, &who);
}

/* Its node leaves, and not by us: the provider takes it away, its time ends, or somebody wants it so. */
static void told_to_leave(struct scl *s, struct scl_instance *i, const char *leaves)
{
    char why[MT_SCL_WHY_SIZE];
    snprintf(why, sizeof why, "its node %u leaves: %.150s", i->node, leaves && leaves[0] ? leaves : "it was told to");
    scl_note(s, "instance %" PRIu64 " (%s): %s", i->number, i->type, why);
    scl_type_avoid(s, i->type_index, why);
    scl_set_state(s, i, SCL_DRAINING, why);
}

static void node_meets_instance(struct scl *s, const struct scl_known *n, const char *leaves)
{
    struct scl_instance *i = scl_find(s, n->instance);
    if (!i) {
        if (n->instance && n->instance < s->given) /* else the store is older than the node: that is for people to decide */
            send_away(s, n);
    } else if (i->node == n->place.id) {
        if (i->state == SCL_DRAINING && n->place.state == POLICY_ALIVE)
            scl_drain_order(s, i); /* the order was lost with a head, or the raylet has begun anew */
        else if (i->state == SCL_JOINED && n->place.state == POLICY_DRAINING)
            told_to_leave(s, i, leaves);
    } else if (i->state == SCL_LAUNCHING || i->state == SCL_BOOTING || i->state == SCL_FAILED) {
        joined(s, i, n);
    } else if (i->state == SCL_JOINED && !mt_map_ptr(&s->nodes, mt_map_key(i->node)) && is_same_handle(i, n)) {
        i->node = n->place.id; /* it has come back as another node */
        scl_store(s, i);
    } else {
        send_away(s, n);
    }
}

/* Without those that only one node has: equal nodes are to stand in one bucket. */
static void labels_of(const struct scl_node *news, char *out, size_t size)
{
    size_t used = 0;
    for (const char *at = news->place->labels; *at;) {
        size_t length = strcspn(at, ",");
        bool   is_own = strncmp(at, "manta.instance=", 15) == 0 || strncmp(at, "manta.handle=", 13) == 0;
        if (!is_own && used + length + 2 < size) {
            if (used)
                out[used++] = ',';
            memcpy(out + used, at, length);
            used += length;
        }
        at += length + (at[length] == ',');
    }
    out[used] = '\0';
}

static bool is_equal(const struct scl_known *n, const struct scl_node *news, const char *labels)
{
    const struct policy_node *a = &n->place, *b = news->place;
    return n->is_busy == news->is_busy && n->can_move == news->can_move && n->instance == news->instance && a->state == b->state &&
           a->resource_count == b->resource_count &&
           memcmp(a->resources, b->resources, a->resource_count * sizeof *a->resources) == 0 && strcmp(a->labels, labels) == 0;
}

static void take_node(struct scl *s, const struct scl_node *news)
{
    mt_id             key = mt_map_key(news->place->id);
    char              labels[MT_LABELS_BYTES_MAX];
    struct scl_known *n = mt_map_ptr(&s->nodes, key);
    labels_of(news, labels, sizeof labels);
    if (n && is_equal(n, news, labels))
        return;
    if (!n) {
        n = calloc(1, sizeof *n);
        mt_status st = n ? mt_map_put_ptr(&s->nodes, key, n) : mt_error(MT_ENOMEM, 0, "note a node");
        if (st.code) {
            free(n);
            SCL_TRY(s, st);
            return;
        }
        s->is_changed = true;
    }
    n->place = *news->place;
    scl_text(n->place.labels, sizeof n->place.labels, labels);
    n->is_busy = news->is_busy;
    n->can_move = news->can_move;
    n->instance = news->instance;
    scl_text(n->handle, sizeof n->handle, news->handle ? news->handle : "");
    n->idle_ms = news->is_busy ? 0 : n->idle_ms ? n->idle_ms : s->now_ms;
    s->is_dirty = true;
    scl_node_sort(s, n);
    node_meets_instance(s, n, news->leaves);
}

static void take_gone(struct scl *s, uint32_t node)
{
    char              why[64];
    struct scl_known *n = mt_map_ptr(&s->nodes, mt_map_key(node));
    if (!n)
        return;
    struct scl_instance *i = scl_find(s, n->instance);
    scl_node_unsort(s, n);
    mt_map_remove(&s->nodes, mt_map_key(node));
    free(n);
    s->is_dirty = s->is_changed = true;
    if (!i || i->node != node || (i->state != SCL_JOINED && i->state != SCL_DRAINING))
        return;
    if (i->state == SCL_JOINED) {
        scl_note(s, "end instance %" PRIu64 " (%s): its node %u died", i->number, i->type, node);
        snprintf(why, sizeof why, "its node %u was taken away", node);
        scl_type_avoid(s, i->type_index, why);
    }
    scl_set_state(s, i, SCL_STOPPING, i->state == SCL_DRAINING ? i->why : "its node died");
    scl_terminate(s, i);
}

/* ---- the provider's answers ---- */

static void take_launched(struct scl *s, const struct scl_event *event)
{
    struct scl_instance *i = scl_find(s, event->answer.instance);
    if (!i)
        return;
    i->list_floor = s->list_sequence + 1;
    i->is_unknown = event->answer.outcome == SCL_UNKNOWN;
    if (event->answer.outcome == SCL_DONE && !i->handle[0] && event->answer.handle)
        snprintf(i->handle, sizeof i->handle, "%s", event->answer.handle);
    if (i->state == SCL_STOPPING) {
        scl_terminate(s, i);
    } else if (i->state != SCL_LAUNCHING) {
        return; /* its node was quicker */
    } else if (event->answer.outcome == SCL_DONE) {
        scl_set_state(s, i, SCL_BOOTING, i->why);
    } else if (event->answer.outcome == SCL_UNKNOWN) {
        scl_list_soon(s);
    } else {
        const char *text = event->answer.text && event->answer.text[0] ? event->answer.text : "the provider refuses";
        scl_note(s, "instance %" PRIu64 " (%s) could not be started: %.150s", i->number, i->type, text);
        scl_type_failed(s, i->type_index, text);
        scl_set_state(s, i, SCL_FAILED, text);
        scl_list_soon(s);
    }
}

/* ---- the machine ---- */

static uint32_t launches_behind(const struct scl_actions *out, size_t i)
{
    const struct scl_instance *its = &out->list.data[i].instance;
    for (size_t k = i + 1; k < out->list.count; k++) {
        const struct scl_action *next = &out->list.data[k];
        if (next->kind == SCL_ACT_LAUNCH && strcmp(its->type, next->instance.type) == 0 &&
            strcmp(its->zone, next->instance.zone) == 0)
            return next->more + 1;
    }
    return MT_PLANT(MT_PLANT_SCALE_MORE);
}

/* A provider that starts several at once waits for them: so no more than do follow. From the last one on: each looks no further
 * than to the next of its like, which is near. */
static void count_more(struct scl_actions *out)
{
    for (size_t i = out->list.count; i-- > 0;)
        if (out->list.data[i].kind == SCL_ACT_LAUNCH)
            out->list.data[i].more = launches_behind(out, i);
}

mt_status scl_step(struct scl *s, const struct scl_event *event, struct scl_actions *out)
{
    s->out = out;
    s->now_ms = event->now_ms > s->now_ms ? event->now_ms : s->now_ms;
    s->kinds = event->kinds;
    switch (event->kind) {
    case SCL_EV_TICK: scl_decide(s); break;
    case SCL_EV_DEMANDS: take_demands(s, event); break;
    case SCL_EV_NODE: take_node(s, &event->node); break;
    case SCL_EV_NODE_GONE: take_gone(s, event->gone.node); break;
    case SCL_EV_LISTED:
        scl_listed(s, event);
        s->is_changed = true;
        break;
    case SCL_EV_LAUNCHED:
        take_launched(s, event);
        s->is_changed = true;
        break;
    case SCL_EV_TERMINATED: scl_list_soon(s); break;
    }
    count_more(out);
    out->next_ms = s->is_dirty ? s->now_ms : s->due_ms;
    if (!s->is_listing && s->config.count && s->list_ms < out->next_ms)
        out->next_ms = s->list_ms;
    if (out->next_ms < s->now_ms)
        out->next_ms = s->now_ms;
    s->out = NULL;
    s->kinds = NULL;
    return s->broken;
}

const char *scl_check(const struct scl *s)
{
    uint32_t live = 0, sorted = 0, alive = 0;
    MT_MAP_EACH(&s->buckets, entry) {
        const struct scl_bucket *b = entry->value.ptr;
        sorted += b->count;
        if (b->count == 0)
            return "a bucket holds no node";
    }
    MT_MAP_EACH(&s->nodes, entry) {
        const struct scl_known *n = entry->value.ptr;
        alive += n->place.state == POLICY_ALIVE;
        if ((n->place.state == POLICY_ALIVE) != (n->bucket != NULL))
            return "a node that is alive stands in no bucket, or one that is not in one";
        if ((n->place.state == POLICY_ALIVE && !n->is_busy) != (mt_map_ptr(&s->idle, entry->key) == n))
            return "a node is idle and not known as such, or the other way round";
    }
    if (sorted != alive)
        return "the count of nodes in buckets is wrong";
    MT_MAP_EACH(&s->instances, entry) {
        const struct scl_instance *i = entry->value.ptr;
        live += scl_is_live(i->state);
        if (i->state == SCL_GONE)
            return "an instance that is gone is still known";
        if (i->number >= s->next_number)
            return "an instance has a number that was not given yet";
        if ((i->state == SCL_JOINED) && i->node == 0)
            return "an instance has joined and has no node";
    }
    if (live != s->live)
        return "the count of instances is wrong";
    if (live < s->live_spot + s->live_on_demand)
        return "the count of spot nodes is wrong";
    for (uint32_t t = 0; t < s->config.count; t++)
        if (s->state[t].first == t && s->state[t].all > s->types[t].max && s->decisions == 0)
            return "a type has more nodes than its maximum";
    return NULL;
}
