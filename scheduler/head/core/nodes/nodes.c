/* SPDX-License-Identifier: Apache-2.0
 *
 * nodes.c - the table of nodes and of their streams, and the states of a node.
 *
 * Owns:    every struct node and struct stream.
 * Always:  a node has at most one stream; a stream's node has that stream; an alive node has one, a dead node has none.
 *
 *   (unknown) --register--> ALIVE --stream closed, or silent 2 s--> SUSPECT --silent 10 s, or new boot--> DEAD
 *                             ^----same boot registers, or is heard----'                                   |
 *                             '------------------registers again: a new epoch-----------------------------'
 *   ALIVE, SUSPECT --drain--> DRAINING --it says that it is empty--> DEAD (has_left)
 *                             ^  '--as ALIVE--> SUSPECT, DEAD
 *                             '--same boot registers, or is heard, and the drain still stands
 *
 * A number is never given twice. The epoch goes up when another boot takes the number over, and when a node that was
 * declared dead comes back: what it ran before is fenced by it.
 */

#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"

#include "core/base/limits/net.h"
#include "core/base/machine.h"
#include "core/base/plant.h"

#include <inttypes.h>

static const char *const node_names[] = {
    [POLICY_ALIVE] = "ALIVE", [POLICY_SUSPECT] = "SUSPECT", [POLICY_DEAD] = "DEAD", [POLICY_DRAINING] = "DRAINING"};
static const uint32_t node_next[] = {[POLICY_ALIVE] = MT_STATE(POLICY_ALIVE) /* on another stream */ | MT_STATE(POLICY_SUSPECT) |
                                                      MT_STATE(POLICY_DEAD) | MT_STATE(POLICY_DRAINING),
                                     [POLICY_SUSPECT] = MT_STATE(POLICY_ALIVE) | MT_STATE(POLICY_DEAD) | MT_STATE(POLICY_DRAINING),
                                     [POLICY_DEAD] = MT_STATE(POLICY_ALIVE),
                                     [POLICY_DRAINING] = MT_STATE(POLICY_DRAINING) /* on another stream */ |
                                                         MT_STATE(POLICY_SUSPECT) | MT_STATE(POLICY_DEAD) |
                                                         MT_STATE(POLICY_ALIVE) /* another boot */};
static const struct mt_machine node_machine = MT_MACHINE("node", node_names, node_next);

/* ---- finding ---- */

struct node *head_nodes_find(const struct head *h, uint32_t number)
{
    return mt_map_ptr(&h->nodes, mt_map_key(number));
}

struct stream *head_nodes_stream_find(const struct head *h, uint64_t number)
{
    return mt_map_ptr(&h->streams, mt_map_key(number));
}

struct stream *head_nodes_stream(const struct head *h, const struct node *n)
{
    return n->stream ? head_nodes_stream_find(h, n->stream) : NULL;
}

void head_nodes_free(struct node *n)
{
    free(n->name);
    free(n->address);
    free(n->data_address);
    mt_vec_fini(&n->promises);
    mt_vec_fini(&n->wants);
    mt_vec_fini(&n->wishes);
    mt_vec_fini(&n->voids);
    free(n);
}

mt_status head_nodes_living(struct head *h, struct policy_node ***out_nodes, uint32_t *out_count)
{
    struct policy_node **list = calloc(h->nodes_living + 1, sizeof(struct policy_node *));
    uint32_t             count = 0;
    if (!list)
        return mt_error(MT_ENOMEM, 0, "list the nodes");
    MT_MAP_EACH(&h->nodes, entry) {
        struct node *n = entry->value.ptr;
        if (n->place.state != POLICY_DEAD)
            list[count++] = &n->place;
    }
    MT_ASSERT(count == h->nodes_living);
    *out_nodes = list;
    *out_count = count;
    return mt_ok();
}

/* ---- the store ---- */

static void number_key(uint32_t number, uint8_t key[4])
{
    for (int i = 0; i < 4; i++)
        key[i] = (uint8_t)(number >> (24 - 8 * i));
}

