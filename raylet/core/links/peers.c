/* SPDX-License-Identifier: Apache-2.0
 *
 * peers.c - the other nodes: who carries a link, who is suspect, who is dead.
 *
 * Owns: every struct rlt_peer and rlt_stream. Thread: the logic loop only.
 * Always: a link lives from the first word between two nodes until one gives the other up; streams come and go below it.
 *
 * A node without a stream, or silent for MT_NODE_SUSPECT_MS, is suspect: both ends dial every MT_RLT_PEER_BEAT_MS. It is
 * dead when nobody listens at its address, when a later epoch of it is seen, when the head says so, or when it has been
 * silent for MT_NODE_DEAD_MS. One that was given up here, while the head counts it as alive, is dialled every
 * MT_NODE_SUSPECT_MS: it may only have been out of reach. Of two streams both ends use the one that the node with the
 * lower number dialled.
 */
#include "raylet/core/state.h"

#include "core/base/log.h"

#include <stdio.h>
#include <stdlib.h>

static void peer_timer_fire(struct rlt *r, struct rlt_timer *t);

static struct rlt_peer *peer_find(const struct rlt *r, uint32_t node)
{
    return mt_map_ptr(&r->peers, mt_map_key(node));
}

static struct rlt_stream *stream_find(const struct rlt *r, uint64_t stream)
{
    return mt_map_ptr(&r->streams, mt_map_key(stream));
}

static struct rlt_peer *peer_of(struct rlt *r, uint32_t node, uint32_t epoch)
{
    struct rlt_peer *p = peer_find(r, node);
    if (p)
        return p;
    p = rlt_calloc(sizeof *p);
    p->node = node;
    p->epoch = epoch;
    p->timer.fire = peer_timer_fire;
    rlt_map_put(&r->peers, mt_map_key(node), p);
    return p;
}

static void link_begin(struct rlt *r, struct rlt_peer *p, uint64_t number)
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

static void frame_send(struct rlt *r, struct rlt_peer *p, uint64_t stream, const struct link_frame *f)
{
    static const Manta__V1__Frame empty = MANTA__V1__FRAME__INIT;
    Manta__V1__Frame             *out = rlt_keep(r->out, &empty, sizeof empty);
    struct rlt_action            *a = rlt_act(r->out, RLT_A_PEER_SEND);
    link_fill(&p->link, r->node, r->epoch, f, out);
    if (out->records.len) /* what this very step takes in may acknowledge the frame, and so free it */
        out->records.data = rlt_keep(r->out, out->records.data, out->records.len);
    a->stream = stream;
    a->node = p->node;
    a->frame = out;
    p->said_at = r->now;
}

static void pause_set(struct rlt *r, struct rlt_peer *p, bool is_paused)
{
    if (p->is_paused == is_paused)
        return;
    p->is_paused = is_paused;
    struct rlt_action *a = rlt_act(r->out, RLT_A_SW_PAUSE);
    a->node = p->node;
    a->flags = is_paused;
}

static void peer_pump(struct rlt *r, struct rlt_peer *p)
{
    const struct link_frame *f;
    while (p->stream && (f = link_next(&p->link, r->now)))
        frame_send(r, p, p->stream, f);
    if (p->link.queued_bytes > LINK_QUEUE_BYTES)
        pause_set(r, p, true);
    else if (p->link.queued_bytes < LINK_QUEUE_BYTES / 2)
        pause_set(r, p, false);
}

static void peer_dial(struct rlt *r, struct rlt_peer *p)
{
    const struct rlt_node *n = rlt_node_find(r, p->node);
    if (p->dialing || !n || !n->address[0] || (p->dialed_at && r->now - p->dialed_at < MT_RLT_PEER_BEAT_MS * RLT_MS))
        return;
    struct rlt_stream *s = rlt_calloc(sizeof *s);
    s->stream = r->next_stream++;
    s->peer = p;
    s->is_ours = true;
    rlt_map_put(&r->streams, mt_map_key(s->stream), s);
    p->dialing = s->stream;
    p->dialed_at = r->now;
    struct rlt_action *a = rlt_act(r->out, RLT_A_PEER_DIAL);
    a->stream = s->stream;
    a->node = p->node;
    a->text = rlt_keep(r->out, n->address, sizeof n->address);
}

