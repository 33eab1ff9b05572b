/* SPDX-License-Identifier: Apache-2.0
 *
 * hear.c - what is heard of the other nodes, and what follows here from the end of a link.
 *
 * Owns: nothing; links/peers.c has the links and the streams. Thread: the logic loop only.
 * Always: all that was bound to a link ends in the step in which the link does, before anything else is heard from that node.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/jobs/jobs.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/links/links.h"
#include "raylet/core/links/streams.h"
#include "raylet/core/pool/pool.h"
#include "raylet/core/procs/procs.h"
#include "raylet/core/schedule/schedule.h"
#include "raylet/core/step.h"
#include "raylet/core/usage/usage.h"

#include "core/base/log.h"
#include "core/base/limits/net.h"

#include <inttypes.h>

/* ---- the end of a link ---------------------------------------------------------------------------------------------- */

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

static void peer_lost(struct rlt *r, struct rlt_peer *p, const char *why)
{
    if (!p->has_link)
        return;
    if (rlt_node_is_drained(r, p->node))
        why = "it was drained, and is gone";
    mt_log(p->is_given_up ? MT_LOG_DEBUG : MT_LOG_WARN, "peer_lost", "node=%u epoch=%u why=\"%s\"", p->node, p->epoch, why);
    struct rlt_link link = rlt_peer_unlink(r, p);
    rlt_monitors_node_lost(r, p->node, why); /* first: a message that comes back does not say why */
    bounce_unsent(r, &link);
    link_fini(&link);
    rlt_remote_node_lost(r, p->node, why);
    rlt_jobs_node_lost(r, p->node);
    rlt_shunned_node_lost(r, p->node);
    rlt_env_node_lost(r, p->node);
    rlt_act(r->out, RLT_A_OWNERS_GONE)->owners_gone.node = p->node;
    r->is_dirty = true;
}

static void peers_lose_all(struct rlt *r, const char *why)
{
    uint32_t known = r->peers.used; /* what ends may begin links anew, behind those that are walked here */
    for (uint32_t i = 0; i < known && i < r->peers.used; i++)
        if (r->peers.entries[i].key.process)
            peer_lost(r, r->peers.entries[i].value.ptr, why);
}

void rlt_rejoin(struct rlt *r, const char *why)
{
    mt_log(MT_LOG_WARN, "rejoin", "node=%u epoch=%u why=\"%s\"", r->node, r->epoch, why);
    r->stats.fenced++;
    rlt_usage_given_up(r);
    rlt_bundles_drop_all(r, why);
    rlt_submit_kill_all(r);
    peers_lose_all(r, why);
    MT_MAP_EACH(&r->conns, entry) {
        struct rlt_proc *p = entry->value.ptr;
        if (p->conn >= RLT_CONN_OURS) {
            rlt_pool_kill(r, p);
        } else if (p->state != PROC_DYING) {
            rlt_proc_gone(r, p); /* a driver cannot be killed; its connection ends, and with it all that it had here */
        }
    }
}

static void peer_view(struct rlt *r, const struct rlt_node *n)
{
    struct rlt_peer *p = rlt_peer_find(r, n->node);
    if (!p)
        return;
    if (p->has_link && (n->state == NODE_DEAD || n->epoch > p->epoch))
        peer_lost(r, p, n->state == NODE_DEAD ? "the head has declared it dead" : "its raylet was restarted");
    if (n->epoch > p->epoch) {
        p->epoch = n->epoch;
        p->is_given_up = false;
    }
}

static void forget(struct rlt *r, uint32_t node)
{
    struct rlt_peer *p = rlt_peer_find(r, node);
    if (p && p->has_link)
        peer_lost(r, p, "the head has forgotten it: it was dead for long");
    rlt_node_forget(r, node);
}

/* The head tells of all nodes anew, some in each message: what it leaves out is gone. */
static void view_begins(struct rlt *r)
{
    r->head.is_view_new = true;
    MT_MAP_EACH(&r->nodes, entry)
        ((struct rlt_node *)entry->value.ptr)->is_told = false;
}

