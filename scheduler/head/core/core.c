/* SPDX-License-Identifier: Apache-2.0
 *
 * core.c - the head's state machine: makes it, starts it, and gives each event to the table that it concerns.
 *
 * Owns:    every table of the head.
 * Thread:  the caller's; one at a time.
 * Always:  after a step, each change is in exactly one batch, and nothing that depends on it has left.
 */

#include "scheduler/head/core/core.h"
#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/blobs.h"
#include "scheduler/head/core/jobs/attempts.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/jobs/queue.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"
#include "scheduler/head/core/scale/scale.h"
#include "scheduler/head/core/trust/trust.h"
#include "scheduler/head/core/wants/wants.h"

mt_status head_new(const struct head_config *config, struct head **out_head)
{
    struct head *h = calloc(1, sizeof *h);
    if (!h)
        return mt_error(MT_ENOMEM, 0, "make the head");
    h->config = *config;
    h->room_bytes = UINT64_MAX;
    if (h->config.grace_ms == 0)
        h->config.grace_ms = MT_HEAD_GRACE_MS;
    if (h->config.jobs_max == 0)
        h->config.jobs_max = MT_HEAD_JOBS_ACTIVE_MAX;
    h->rng.state = config->seed;
    h->next_node = config->first_node ? config->first_node : 1;
    h->now_ms = h->start_ms = config->now_ms;
    h->blob_sweep_ms = config->now_ms;
    mt_status st = mt_recent_init(&h->gone, MT_HEAD_GONE_MAX);
    if (st.code == 0)
        st = mt_recent_init(&h->outcomes, MT_HEAD_OUTCOMES_MAX);
    if (st.code == 0)
        st = mt_recent_init(&h->groups_over, MT_HEAD_GROUPS_OVER_MAX);
    if (st.code != 0) {
        head_free(h);
        return st;
    }
    *out_head = h;
    return st;
}

static void free_names(struct head *h)
{
    while (h->names.first)
        head_names_free(h, mt_container_of(h->names.first, struct name, at));
    head_index_fini(&h->names);
    mt_map_fini(&h->name_owners);
    mt_recent_fini(&h->gone);
    mt_recent_fini(&h->outcomes);
}

static void free_jobs(struct head *h)
{
    mt_heap_fini(&h->waits); /* before its nodes, which it lets go */
    MT_MAP_EACH(&h->wait_calls, entry)
        free(entry->value.ptr);
    mt_map_fini(&h->wait_calls);
    while (h->jobs.first)
        head_jobs_free(h, mt_container_of(h->jobs.first, struct job, at));
    head_index_fini(&h->jobs);
    head_index_fini(&h->arrays);
    head_index_fini(&h->awaited);
    head_turns_fini(h);
    mt_vec_fini(&h->settles);
    while (h->blobs.first) {
        struct blob *blob = mt_container_of(h->blobs.first, struct blob, at);
        head_index_remove(&h->blobs, &blob->at);
        free(blob);
    }
    head_index_fini(&h->blobs);
}

void head_free(struct head *h)
{
    if (!h)
        return;
    head_out_fini(h);
    free_names(h);
    free_jobs(h);
    head_queries_fini(h);
    head_tickets_fini(h);
    head_tokens_fini(h);
    head_account_fini(h);
    head_groups_fini(h);
    head_scale_fini(h);
    MT_MAP_EACH(&h->streams, entry)
        free(entry->value.ptr);
    mt_map_fini(&h->streams);
    MT_MAP_EACH(&h->nodes, entry)
        head_nodes_free(entry->value.ptr);
    mt_map_fini(&h->nodes);
    mt_vec_fini(&h->dead);
    mt_vec_fini(&h->wanting);
    head_view_fini(h);
    for (size_t i = 0; i < h->kinds.count; i++)
        free(h->kinds.data[i]);
    mt_vec_fini(&h->kinds);
    free(h);
}

