/* SPDX-License-Identifier: Apache-2.0
 *
 * peers.c - the other nodes: who carries a link, who is suspect, who is dead.
 *
 * Owns: every struct rlt_peer and rlt_stream. Thread: the logic loop only.
 * Always: a link lives from the first word between two nodes until one gives the other up; streams come and go below it.
 *
 * A node without a stream, or silent for MT_NODE_SUSPECT_MS, is suspect: both ends dial every MT_RLT_PEER_BEAT_MS, and less
 * often once such a stream is open and not answered: the node may only be slow. It is dead when nobody listens at its
 * address, when a later epoch of it is seen, when the head says so, or when it has been silent for MT_NODE_DEAD_MS. One that
 * was given up here, while the head counts it as alive, is dialled every MT_NODE_SUSPECT_MS: it may only have been out of
 * reach. Of two streams both ends use the one that the node with the lower number dialled.
 */
#include "raylet/core/links/links.h"
#include "raylet/core/links/streams.h"

#include "core/base/limits/net.h"

#include <stdio.h>
#include <stdlib.h>

struct rlt_peer *rlt_peer_find(const struct rlt *r, uint32_t node)
{
    return mt_map_ptr(&r->peers, mt_map_key(node));
}

struct rlt_stream *rlt_stream_find(const struct rlt *r, uint64_t stream)
{
    return mt_map_ptr(&r->streams, mt_map_key(stream));
}

struct rlt_peer *rlt_peer_of(struct rlt *r, uint32_t node, uint32_t epoch)
{
    struct rlt_peer *p = rlt_peer_find(r, node);
    if (p)
        return p;
    p = rlt_calloc(sizeof *p);
    p->node = node;
    p->epoch = epoch;
    p->timer.kind = RLT_TIMER_PEER;
    rlt_map_put(&r->peers, mt_map_key(node), p);
    return p;
}

void rlt_link_begin(struct rlt *r, struct rlt_peer *p, uint64_t number)
{
    /* Higher than any before, and different at both ends. Than any of an earlier epoch too: the other end may still hold the
     * link that this one has given up, and would take what is said under its number for what it has heard already. */
    if (!number)
        number = p->last_number + 1 + (mt_rng_next(&r->rng) & 0xffffff);
    link_init(&p->link, p->node, p->epoch, number);
    p->has_link = true;
    p->heard_at = p->said_at = r->now;
    p->dialed_at = 0;
    rlt_timer_set(r, &p->timer, r->now + MT_RLT_PEER_TICK_MS * RLT_MS);
}

/* ---- saying ---------------------------------------------------------------------------------------------------- */

void rlt_frame_send(struct rlt *r, struct rlt_peer *p, uint64_t stream, const struct link_frame *f)
{
    static const Manta__V1__Frame empty = MANTA__V1__FRAME__INIT;
    Manta__V1__Frame             *out = rlt_keep(r->out, &empty, sizeof empty);
    struct rlt_a_peer_send       *a = &rlt_act(r->out, RLT_A_PEER_SEND)->peer_send;
    link_fill(&p->link, r->node, r->epoch, f, out);
    if (out->records.len) /* what this very step takes in may acknowledge the frame, and so free it */
        out->records.data = rlt_keep(r->out, out->records.data, out->records.len);
    a->stream = stream;
    a->frame = out;
    p->said_at = r->now;
}

static void pause_set(struct rlt *r, struct rlt_peer *p, bool is_paused)
{
    if (p->is_paused == is_paused)
        return;
    p->is_paused = is_paused;
    struct rlt_action *a = rlt_act(r->out, RLT_A_SW_PAUSE);
    a->sw_pause.node = p->node;
    a->sw_pause.is_paused = is_paused;
}

void rlt_peer_pump(struct rlt *r, struct rlt_peer *p)
{
    const struct link_frame *f;
    while (p->stream && (f = link_next(&p->link)))
        rlt_frame_send(r, p, p->stream, f);
    if (p->link.queued_bytes > LINK_QUEUE_BYTES)
        pause_set(r, p, true);
    else if (p->link.queued_bytes < LINK_QUEUE_BYTES / 2)
        pause_set(r, p, false);
}

void rlt_peer_dial(struct rlt *r, struct rlt_peer *p)
{
    const struct rlt_node *n = rlt_node_find(r, p->node);
    uint64_t pause = (p->has_spares ? MT_NODE_SUSPECT_MS : MT_RLT_PEER_BEAT_MS) * RLT_MS; /* one is open, and not answered yet */
    if (p->dialing || !n || !n->address[0] || (p->dialed_at && r->now - p->dialed_at < pause))
        return;
    struct rlt_stream *s = rlt_calloc(sizeof *s);
    s->stream = r->next_stream++;
    s->peer = p;
    s->is_ours = true;
    rlt_map_put(&r->streams, mt_map_key(s->stream), s);
    p->dialing = s->stream;
    p->dialed_at = r->now;
    struct rlt_a_peer_dial *a = &rlt_act(r->out, RLT_A_PEER_DIAL)->peer_dial;
    a->stream = s->stream;
    a->address = rlt_keep(r->out, n->address, sizeof n->address);
}