static struct rlt_peer *peer_for_sending(struct rlt *r, uint32_t node)
{
    const struct rlt_node *n = rlt_node_find(r, node);
    struct rlt_peer       *p = peer_find(r, node);
    if (node == r->node || !r->node)
        return NULL;
    if (p && p->has_link)
        return p;
    if (!n || n->state == 3)
        return NULL;
    p = peer_of(r, node, n->epoch);
    link_begin(r, p, 0);
    return p;
}

void rlt_peer_meet(struct rlt *r, uint32_t node)
{
    struct rlt_peer *p = peer_for_sending(r, node);
    if (p && !p->stream)
        peer_dial(r, p);
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
        peer_dial(r, p);
    peer_pump(r, p);
    return true;
}

bool rlt_peer_send(struct rlt *r, uint32_t node, enum peer_kind kind, mt_id id, const void *payload, size_t size)
{
    return rlt_peer_send2(r, node, kind, id, payload, size, NULL, 0);
}

void rlt_peer_out(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_peer *p = peer_find(r, e->node);
    if (!p || !p->has_link)
        return; /* the node is lost, and every lane to it */
    link_queue(&p->link, e->bytes, e->size);
    peer_pump(r, p);
}

/* ---- streams ------------------------------------------------------------------------------------------------------- */

static void stream_forget(struct rlt *r, struct rlt_stream *s)
{
    rlt_timer_clear(r, &s->timer);
    mt_map_remove(&r->streams, mt_map_key(s->stream));
    free(s);
}

static void stream_drop(struct rlt *r, struct rlt_stream *s)
{
    rlt_act(r->out, RLT_A_PEER_CLOSE)->stream = s->stream;
    if (s->peer && s->peer->dialing == s->stream)
        s->peer->dialing = 0;
    stream_forget(r, s);
}

static void stream_timer_fire(struct rlt *r, struct rlt_timer *t)
{
    stream_drop(r, mt_container_of(t, struct rlt_stream, timer)); /* has not said who it is */
}

static bool is_preferred(const struct rlt *r, const struct rlt_stream *s)
{
    return s->is_ours == (r->node < s->peer->node);
}

/* `s` is open, its other end known: it may carry the link. */
static void stream_offer(struct rlt *r, struct rlt_stream *s)
{
    struct rlt_peer         *p = s->peer;
    const struct rlt_stream *now = p->stream ? stream_find(r, p->stream) : NULL;
    if (now && is_preferred(r, now) && !is_preferred(r, s))
        return;
    p->stream = s->stream;
    r->stats.replayed_frames += link_rewind(&p->link, r->now);
    frame_send(r, p, p->stream, NULL); /* who this is, which link, how far */
    peer_pump(r, p);
}

static void stream_opened(struct rlt *r, uint64_t stream)
{
    struct rlt_stream *s = stream_find(r, stream);
    if (!s) { /* accepted */
        if (r->streams.count >= MT_RLT_STREAMS_MAX || !r->node) {
            rlt_act(r->out, RLT_A_PEER_CLOSE)->stream = stream;
            return;
        }
        s = rlt_calloc(sizeof *s);
        s->stream = stream;
        s->is_open = true;
        s->timer.fire = stream_timer_fire;
        rlt_map_put(&r->streams, mt_map_key(stream), s);
        rlt_timer_set(r, &s->timer, r->now + MT_RLT_HELLO_MS * RLT_MS);
        return;
    }
    s->is_open = true;
    s->peer->dialing = 0;
    stream_offer(r, s);
}

/* The stream that carried the link is gone: another one may be there, else the node is suspect and is dialled. */
static void peer_without_stream(struct rlt *r, struct rlt_peer *p)
{
    p->stream = 0;
    MT_MAP_EACH(&r->streams, entry) {
        struct rlt_stream *s = entry->value.ptr;
        if (s->peer == p && s->is_open) {
            stream_offer(r, s);
            return;
        }
    }
    if (p->has_link)
        peer_dial(r, p);
}