static int by_order(const void *a, const void *b)
{
    const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;
    return (x->order > y->order) - (x->order < y->order);
}

/* The store gives jobs back by id; they are kept in order of submission. */
static mt_status sort_jobs(struct head *h)
{
    if (h->jobs.count == 0)
        return mt_ok();
    size_t       count = 0;
    struct job **all = calloc(h->jobs.count, sizeof(struct job *));
    if (!all)
        return mt_error(MT_ENOMEM, 0, "sort jobs");
    while (h->jobs.first) {
        all[count] = mt_container_of(h->jobs.first, struct job, at);
        head_index_remove(&h->jobs, &all[count]->at);
        count++;
    }
    qsort(all, count, sizeof(struct job *), by_order);
    for (size_t i = 0; i < count; i++)
        HEAD_TRY(h, head_index_add(&h->jobs, &all[i]->at, all[i]->spec->id)); /* has room: it held them before */
    free(all);
    return h->broken;
}

/* What looks at all nodes is done in every step of a small cluster. Each node causes steps, so in a large one it is done less
 * often: else it would cost nodes times nodes. */
static uint64_t walk_due_ms(const struct head *h)
{
    return h->walked_ms + h->nodes_living / MT_HEAD_WALK_NODES;
}

/* The scaler is looked at where all nodes are, and not before they had time to register. */
static uint64_t scale_due_ms(const struct head *h)
{
    uint64_t due = h->scale.actions.next_ms, walk = walk_due_ms(h), grace = h->start_ms + h->config.grace_ms;
    due = due > walk ? due : walk;
    return due > grace ? due : grace;
}

static void plan_next(struct head *h, struct head_actions *out)
{
    uint64_t      next = h->now_ms + MT_HEAD_TICK_MS;
    uint64_t      view = head_view_due_ms(h);
    mt_heap_node *wait = mt_heap_first(&h->waits);
    if (view < next)
        next = view;
    if (h->is_walk_owed && walk_due_ms(h) < next)
        next = walk_due_ms(h);
    if (wait && wait->key < next)
        next = wait->key;
    if (h->open_groups.count && h->groups_due_ms < next)
        next = h->groups_due_ms;
    if (h->scale.core && scale_due_ms(h) < next)
        next = scale_due_ms(h);
    out->next_ms = next > h->now_ms ? next : h->now_ms;
}

mt_status head_start(struct head *h, uint64_t now_ms, struct head_actions *out)
{
    MT_ASSERT(!h->is_started);
    head_out_begin(h, out);
    h->is_started = true;
    h->now_ms = h->start_ms = now_ms;
    h->epoch = h->epoch + 1 > h->config.epoch_min ? h->epoch + 1 : h->config.epoch_min;
    MT_MAP_EACH(&h->nodes, entry)
        ((struct node *)entry->value.ptr)->heard_ms = now_ms; /* each has MT_NODE_DEAD_MS to come back */
    MT_TRY(sort_jobs(h));
    head_record_meta(h);
    head_attempts_loaded(h);
    head_queue_settle(h);
    head_scale_started(h);
    head_revoked_tell(h);
    head_tokens_tell(h);
    plan_next(h, out);
    head_out_end(h);
    return h->broken;
}

static void stored(struct head *h, uint64_t token, mt_status st)
{
    if (st.code == 0) {
        head_out_release(h, token);
        return;
    }
    mt_log_status(MT_LOG_ERROR, "store_failed", st);
    h->is_ending = true;
    head_out_exit(h, st, false);
}

/* Who found no room is tried again when there is more of it. What else it waits for changes in many ways (a reservation, a time, a
 * bound of its user), and nobody has to tell of each. */
static void look_at_all_that_waits(struct head *h)
{
    if (h->now_ms - h->looked_ms >= MT_HEAD_LOOK_MS) {
        h->looked_ms = h->now_ms;
        h->is_capacity_changed = true;
    }
    h->count.looked += h->is_capacity_changed;
}