static void view_is_whole(struct rlt *r)
{
    r->head.is_view_new = false;
    MT_MAP_EACH(&r->nodes, entry) {
        const struct rlt_node *n = entry->value.ptr;
        if (!n->is_told && n->node != r->node)
            forget(r, n->node);
    }
}

void rlt_hear_view(struct rlt *r, const Manta__V1__View *view)
{
    if (view->since && view->since != r->head.view_version) {
        mt_log(MT_LOG_ERROR, "view_gap", "have=%" PRIu64 " since=%" PRIu64, r->head.view_version, view->since);
        return; /* the head never does; its next stream tells of all */
    }
    if (!view->since)
        view_begins(r);
    r->head.view_version = view->version;
    for (size_t i = 0; i < view->n_nodes; i++) {
        const struct rlt_node *n = rlt_node_take(r, view->nodes[i]);
        if (n && n->node != r->node)
            peer_view(r, n);
    }
    for (size_t i = 0; i < view->n_gone; i++)
        if (view->gone[i] != r->node)
            forget(r, view->gone[i]);
    for (size_t i = 0; i < view->n_revoked; i++) { /* also what is known: the shell takes each once */
        struct rlt_action *a = rlt_act(r->out, RLT_A_REVOKED);
        a->revoked.id = view->revoked[i]->id;
        a->revoked.until_ms = view->revoked[i]->until_ms;
    }
    if (r->head.is_view_new && view->version == view->latest)
        view_is_whole(r);
}

void rlt_hear_free(struct rlt *r, const Manta__V1__Free *hints)
{
    for (size_t i = 0; i < hints->n_nodes; i++)
        rlt_node_hint(r, hints->nodes[i]);
}

/* ---- frames --------------------------------------------------------------------------------------------------------- */

static void program_record(struct rlt *r, struct rlt_peer *p, const struct lane_record *record, const uint8_t *payload)
{
    struct rlt_job *over = rlt_program_record(r, p, record, payload);
    if (over)
        rlt_job_end(r, over);
}

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
            program_record(r, p, &record, payload);
        else if (record.kind == PEER_MESSAGE || record.kind == PEER_BOUNCE)
            rlt_message_record(r, p, &record, payload);
        else if (record.kind == PEER_OBJECT_DEAD || record.kind == PEER_OWNER_GONE)
            rlt_object_record(r, p, &record, payload);
        else if (record.kind >= PEER_ADOPT && record.kind <= PEER_COPY)
            rlt_moved_record(r, p, &record, payload);
        else if (record.kind >= PEER_MONITOR && record.kind <= PEER_DEATH)
            rlt_monitor_record(r, p, &record, payload);
        else
            rlt_remote_record(r, p, &record, payload);
        rlt_leases_end_needy(r); /* before the frame is acknowledged: what is said of them takes that along */
        if (rlt_peer_find(r, node) != p || !p->has_link)
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
    struct rlt_a_sw_frame *a = &rlt_act(r->out, RLT_A_SW_FRAME)->sw_frame;
    a->node = p->node;
    a->bytes = rlt_keep(r->out, f->records.data, f->records.len);
    a->size = f->records.len;
}

/* Who says so; NULL: not to be listened to. */
static struct rlt_peer *speaker(struct rlt *r, struct rlt_stream *s, const Manta__V1__Frame *f)
{
    const struct rlt_node *n = rlt_node_find(r, f->from_node);
    struct rlt_peer       *p = rlt_peer_find(r, f->from_node);
    bool                   is_old = (n && f->from_epoch < n->epoch + (n->state == NODE_DEAD)) || (p && f->from_epoch < p->epoch);
    bool                   is_ours = !f->to_node || f->to_node == r->node;
    if (!is_ours || !f->from_node || f->from_node == r->node || !f->link || is_old || (s->peer && s->peer->node != f->from_node)) {
        r->stats.fenced += is_old;
        return NULL;
    }
    p = rlt_peer_of(r, f->from_node, f->from_epoch);
    if (f->from_epoch > p->epoch) {
        if (p->has_link)
            peer_lost(r, p, "its raylet was restarted");
        p->epoch = f->from_epoch;
        p->is_given_up = false;
    }
    return p;
}