static struct rlt_peer *peer_for_sending(struct rlt *r, uint32_t node)
{
    const struct rlt_node *n = rlt_node_find(r, node);
    struct rlt_peer       *p = rlt_peer_find(r, node);
    if (node == r->node || !r->node)
        return NULL;
    if (p && p->has_link)
        return p;
    if (!n || n->state == NODE_DEAD)
        return NULL;
    p = rlt_peer_of(r, node, n->epoch);
    rlt_link_begin(r, p, 0);
    return p;
}

void rlt_peer_meet(struct rlt *r, uint32_t node)
{
    struct rlt_peer *p = peer_for_sending(r, node);
    if (p && !p->stream)
        rlt_peer_dial(r, p);
}

bool rlt_peer_send2(struct rlt *r, uint32_t node, enum peer_kind kind, mt_id id, const void *head, size_t head_size,
                    const void *tail, size_t tail_size)
{
    struct rlt_peer   *p = peer_for_sending(r, node);
    size_t             size = LANE_RECORD_SIZE + head_size + tail_size;
    struct lane_record record = {.length = (uint32_t)size, .kind = (uint16_t)kind, .epoch = r->epoch, .id = id};
    uint64_t           bytes[LANE_RECORD_MAX / 8] = {0};
    if (!p)
        return false;
    MT_ASSERT(size <= LANE_RECORD_MAX);
    memcpy(bytes, &record, sizeof record);
    if (head_size)
        memcpy((uint8_t *)bytes + LANE_RECORD_SIZE, head, head_size);
    if (tail_size)
        memcpy((uint8_t *)bytes + LANE_RECORD_SIZE + head_size, tail, tail_size);
    link_queue(&p->link, (const uint8_t *)bytes, lane_record_padded(record.length));
    if (!p->stream)
        rlt_peer_dial(r, p);
    rlt_peer_pump(r, p);
    return true;
}

bool rlt_peer_send(struct rlt *r, uint32_t node, enum peer_kind kind, mt_id id, const void *payload, size_t size)
{
    return rlt_peer_send2(r, node, kind, id, payload, size, NULL, 0);
}

void rlt_peer_out(struct rlt *r, const struct rlt_ev_out *e)
{
    struct rlt_peer *p = rlt_peer_find(r, e->node);
    if (!p || !p->has_link)
        return; /* the node is lost, and every lane to it */
    link_queue(&p->link, e->bytes, e->size);
    rlt_peer_pump(r, p);
}

/* ---- streams ------------------------------------------------------------------------------------------------------- */

void rlt_stream_forget(struct rlt *r, struct rlt_stream *s)
{
    rlt_timer_clear(r, &s->timer);
    mt_map_remove(&r->streams, mt_map_key(s->stream));
    free(s);
}

void rlt_stream_drop(struct rlt *r, struct rlt_stream *s)
{
    rlt_act(r->out, RLT_A_PEER_CLOSE)->peer_close.stream = s->stream;
    if (s->peer && s->peer->dialing == s->stream)
        s->peer->dialing = 0;
    rlt_stream_forget(r, s);
}

static bool is_preferred(const struct rlt *r, const struct rlt_stream *s)
{
    return s->is_ours == (r->node < s->peer->node);
}

/* `s` is open, its other end known: it may carry the link. */
void rlt_stream_offer(struct rlt *r, struct rlt_stream *s)
{
    struct rlt_peer         *p = s->peer;
    const struct rlt_stream *now = p->stream ? rlt_stream_find(r, p->stream) : NULL;
    if (now && is_preferred(r, now) && !is_preferred(r, s))
        return;
    if (!p->stream && mt_heap_holds(&r->alone.node)) /* a class may have waited to ask this node */
        rlt_timer_set(r, &r->alone, r->now);
    p->has_spares |= now != NULL;
    p->stream = s->stream;
    r->stats.replayed_frames += link_rewind(&p->link);
    rlt_frame_send(r, p, p->stream, NULL); /* who this is, which link, how far */
    rlt_peer_pump(r, p);
}

void rlt_stream_opened(struct rlt *r, uint64_t stream)
{
    struct rlt_stream *s = rlt_stream_find(r, stream);
    if (!s) { /* accepted */
        if (r->streams.count >= MT_RLT_STREAMS_MAX || !r->node) {
            rlt_act(r->out, RLT_A_PEER_CLOSE)->peer_close.stream = stream;
            return;
        }
        s = rlt_calloc(sizeof *s);
        s->stream = stream;
        s->is_open = true;
        s->timer.kind = RLT_TIMER_STREAM;
        rlt_map_put(&r->streams, mt_map_key(stream), s);
        rlt_timer_set(r, &s->timer, r->now + MT_RLT_HELLO_MS * RLT_MS);
        return;
    }
    s->is_open = true;
    s->opened_at = r->now;
    s->peer->dialing = 0;
    if (s->peer->stream) {
        s->peer->has_spares = true;
        rlt_frame_send(r, s->peer, s->stream, NULL);
    } else {
        rlt_stream_offer(r, s);
    }
}