static void stream_closed(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_stream *s = stream_find(r, e->stream);
    struct rlt_peer   *p = s ? s->peer : NULL;
    if (!s)
        return;
    if (p && p->dialing == s->stream)
        p->dialing = 0;
    bool was_heard = s->heard_at;
    stream_forget(r, s);
    if (!p)
        return;
    if (e->refused && p->has_link) {
        rlt_peer_lost(r, p, "nobody listens at its address any more");
    } else if (p->stream == e->stream) {
        mt_log(MT_LOG_INFO, "peer_suspect", "node=%u why=\"its connection closed\"", p->node);
        if (was_heard)
            p->dialed_at = 0; /* that dial is not the one to wait after */
        peer_without_stream(r, p);
    }
}

/* ---- hearing --------------------------------------------------------------------------------------------------------- */

static void records_in(struct rlt *r, struct rlt_peer *p, const Manta__V1__Frame *f)
{
    uint64_t copy[LANE_RECORD_MAX / 8];
    uint32_t node = p->node;
    for (size_t at = 0; at < f->records.len;) {
        struct lane_record record;
        memcpy(&record, f->records.data + at, sizeof record);
        memcpy(copy, f->records.data + at + LANE_RECORD_SIZE, record.length - LANE_RECORD_SIZE);
        const uint8_t *payload = (const uint8_t *)copy;
        at += lane_record_padded(record.length);
        if (record.kind >= PEER_FILE_WANT && record.kind <= PEER_JOB_END)
            rlt_program_record(r, p, &record, payload);
        else if (record.kind == PEER_MESSAGE || record.kind == PEER_BOUNCE)
            rlt_message_record(r, p, &record, payload);
        else if (record.kind == PEER_OBJECT_DEAD || record.kind == PEER_OWNER_GONE)
            rlt_object_record(r, p, &record, payload);
        else if (record.kind >= PEER_MONITOR && record.kind <= PEER_DEATH)
            rlt_monitor_record(r, p, &record, payload);
        else
            rlt_remote_record(r, p, &record, payload);
        if (peer_find(r, node) != p || !p->has_link)
            return; /* one of them ended it */
    }
}

static void frame_in(struct rlt *r, struct rlt_peer *p, const Manta__V1__Frame *f)
{
    struct lane_record first;
    memcpy(&first, f->records.data, sizeof first);
    if (first.kind >= LANE_CTL) {
        records_in(r, p, f);
        return;
    }
    struct rlt_action *a = rlt_act(r->out, RLT_A_SW_FRAME);
    a->node = p->node;
    a->bytes = rlt_keep(r->out, f->records.data, f->records.len);
    a->size = f->records.len;
}

/* Who says so; NULL: not to be listened to. */
static struct rlt_peer *speaker(struct rlt *r, struct rlt_stream *s, const Manta__V1__Frame *f)
{
    const struct rlt_node *n = rlt_node_find(r, f->from_node);
    struct rlt_peer       *p = peer_find(r, f->from_node);
    bool                   is_old = (n && f->from_epoch < n->epoch + (n->state == 3)) || (p && f->from_epoch < p->epoch);
    bool                   is_ours = !f->to_node || f->to_node == r->node;
    if (!is_ours || !f->from_node || f->from_node == r->node || !f->link || is_old || (s->peer && s->peer->node != f->from_node)) {
        r->stats.fenced += is_old;
        return NULL;
    }
    p = peer_of(r, f->from_node, f->from_epoch);
    if (f->from_epoch > p->epoch) {
        if (p->has_link)
            rlt_peer_lost(r, p, "its raylet was restarted");
        p->epoch = f->from_epoch;
        p->is_given_up = false;
    }
    return p;
}

