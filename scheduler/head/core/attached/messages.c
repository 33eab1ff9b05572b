/* SPDX-License-Identifier: Apache-2.0
 *
 * messages.c - what attached raylets say, each word given to the room that it concerns.
 */

#include "scheduler/head/core/account/account.h"
#include "scheduler/head/core/attached/attached.h"
#include "scheduler/head/core/calls/calls.h"
#include "scheduler/head/core/groups/groups.h"
#include "scheduler/head/core/jobs/attempts.h"
#include "scheduler/head/core/jobs/jobs.h"
#include "scheduler/head/core/names/names.h"
#include "scheduler/head/core/nodes/nodes.h"
#include "scheduler/head/core/nodes/view.h"
#include "scheduler/head/core/wants/wants.h"

#include "core/base/plant.h"

#include <inttypes.h>

/* How many processes it may still start; where none, people are told why nothing new is placed there. */
static void take_places(struct head *h, struct node *n, const Manta__V1__Report *report)
{
    bool was_full = n->place.state == POLICY_ALIVE && n->reason[0], is_full = report->workers_max && report->places == 0;
    h->is_capacity_changed |= report->places > n->places_reported || (n->place.counts_places && !report->workers_max) ||
                              (n->is_stuck && !report->is_stuck);
    n->place.counts_places = report->workers_max > 0;
    n->places_reported = report->places;
    n->is_stuck = report->is_stuck;
    n->here = report->here;
    n->tasks_here = report->tasks_here;
    if (n->place.state != POLICY_ALIVE || was_full == is_full)
        return;
    n->reason[0] = '\0';
    if (is_full)
        snprintf(n->reason, sizeof n->reason, "all %u processes that it may run for tasks and actors are in use (--max-workers)",
                 report->workers_max);
}

/* What of it differs from the last report is told to the others; who waits is looked at where there is more than before. */
static void take_free(struct head *h, struct node *n, const Manta__V1__Report *report)
{
    for (size_t i = 0; i < report->n_free; i++) {
        uint32_t kind = head_resources_kind(h, report->free[i]->name);
        for (uint32_t j = 0; j < n->place.resource_count; j++) {
            int64_t total = n->place.resources[j].total, free = report->free[i]->milli;
            free = free < 0 ? 0 : free > total ? total : free;
            if (n->place.resources[j].kind != kind || n->reported[j] == free)
                continue;
            h->is_capacity_changed |= free > n->reported[j] && !MT_PLANT(MT_PLANT_ROOM_UNSEEN);
            n->reported[j] = free;
            head_view_free_changed(h, n);
        }
    }
}

void head_attached_stands(struct head *h, struct node *n)
{
    head_nodes_expire_promises(h, n, MT_HEAD_PROMISE_MS);
}

static void take_report(struct head *h, struct stream *s, struct node *n, const Manta__V1__Report *report)
{
    if (n->has_reported && report->version <= n->report_version)
        return;
    n->has_reported = true;
    n->report_version = report->version;
    take_free(h, n, report);
    take_places(h, n, report);
    snprintf(n->drain.waits, sizeof n->drain.waits, "%s", report->waits);
    head_attached_stands(h, n);
    head_nodes_refresh_free(n);
    head_attached_heads_spoken(h, s);
    head_wants_report(h, n, report->wants, report->n_wants);
    head_wants_wishes(h, n, report->wishes, report->n_wishes);
    n->is_seen = true;
    head_bundles_report(h, n, report);
    if (n->drain.is_on)
        head_bundles_drained(h, n, report);
    if (report->n_strict || report->n_wants) /* who wants something counts on an answer: a head that is silent is away */
        head_strict_report(h, s, report);
}

static void take_message(struct head *h, struct stream *s, struct node *n, const to_head *m)
{
    switch (m->kind_case) {
    case MANTA__V1__NODE_TO_HEAD__KIND_REPORT: take_report(h, s, n, m->report); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_NAME: head_actors_name(h, s, m->name); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_GONE:
        if (m->gone->process)
            head_names_process_gone(h, m->gone->process);
        if (m->gone->job)
            head_groups_job_gone(h, m->gone->job);
        break;
    case MANTA__V1__NODE_TO_HEAD__KIND_JOB: head_attempts_state(h, s, m->job); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_LOG: head_jobs_log(h, s, s->node, m->log); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_ACTOR: head_actors_request(h, s, m->actor); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_GROUP: head_groups_request(h, s, m->group); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_BUNDLE: head_bundles_answer(h, n, m->bundle); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_USAGE: head_account_usage(h, s, n, m->usage); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_DRAIN: head_attached_drain(h, s, n, m->drain); break;
    case MANTA__V1__NODE_TO_HEAD__KIND_ANSWER: head_queries_answer(h, n, m->answer); break;
    default: break; /* of a newer raylet: not for us */
    }
}

/* The message, for the caller to free; NULL: it could not be read, or its stream has ended by now. */
static to_head *take_one(struct head *h, uint64_t number, const uint8_t *bytes, size_t size)
{
    struct stream *s = head_nodes_stream_find(h, number);
    if (!s)
        return NULL; /* ended by us a moment ago */
    to_head *m = manta__v1__node_to_head__unpack(NULL, size, bytes);
    if (!m) {
        h->count.malformed++;
        mt_log(MT_LOG_WARN, "malformed", "stream=%" PRIu64 " node=%u size=%zu", number, s->node, size);
        head_nodes_drop_stream(h, s, "sent a message that can't be read");
        return NULL;
    }
    struct node *n = s->node ? head_nodes_find(h, s->node) : NULL;
    if (m->kind_case == MANTA__V1__NODE_TO_HEAD__KIND_REGISTER) {
        head_attached_register(h, s, m->register_);
    } else if (!n) {
        h->count.malformed++;
        head_nodes_drop_stream(h, s, "spoke before it registered");
    } else {
        head_nodes_heard(h, n);
        take_message(h, s, n, m);
    }
    return m;
}

/* All that travelled together is one step, and what follows from it one batch. */
void head_attached_message(struct head *h, uint64_t number, const uint8_t *bytes, size_t size)
{
    to_head *m = take_one(h, number, bytes, size);
    for (size_t i = 0; m && i < m->n_more && !MT_PLANT(MT_PLANT_MORE_DEAF); i++)
        manta__v1__node_to_head__free_unpacked(take_one(h, number, m->more[i].data, m->more[i].len), NULL);
    manta__v1__node_to_head__free_unpacked(m, NULL);
}
