/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - what this node and the head say to each other: registration, reports, placements, names.
 *
 * Owns: struct rlt_head and the requests that wait for an answer. Thread: the logic loop only.
 * Always: everything here works without the head for any length of time: what was not answered is said again after the
 * next registration, under the same id, and a process that waits for an answer gets one after MT_RLT_ASKED_MS at the latest.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"
#include "raylet/core/leases/leases.h"
#include "raylet/core/schedule/schedule.h"
#include "raylet/core/usage/usage.h"

#include "core/base/log.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- registration ------------------------------------------------------------------------------------------------- */

static Manta__V1__JobState *state_make(struct rlt *r, const struct rlt_before_end *end)
{
    static const Manta__V1__JobState empty = MANTA__V1__JOB_STATE__INIT;
    Manta__V1__JobState             *s = rlt_keep(r->out, &empty, sizeof empty);
    s->id = rlt_keep_text(r, end->id);
    s->attempt = end->attempt;
    s->state = rlt_keep_text(r, end->word);
    s->exit_code = end->exit_code;
    s->reason = rlt_keep_text(r, end->reason);
    return s;
}

static Manta__V1__LogChunk *log_make(struct rlt *r, const struct rlt_before_end *end)
{
    static const Manta__V1__LogChunk empty = MANTA__V1__LOG_CHUNK__INIT;
    Manta__V1__LogChunk             *c = rlt_keep(r->out, &empty, sizeof empty);
    c->id = rlt_keep_text(r, end->id);
    c->attempt = end->attempt;
    c->offset = end->log_offset;
    c->text.data = end->log; /* the shell's, until RLT_A_READY */
    c->text.len = end->log_size;
    return c;
}

static Manta__V1__Forerunner *forerunner_make(struct rlt *r, const struct rlt_before *before)
{
    static const Manta__V1__Forerunner empty = MANTA__V1__FORERUNNER__INIT;
    Manta__V1__Forerunner             *f = rlt_keep(r->out, &empty, sizeof empty);
    f->boot = before->boot;
    f->ends = rlt_keep(r->out, NULL, before->count * sizeof(void *));
    f->logs = rlt_keep(r->out, NULL, before->count * sizeof(void *));
    for (uint32_t i = 0; i < before->count; i++) {
        f->ends[f->n_ends++] = state_make(r, &before->ends[i]);
        if (before->ends[i].log_size)
            f->logs[f->n_logs++] = log_make(r, &before->ends[i]);
    }
    return f;
}

static void register_send(struct rlt *r)
{
    static const Manta__V1__Register empty = MANTA__V1__REGISTER__INIT;
    Manta__V1__NodeToHead           *m = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_REGISTER);
    Manta__V1__Register             *g = rlt_keep(r->out, &empty, sizeof empty);
    g->version_min = mt_release.wire.min;
    g->version_max = mt_release.wire.max;
    g->boot = r->config.boot;
    g->node = r->node;
    g->epoch = r->epoch;
    g->name = rlt_keep_text(r, r->config.node_name);
    g->address = rlt_keep_text(r, r->config.address);
    g->data_address = rlt_keep_text(r, r->config.data_address);
    g->cluster = rlt_keep_text(r, r->head.cluster);
    g->labels = rlt_keep_text(r, r->config.labels);
    g->head_epoch = r->head.epoch;
    g->n_total = r->ledger.count;
    g->total = rlt_resources_make(r, r->ledger.total, r->ledger.count);
    g->reads_more = true;
    if (r->config.before && r->config.before->boot && !r->head.is_ready)
        g->before = forerunner_make(r, r->config.before);
    m->register_ = g;
    rlt_head_send(r, m);
}

bool rlt_head_gave_up(const struct rlt *r, const Manta__V1__HeadToNode *m)
{
    const Manta__V1__Registered *g = m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED ? m->registered : NULL;
    return g && !g->code && g->head_epoch >= r->head.epoch && r->node && r->node == g->node && r->epoch != g->epoch;
}

static void registered(struct rlt *r, const Manta__V1__Registered *g)
{
    if (g->head_epoch < r->head.epoch) {
        mt_log(MT_LOG_WARN, "old_head", "epoch=%llu seen=%llu: another head has taken the lead", (unsigned long long)g->head_epoch,
               (unsigned long long)r->head.epoch);
        return; /* what it says on this stream is not heard: nothing is registered */
    }
    r->head.epoch = g->head_epoch;
    if (g->code) {
        mt_log(MT_LOG_ERROR, "register_refused", "code=%s text=\"%.300s\"", mt_code_name(g->code), g->text);
        if (g->code == MT_EAGAIN || (g->code == MT_EVERSION && r->head.is_ready))
            return; /* the head ends the stream; the next one asks again. One of another release does not end what runs here */
        char why[CTL_TEXT_SIZE];
        snprintf(why, sizeof why, "the head refused this node: %.300s", g->text);
        rlt_leave(r, r->head.is_ready ? MT_OK : (enum mt_code)g->code, why); /* one that was ready had its time */
        return;
    }
    if (r->node && r->node != g->node) {
        rlt_shut_down(r, "the head knows this node under another number");
        return;
    }
    r->node = g->node;
    r->epoch = g->epoch;
    snprintf(r->head.cluster, sizeof r->head.cluster, "%s", g->cluster);
    r->head.is_registered = true;
    r->head.report_version = 0;
    r->head.reported_hash = 0;
    rlt_beats_registered(r, g->beats != NULL);
    if (!r->head.is_ready) {
        r->head.is_ready = true;
        r->config.before = NULL;
        rlt_act(r->out, RLT_A_READY);
    }
    for (struct rlt_list *link = r->head.all_asked.next; link != &r->head.all_asked; link = link->next) {
        rlt_asked_send(r, mt_container_of(link, struct rlt_asked, in_all));
        rlt_detach_go(r, mt_container_of(link, struct rlt_asked, in_all));
    }
    for (uint32_t i = 0; i < r->head.gone_count && i < 64; i++)
        rlt_gone_send(r, r->head.gone[i], 0);
    for (uint32_t i = 0; i < r->head.jobs_gone_count && i < MT_RLT_JOBS_GONE; i++)
        rlt_gone_send(r, 0, r->head.jobs_gone[i]);
    rlt_usage_registered(r);
    rlt_submit_registered(r);
    rlt_drain_registered(r);
}