void head_nodes_store(struct head *h, const struct node *n)
{
    Manta__Store__NodeRecord record = MANTA__STORE__NODE_RECORD__INIT;
    resource                 items[POLICY_RESOURCES_MAX], *total[POLICY_RESOURCES_MAX];
    uint8_t                  key[4];
    for (uint32_t i = 0; i < n->place.resource_count; i++) {
        head_resource_fill(&items[i], h->kinds.data[n->place.resources[i].kind], n->place.resources[i].total);
        total[i] = &items[i];
    }
    record.node = n->place.id;
    record.epoch = n->epoch;
    record.boot = n->boot;
    record.dead = n->place.state == POLICY_DEAD;
    record.name = n->name;
    record.address = n->address;
    record.data_address = n->data_address;
    record.reason = (char *)n->reason;
    record.labels = (char *)(uintptr_t)n->place.labels;
    record.is_draining = n->drain.is_on && !MT_PLANT(MT_PLANT_DRAIN_UNSTORED);
    record.drain_limit_ms = n->drain.limit_ms;
    record.drain_reason = (char *)(uintptr_t)n->drain.reason;
    record.has_left = n->has_left;
    record.member = n->member;
    record.certificate_ms = n->certificate_ms;
    record.n_void_leases = n->voids.count;
    record.void_leases = n->voids.data;
    record.n_total = n->place.resource_count;
    record.total = total;
    number_key(n->place.id, key);
    head_record_change(h, HEAD_TABLE_NODES, key, sizeof key, &record.base);
}

static void unstore(struct head *h, uint32_t number)
{
    uint8_t key[4];
    number_key(number, key);
    head_record_change(h, HEAD_TABLE_NODES, key, sizeof key, NULL);
}

/* ---- states ---- */

static void node_set_state(struct head *h, struct node *n, enum policy_state state, const char *why)
{
    bool was_dead = n->place.state == POLICY_DEAD;
    MT_TRANSITION(&node_machine, n->place.state, state);
    if (was_dead != (state == POLICY_DEAD))
        h->nodes_living += was_dead ? 1 : (uint32_t)-1;
    n->place.state = state;
    snprintf(n->reason, sizeof n->reason, "%s", why);
    h->is_capacity_changed = true;
}

void head_nodes_set_state(struct head *h, struct node *n, enum policy_state state, const char *why)
{
    node_set_state(h, n, state, why);
    head_view_changed(h, n);
}

void head_nodes_remember_dead(struct head *h, uint32_t number)
{
    HEAD_TRY(h, mt_vec_push(&h->dead, number));
    while (h->dead.count > MT_HEAD_NODES_DEAD_MAX) {
        uint32_t     oldest = h->dead.data[0];
        struct node *n = head_nodes_find(h, oldest);
        mt_vec_remove(&h->dead, 0);
        if (!n)
            continue;
        mt_map_remove(&h->nodes, mt_map_key(oldest));
        head_view_forgot(h, oldest);
        head_nodes_free(n);
        unstore(h, oldest);
    }
}

void head_nodes_forget_dead(struct head *h, uint32_t number)
{
    for (size_t i = 0; i < h->dead.count; i++)
        if (h->dead.data[i] == number) {
            mt_vec_remove(&h->dead, i);
            return;
        }
}

void head_nodes_detach(struct head *h, struct node *n, const char *why)
{
    struct stream *s = head_nodes_stream(h, n);
    n->stream = 0;
    if (s) {
        s->node = 0;
        head_nodes_drop_stream(h, s, why);
    }
}

void head_nodes_suspect(struct head *h, struct node *n, const char *why)
{
    if (n->place.state != POLICY_ALIVE && n->place.state != POLICY_DRAINING)
        return;
    mt_log(MT_LOG_INFO, "node_suspect", "node=%u why=\"%s\"", n->place.id, why);
    h->count.suspect++;
    node_set_state(h, n, POLICY_SUSPECT, why);
    head_view_state_changed(h, n);
}

void head_nodes_look_at(struct head *h, uint64_t due_ms)
{
    h->nodes_due_ms = due_ms < h->nodes_due_ms ? due_ms : h->nodes_due_ms;
}

static void set_there(struct head *h, struct node *n)
{
    head_nodes_look_at(h, h->now_ms + MT_NODE_SUSPECT_MS);
    node_set_state(h, n, n->drain.is_on ? POLICY_DRAINING : POLICY_ALIVE, n->drain.is_on ? n->drain.reason : "");
}

void head_nodes_heard(struct head *h, struct node *n)
{
    n->heard_ms = h->now_ms;
    if (n->place.state != POLICY_SUSPECT || n->stream == 0)
        return;
    set_there(h, n);
    head_view_state_changed(h, n);
}

void head_nodes_set_there(struct head *h, struct node *n)
{
    set_there(h, n);
    (n->drain.is_on ? head_view_changed : head_view_joined)(h, n);
}

/* The head itself stood still: nobody's silence. */
void head_nodes_paused(struct head *h, uint64_t gap_ms)
{
    mt_log(MT_LOG_WARN, "head_paused", "gap_ms=%" PRIu64, gap_ms);
    h->count.pause++;
    MT_MAP_EACH(&h->nodes, entry)
        ((struct node *)entry->value.ptr)->heard_ms += gap_ms;
}