static void ack_later(struct rlt *r, struct rlt_peer *p)
{
    uint64_t at = r->now + MT_RLT_PEER_ACK_MS * RLT_MS;
    if (!link_owes_ack(&p->link))
        return;
    if (p->link.taken_bytes >= LINK_ACK_BYTES && p->stream)
        frame_send(r, p, p->stream, NULL);
    else if (!mt_heap_holds(&p->timer.node) || p->timer.node.key > at)
        rlt_timer_set(r, &p->timer, at);
}

/* The other end has begun a new link: it has forgotten all that was bound to the former one. */
static void link_superseded(struct rlt *r, struct rlt_peer *p, uint64_t number)
{
    rlt_peer_lost(r, p, "it had given this node up");
    link_begin(r, p, number);
}

static void frame_heard(struct rlt *r, const struct rlt_event *e)
{
    struct rlt_stream *s = stream_find(r, e->stream);
    struct rlt_peer   *p = s ? speaker(r, s, e->frame) : NULL;
    bool               is_reset;
    s = stream_find(r, e->stream); /* an old link of the speaker may just have ended, and its streams with it */
    if (!p || !s) {
        if (s)
            stream_drop(r, s);
        return;
    }
    if (!p->has_link)
        link_begin(r, p, e->frame->link > p->last_number ? e->frame->link : 0);
    if (link_would_reset(&p->link, e->frame) && p->link.is_agreed) {
        s->peer = NULL; /* this stream is of the new link */
        p->stream = p->stream == s->stream ? 0 : p->stream;
        link_superseded(r, p, e->frame->link);
    }
    bool is_first = !s->peer;
    s->peer = p;
    rlt_timer_clear(r, &s->timer);
    enum link_verdict verdict = link_take(&p->link, e->frame, r->now, &is_reset);
    if (verdict == LINK_BROKEN) {
        bool carried = p->stream == s->stream;
        stream_drop(r, s);
        if (carried)
            peer_without_stream(r, p);
        return;
    }
    if (is_first || !p->stream)
        stream_offer(r, s);
    if (verdict == LINK_STALE) {
        frame_send(r, p, s->stream, NULL); /* it learns our number from that */
        return;
    }
    p->heard_at = s->heard_at = r->now;
    p->is_given_up = false;
    if (verdict == LINK_NEW)
        frame_in(r, p, e->frame);
    if (p->has_link) {
        peer_pump(r, p);
        ack_later(r, p);
    }
}

void rlt_peer_event(struct rlt *r, const struct rlt_event *e)
{
    if (e->kind == RLT_EV_PEER_OPEN)
        stream_opened(r, e->stream);
    else if (e->kind == RLT_EV_PEER_CLOSED)
        stream_closed(r, e);
    else if (e->kind == RLT_EV_PEER_DOUBT)
        rlt_peer_meet(r, e->node);
    else
        frame_heard(r, e);
}

/* ---- looking after them ------------------------------------------------------------------------------------------------ */

/* A suspect node is dialled again and again, and when it goes on all of those connections open. The one that carries the
 * link is kept as soon as something came by it; of the others each end closes those that it has dialled itself. */
static void close_spares(struct rlt *r, struct rlt_peer *p)
{
    const struct rlt_stream *carries = p->stream ? stream_find(r, p->stream) : NULL;
    if (!carries || !carries->heard_at || r->now - carries->heard_at > 2 * MT_RLT_PEER_BEAT_MS * RLT_MS)
        return;
    MT_MAP_EACH(&r->streams, entry) {
        struct rlt_stream *s = entry->value.ptr;
        if (s->peer == p && s->is_ours && s != carries)
            stream_drop(r, s);
    }
}

static void peer_timer_fire(struct rlt *r, struct rlt_timer *t)
{
    struct rlt_peer *p = mt_container_of(t, struct rlt_peer, timer);
    uint64_t         silent = r->now - p->heard_at;
    if (!p->has_link) {
        rlt_peer_meet(r, p->node);
        return;
    }
    if (silent >= MT_NODE_DEAD_MS * RLT_MS) {
        rlt_peer_lost(r, p, "it has been silent for 10 s");
        return;
    }
    if (!p->stream || silent >= MT_NODE_SUSPECT_MS * RLT_MS)
        peer_dial(r, p);
    else
        close_spares(r, p);
    if (p->link.flight_bytes && r->now - p->link.progress_at >= MT_RLT_PEER_RESEND_MS * RLT_MS && p->stream) {
        r->stats.replayed_frames += link_rewind(&p->link, r->now);
        peer_pump(r, p);
    }
    if (p->stream && (link_owes_ack(&p->link) || r->now - p->said_at >= MT_RLT_PEER_BEAT_MS * RLT_MS))
        frame_send(r, p, p->stream, NULL);
    rlt_timer_set(r, t, r->now + MT_RLT_PEER_TICK_MS * RLT_MS);
}