/* The other end has begun a new link: it has forgotten all that was bound to the former one. */
static void link_superseded(struct rlt *r, struct rlt_peer *p, uint64_t number)
{
    peer_lost(r, p, "it had given this node up");
    rlt_link_begin(r, p, number);
}

/* A stream is closed for what came by it; the link that it carried goes on by another. */
static void stream_refused(struct rlt *r, struct rlt_stream *s)
{
    struct rlt_peer *carried = s->peer && s->peer->stream == s->stream ? s->peer : NULL;
    rlt_stream_drop(r, s);
    if (carried)
        rlt_peer_without_stream(r, carried);
}

void rlt_hear_frame(struct rlt *r, const struct rlt_ev_peer_frame *e)
{
    struct rlt_stream *s = rlt_stream_find(r, e->stream);
    struct rlt_peer   *p = s ? speaker(r, s, e->frame) : NULL;
    bool               is_reset;
    s = rlt_stream_find(r, e->stream); /* an old link of the speaker may just have ended, and its streams with it */
    if (!p || !s) {
        if (s)
            stream_refused(r, s);
        return;
    }
    if (!p->has_link)
        rlt_link_begin(r, p, e->frame->link > p->last_number ? e->frame->link : 0);
    if (link_would_reset(&p->link, e->frame) && p->link.is_agreed) {
        s->peer = NULL; /* this stream is of the new link */
        p->stream = p->stream == s->stream ? 0 : p->stream;
        link_superseded(r, p, e->frame->link);
    }
    bool is_first = !s->peer;
    s->peer = p;
    rlt_timer_clear(r, &s->timer);
    enum link_verdict verdict = link_take(&p->link, e->frame, &is_reset);
    if (verdict == LINK_BROKEN) {
        stream_refused(r, s);
        return;
    }
    if (is_first || !p->stream || rlt_stream_answers(r, s))
        rlt_stream_offer(r, s);
    if (verdict == LINK_STALE) {
        rlt_frame_send(r, p, s->stream, NULL); /* it learns our number from that */
        return;
    }
    p->heard_at = s->heard_at = r->now;
    p->is_given_up = false;
    if (verdict == LINK_NEW)
        frame_in(r, p, e->frame);
    if (p->has_link) {
        rlt_peer_pump(r, p);
        rlt_ack_later(r, p);
    }
}

/* ---- streams and time ------------------------------------------------------------------------------------------------ */

void rlt_hear_closed(struct rlt *r, const struct rlt_ev_peer_closed *e)
{
    struct rlt_stream *s = rlt_stream_find(r, e->stream);
    struct rlt_peer   *p = s ? s->peer : NULL;
    if (!s)
        return;
    if (p && p->dialing == s->stream)
        p->dialing = 0;
    bool was_heard = s->heard_at;
    rlt_stream_forget(r, s);
    if (!p)
        return;
    if (e->is_refused && p->has_link) {
        peer_lost(r, p, "nobody listens at its address any more");
    } else if (p->stream == e->stream) {
        mt_log(MT_LOG_INFO, "peer_suspect", "node=%u why=\"its connection closed\"", p->node);
        if (was_heard)
            p->dialed_at = 0; /* that dial is not the one to wait after */
        rlt_peer_without_stream(r, p);
    }
}

void rlt_hear_nothing(struct rlt *r, struct rlt_peer *p)
{
    uint64_t silent = r->now - p->heard_at;
    if (!p->has_link) {
        rlt_peer_meet(r, p->node);
        return;
    }
    if (silent >= MT_NODE_DEAD_MS * RLT_MS) {
        peer_lost(r, p, "it has been silent for 10 s");
        return;
    }
    if (!p->stream || silent >= MT_NODE_SUSPECT_MS * RLT_MS)
        rlt_peer_dial(r, p);
    else
        rlt_close_spares(r, p);
    if (p->stream && (link_owes_ack(&p->link) || r->now - p->said_at >= MT_RLT_PEER_BEAT_MS * RLT_MS))
        rlt_frame_send(r, p, p->stream, NULL);
    rlt_timer_set(r, &p->timer, r->now + MT_RLT_PEER_TICK_MS * RLT_MS);
}