static void tick(struct head *h)
{
    head_queue_settle(h);
    h->is_walk_owed = h->now_ms < walk_due_ms(h);
    if (!h->is_walk_owed) {
        h->walked_ms = h->now_ms;
        look_at_all_that_waits(h);
        head_attached_tick(h);
        head_attempts_round(h);
        head_queue_settle(h); /* what could never start has ended */
        head_bundles_round(h);
        head_wants_round(h);
        head_scale_round(h);
        head_wants_wishes_tell(h);
    }
    head_jobs_tick_waits(h);
    head_queries_tick(h);
    head_revoked_tick(h);
    head_tokens_tick(h);
    head_view_tick(h);
    head_blobs_tick(h);
    head_attached_heads_tick(h);
    head_jobs_prune(h);
}

static void take_event(struct head *h, const struct head_event *event)
{
    switch (event->kind) {
    case HEAD_EV_TICK: break;
    case HEAD_EV_STREAM_OPENED: head_nodes_opened(h, event->stream.number, &event->stream.peer, &event->stream.beats); break;
    case HEAD_EV_STREAM_MESSAGE: head_attached_message(h, event->message.stream, event->message.bytes, event->message.size); break;
    case HEAD_EV_BEATS: head_attached_beats(h, event->beats.items, event->beats.count); break;
    case HEAD_EV_STREAM_CLOSED: head_nodes_closed(h, event->stream.number); break;
    case HEAD_EV_STREAM_UNREAD: head_nodes_unread(h, event->stream.number, event->stream.is_unread); break;
    case HEAD_EV_CALL:
        if (event->call.method == HEAD_SCALE)
            head_scale_call(h, event);
        else if (event->call.method == HEAD_REVOKE_NODE) /* it ends a node, for all tables */
            head_attached_call(h, event);
        else
            head_calls_take(h, event);
        break;
    case HEAD_EV_PROVIDED: head_scale_provided(h, &event->provided); break;
    case HEAD_EV_CALL_GONE: head_calls_gone(h, event->call_gone.number); break;
    case HEAD_EV_ROOM:
        h->room = event->room.is;
        h->room_bytes = event->room.bytes;
        break;
    case HEAD_EV_STORED: break; /* taken first, see head_step */
    case HEAD_EV_LOG_WRITTEN: head_jobs_log_written(h, event->log_written.job, event->log_written.size); break;
    case HEAD_EV_HEADS: head_attached_heads(h, event->heads.addresses, event->heads.count); break;
    case HEAD_EV_BLOB_ADDED: head_blobs_add(h, event->blob_added.sha256, event->blob_added.size); break;
    }
}

mt_status head_step(struct head *h, const struct head_event *event, struct head_actions *out)
{
    MT_ASSERT(h->is_started);
    head_out_begin(h, out);
    uint64_t gap = event->now_ms > h->now_ms ? event->now_ms - h->now_ms : 0;
    h->now_ms += gap;
    h->wall_ms = event->wall_ms;
    if (gap > MT_HEAD_PAUSE_MS)
        head_nodes_paused(h, gap);
    if (event->kind == HEAD_EV_STORED && !h->is_ending)
        stored(h, event->stored.token, event->stored.status);
    else if (event->kind == HEAD_EV_STORED && event->stored.status.code == 0)
        head_out_release(h, event->stored.token); /* a shutdown waits for the last batches */
    if (!h->is_ending) {
        take_event(h, event);
        tick(h);
    }
    plan_next(h, out);
    head_out_end(h);
    return h->broken;
}

void head_own_member(struct head *h, uint64_t member)
{
    h->config.own_member = member;
}

uint64_t head_epoch(const struct head *h)
{
    return h->epoch;
}

const char *head_cluster(const struct head *h)
{
    return h->config.cluster;
}

const struct head_counters *head_counters(const struct head *h)
{
    return &h->count;
}