static void bounce_unsent(struct rlt *r, const struct rlt_link *l)
{
    for (const struct link_frame *f = l->first; f; f = f->next)
        for (size_t at = 0; f->is_control && at < f->size;) {
            struct lane_record record;
            memcpy(&record, f->bytes + at, sizeof record);
            if (record.kind == PEER_MESSAGE)
                rlt_message_lost(r, &record, f->bytes + at + LANE_RECORD_SIZE);
            at += lane_record_padded(record.length);
        }
}

void rlt_peer_lost(struct rlt *r, struct rlt_peer *p, const char *why)
{
    struct rlt_link link = p->link;
    if (!p->has_link)
        return;
    mt_log(p->is_given_up ? MT_LOG_DEBUG : MT_LOG_WARN, "peer_lost", "node=%u epoch=%u why=\"%s\"", p->node, p->epoch, why);
    p->has_link = false; /* first: what ends below says nothing more to that node */
    p->last_number = link.number;
    p->is_given_up = true;
    memset(&p->link, 0, sizeof p->link);
    p->stream = p->dialing = 0;
    rlt_timer_set(r, &p->timer, r->now + MT_NODE_SUSPECT_MS * RLT_MS);
    pause_set(r, p, false);
    MT_MAP_EACH(&r->streams, entry) {
        struct rlt_stream *s = entry->value.ptr;
        if (s->peer == p)
            stream_drop(r, s);
    }
    bounce_unsent(r, &link);
    link_fini(&link);
    rlt_remote_node_lost(r, p->node, why);
    rlt_monitors_node_lost(r, p->node, why);
    rlt_program_node_lost(r, p->node);
    rlt_shunned_node_lost(r, p->node);
    rlt_env_node_lost(r, p->node);
    rlt_act(r->out, RLT_A_OWNERS_GONE)->node = p->node;
    r->is_dirty = true;
}

bool rlt_node_is_given_up(const struct rlt *r, uint32_t node)
{
    const struct rlt_peer *p = peer_find(r, node);
    return p && p->is_given_up;
}

bool rlt_peer_is_newer(const struct rlt *r, const struct rlt_node *n)
{
    const struct rlt_peer *p = peer_find(r, n->node);
    return p && p->epoch > n->epoch;
}

void rlt_peers_view(struct rlt *r, const struct rlt_node *n)
{
    struct rlt_peer *p = peer_find(r, n->node);
    if (!p)
        return;
    if (p->has_link && (n->state == 3 || n->epoch > p->epoch))
        rlt_peer_lost(r, p, n->state == 3 ? "the head has declared it dead" : "its raylet was restarted");
    if (n->epoch > p->epoch) {
        p->epoch = n->epoch;
        p->is_given_up = false;
    }
}

void rlt_peers_tell(struct rlt *r, enum peer_kind kind, const void *payload, size_t size)
{
    MT_MAP_EACH(&r->peers, entry) {
        const struct rlt_peer *p = entry->value.ptr;
        if (p->has_link)
            rlt_peer_send(r, p->node, kind, (mt_id){0, 0}, payload, size);
    }
}

void rlt_peers_lose_all(struct rlt *r, const char *why)
{
    uint32_t known = r->peers.used; /* what ends may begin links anew, behind those that are walked here */
    for (uint32_t i = 0; i < known && i < r->peers.used; i++)
        if (r->peers.entries[i].key.process)
            rlt_peer_lost(r, r->peers.entries[i].value.ptr, why);
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