/* ---- the head's words -------------------------------------------------------------------------------------------------- */

static struct rlt_class *class_of(const struct rlt *r, uint64_t owner, uint32_t class_id, uint64_t version)
{
    struct rlt_proc  *p = rlt_proc_of_process(r, owner);
    struct rlt_class *c = p ? rlt_class_find(p, class_id) : NULL;
    return c && c->version == version && rlt_class_lacks(c) ? c : NULL;
}

static void placed(struct rlt *r, const Manta__V1__Place *place)
{
    for (size_t i = 0; i < place->n_nodes; i++) {
        struct rlt_class *c = class_of(r, place->owner, place->class_id, place->version);
        if (!c)
            return; /* an answer to a level that is no more */
        if (place->nodes[i] == r->node) {
            c->placed_here = c->placed_here < rlt_class_lacks(c) ? c->placed_here + 1 : rlt_class_lacks(c);
            r->is_dirty = true;
        } else {
            rlt_remote_request(r, c, place->nodes[i]);
        }
    }
}

static void unschedulable(struct rlt *r, const Manta__V1__Unschedulable *u)
{
    struct rlt_class *c = class_of(r, u->owner, u->class_id, u->version);
    if (c && c->job && c->job->shunned.count)
        rlt_class_unschedulable(r, c, c->job->shun_code, c->job->shun_text); /* what others lack says less than why it needs them */
    else if (c)
        rlt_class_unschedulable(r, c, u->code ? u->code : MT_EUNSCHEDULABLE, u->text);
}

static void pressed(struct rlt *r, const Manta__V1__Press *press)
{
    struct ctl_class def = {0};
    for (size_t i = 0; i < press->n_resources && i < CTL_RESOURCES; i++) {
        snprintf(def.resources[i].name, sizeof def.resources[i].name, "%s", press->resources[i]->name);
        def.resources[def.resource_count++].milli = press->resources[i]->milli;
    }
    rlt_guest_comes(r, &def, 0, press->keep_ms ? press->keep_ms : MT_RLT_PRESS_MS);
}

void rlt_head_message(struct rlt *r, const Manta__V1__HeadToNode *m)
{
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED) {
        registered(r, m->registered);
        return;
    }
    if (!r->head.is_registered)
        return;
    switch (m->kind_case) {
    case MANTA__V1__HEAD_TO_NODE__KIND_PLACE: placed(r, m->place); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_EXTEND:
        rlt_alone_answered(r, m->extend->version);
        rlt_strict_extend(r, m->extend);
        break;
    case MANTA__V1__HEAD_TO_NODE__KIND_PRESS: pressed(r, m->press); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_UNSCHEDULABLE: unschedulable(r, m->unschedulable); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_GROUP: rlt_group_answered(r, m->group); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_BUNDLE: rlt_bundle_order(r, m->bundle); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_DRAIN: rlt_drain_order(r, m->drain); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_USAGE: rlt_usage_acked(r, m->usage); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_WISH: rlt_wish_news(r, m->wish); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_NAME: rlt_name_answered(r, m->name); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_START_JOB:
    case MANTA__V1__HEAD_TO_NODE__KIND_STOP_JOB:
    case MANTA__V1__HEAD_TO_NODE__KIND_SIGNAL_JOB:
    case MANTA__V1__HEAD_TO_NODE__KIND_JOB_ACK:
    case MANTA__V1__HEAD_TO_NODE__KIND_LOG_ACK: rlt_submit_order(r, m); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_SHUTDOWN: rlt_shut_down(r, m->shutdown->reason); break;
    default: break; /* of a newer head: not for us */
    }
}

void rlt_head_up(struct rlt *r)
{
    r->head.is_up = true;
    r->head.is_registered = false;
    register_send(r);
}

void rlt_head_down(struct rlt *r)
{
    r->head.is_up = r->head.is_registered = false;
    r->head.unanswered = 0;
    rlt_beats_down(r);
    rlt_timer_clear(r, &r->alone); /* sooner than for one that is silent */
    r->is_dirty = true;
    rlt_timer_clear(r, &r->head.report);
}