bool rlt_stream_answers(const struct rlt *r, const struct rlt_stream *s)
{
    const struct rlt_stream *carries = rlt_stream_find(r, s->peer->stream);
    return s->is_ours && !s->heard_at && carries && carries != s && carries->heard_at < s->opened_at;
}

/* The stream that carried the link is gone: another one may be there, else the node is suspect and is dialled. */
void rlt_peer_without_stream(struct rlt *r, struct rlt_peer *p)
{
    p->stream = 0;
    MT_MAP_EACH(&r->streams, entry) {
        struct rlt_stream *s = entry->value.ptr;
        if (s->peer == p && s->is_open) {
            rlt_stream_offer(r, s);
            return;
        }
    }
    if (p->has_link)
        rlt_peer_dial(r, p);
}

/* ---- looking after them ---- */

void rlt_ack_later(struct rlt *r, struct rlt_peer *p)
{
    uint64_t at = r->now + MT_RLT_PEER_ACK_MS * RLT_MS;
    if (!link_owes_ack(&p->link))
        return;
    if (p->link.taken_bytes >= LINK_ACK_BYTES && p->stream)
        rlt_frame_send(r, p, p->stream, NULL);
    else if (!mt_heap_holds(&p->timer.node) || p->timer.node.key > at)
        rlt_timer_set(r, &p->timer, at);
}

/* A suspect node is dialled again and again, and when it goes on all of those connections open. The one that carries the
 * link is kept as soon as something came by it; of the others each end closes those that it has dialled itself. */
void rlt_close_spares(struct rlt *r, struct rlt_peer *p)
{
    const struct rlt_stream *carries = p->stream && p->has_spares ? rlt_stream_find(r, p->stream) : NULL;
    if (!carries || !carries->heard_at || r->now - carries->heard_at > 2 * MT_RLT_PEER_BEAT_MS * RLT_MS)
        return;
    MT_MAP_EACH(&r->streams, entry) {
        struct rlt_stream *s = entry->value.ptr;
        if (s->peer == p && s->is_ours && s != carries)
            rlt_stream_drop(r, s);
    }
    p->has_spares = false;
}

/* Its link is over, whatever carried it too. What was queued is the caller's to look through and to free (link_fini). */
struct rlt_link rlt_peer_unlink(struct rlt *r, struct rlt_peer *p)
{
    struct rlt_link link = p->link;
    p->has_link = false; /* first: what ends with it says nothing more to that node */
    p->last_number = link.number;
    p->is_given_up = true;
    memset(&p->link, 0, sizeof p->link);
    p->stream = p->dialing = 0;
    p->has_spares = false;
    rlt_timer_set(r, &p->timer, r->now + MT_NODE_SUSPECT_MS * RLT_MS);
    pause_set(r, p, false);
    MT_MAP_EACH(&r->streams, entry) {
        struct rlt_stream *s = entry->value.ptr;
        if (s->peer == p)
            rlt_stream_drop(r, s);
    }
    return link;
}

bool rlt_peer_is_given_up(const struct rlt *r, uint32_t node)
{
    const struct rlt_peer *p = rlt_peer_find(r, node);
    return p && p->is_given_up;
}

bool rlt_peer_is_newer(const struct rlt *r, const struct rlt_node *n)
{
    const struct rlt_peer *p = rlt_peer_find(r, n->node);
    return p && p->epoch > n->epoch;
}

uint32_t rlt_peers_unheard(const struct rlt *r)
{
    uint32_t count = 0;
    MT_MAP_EACH(&r->peers, entry) {
        const struct rlt_peer *p = entry->value.ptr;
        count += p->has_link && p->link.queued_bytes;
    }
    return count;
}

void rlt_peers_tell(struct rlt *r, enum peer_kind kind, const void *payload, size_t size)
{
    MT_MAP_EACH(&r->peers, entry) {
        const struct rlt_peer *p = entry->value.ptr;
        if (p->has_link)
            rlt_peer_send(r, p->node, kind, (mt_id){0, 0}, payload, size);
    }
}

void rlt_peers_fini(struct rlt *r)
{
    MT_MAP_EACH(&r->peers, entry) {
        struct rlt_peer *p = entry->value.ptr;
        if (p->has_link)
            link_fini(&p->link);
        free(p);
    }
    MT_MAP_EACH(&r->streams, entry)
        free(entry->value.ptr);
    mt_map_fini(&r->peers);
    mt_map_fini(&r->streams);
}