uint64_t head_nodes_silent_ms(const struct head *h, const struct node *n)
{
    const struct stream *s = head_nodes_stream(h, n);
    return s && s->is_unread ? 0 : h->now_ms - n->heard_ms;
}

/* ---- streams ---- */

void head_nodes_opened(struct head *h, uint64_t number, const struct head_peer *peer, const struct head_beat_terms *beats)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s || mt_map_put_ptr(&h->streams, mt_map_key(number), s).code != 0) {
        free(s);
        head_broken(h, mt_error(MT_ENOMEM, 0, "take a stream"));
        return;
    }
    s->number = number;
    s->peer = *peer;
    s->beats = *beats;
}

static void stream_forget(struct head *h, struct stream *s)
{
    mt_map_remove(&h->streams, mt_map_key(s->number));
    free(s);
}

void head_nodes_drop_stream(struct head *h, struct stream *s, const char *why)
{
    struct node *n = s->node ? head_nodes_find(h, s->node) : NULL;
    if (n && n->stream == s->number) {
        n->stream = 0;
        head_nodes_suspect(h, n, why);
    }
    head_out_close(h, s);
    stream_forget(h, s);
}

void head_nodes_closed(struct head *h, uint64_t number)
{
    struct stream *s = head_nodes_stream_find(h, number);
    if (!s)
        return;
    struct node *n = s->node ? head_nodes_find(h, s->node) : NULL;
    if (n && n->stream == number) {
        n->stream = 0;
        n->closed_ms = h->now_ms;
        head_nodes_suspect(h, n, "its connection closed");
    }
    stream_forget(h, s);
}

void head_nodes_unread(struct head *h, uint64_t number, bool is_unread)
{
    struct stream *s = head_nodes_stream_find(h, number);
    if (!s)
        return;
    struct node *n = s->node ? head_nodes_find(h, s->node) : NULL;
    if (n && s->is_unread)
        n->heard_ms = h->now_ms;
    s->is_unread = is_unread;
}

/* ---- loading ---- */

mt_status head_nodes_load(struct head *h, const Manta__Store__NodeRecord *r)
{
    char         text[HEAD_TEXT_SIZE];
    struct node *n = calloc(1, sizeof *n);
    if (!n)
        return mt_error(MT_ENOMEM, 0, "load a node");
    *n = (struct node){.place = {.id = r->node, .state = r->dead ? POLICY_DEAD : POLICY_SUSPECT}};
    n->epoch = r->epoch;
    n->boot = r->boot;
    head_replace_text(h, &n->name, r->name);
    head_replace_text(h, &n->address, r->address);
    head_replace_text(h, &n->data_address, r->data_address);
    snprintf(n->place.labels, sizeof n->place.labels, "%s", r->labels);
    snprintf(n->reason, sizeof n->reason, "%s", r->dead ? r->reason : "not seen since the head was restarted");
    n->drain.is_on = r->is_draining && !r->dead;
    n->drain.limit_ms = r->drain_limit_ms;
    n->drain.ends_ms = h->now_ms + r->drain_limit_ms;
    snprintf(n->drain.reason, sizeof n->drain.reason, "%s", r->drain_reason);
    n->has_left = r->has_left;
    n->member = r->member;
    n->certificate_ms = r->certificate_ms;
    mt_status st = head_resources_to_node(h, r->total, r->n_total, n, text, sizeof text);
    if (st.code == 0 && (r->node == 0 || r->boot == 0 || head_nodes_find(h, r->node)))
        st = mt_error(MT_ECORRUPT, 0, "the store holds a node that can't be");
    if (st.code == 0)
        st = mt_map_put_ptr(&h->nodes, mt_map_key(r->node), n);
    if (st.code != 0) {
        head_nodes_free(n);
        return st;
    }
    for (size_t i = 0; i < r->n_void_leases; i++)
        MT_TRY(mt_vec_push(&n->voids, r->void_leases[i]));
    head_nodes_drivers(h, n, 0);
    head_view_changed(h, n);
    if (r->node >= h->next_node)
        h->next_node = r->node + 1;
    if (r->dead)
        MT_TRY(mt_vec_push(&h->dead, r->node));
    else
        h->nodes_living++;
    return h->broken;
}

void head_nodes_drivers(struct head *h, struct node *n, int32_t change)
{
    h->is_capacity_changed |= change < 0 && n->place.drivers <= 0;
    n->drivers += (uint32_t)change;
    n->place.drivers = n->drivers_max - n->drivers;
}

bool head_nodes_could_come(const struct head *h, const struct policy_request *request)
{
    return h->scale.core && scl_could_hold(h->scale.core, request);
}
