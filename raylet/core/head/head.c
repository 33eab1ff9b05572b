/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - what this node and the head say to each other: registration, reports, placements, names.
 *
 * Owns: struct rlt_head and the requests that wait for an answer. Thread: the logic loop only.
 * Always: everything here works without the head for any length of time: what was not answered is said again after the
 * next registration, under the same id, and a process that waits for an answer gets one after MT_RLT_ASKED_MS at the latest.
 */
#include "raylet/core/state.h"

#include "core/base/log.h"

#include <stdio.h>
#include <stdlib.h>

static void report_fire(struct rlt *r, struct rlt_timer *t)
{
    (void)r;
    (void)t; /* rlt_head_changed, at the end of the step, does it */
}

static void patience_fire(struct rlt *r, struct rlt_timer *t);

void rlt_head_init(struct rlt *r)
{
    rlt_list_init(&r->head.all_asked);
    r->head.report.fire = report_fire;
    r->head.patience.fire = patience_fire;
}

static void asked_free(struct rlt *r, struct rlt_asked *asked)
{
    mt_map_remove(&r->head.asked, asked->id);
    rlt_list_out(&asked->in_all);
    if (asked->actor)
        manta__v1__actor_request__free_unpacked(asked->actor, NULL);
    if (asked->group)
        manta__v1__group_request__free_unpacked(asked->group, NULL);
    if (asked->values >= 0)
        rlt_act(r->out, RLT_A_CLOSE_FD)->fd = asked->values;
    free(asked);
}

void rlt_head_fini(struct rlt *r)
{
    RLT_LIST_EACH(&r->head.all_asked, link)
        asked_free(r, mt_container_of(link, struct rlt_asked, in_all));
    mt_map_fini(&r->head.asked);
}

void rlt_head_send(struct rlt *r, Manta__V1__NodeToHead *message)
{
    if (r->head.is_up)
        rlt_act(r->out, RLT_A_HEAD_SEND)->to_head = message;
}

static Manta__V1__NodeToHead *message_new(struct rlt *r, int kind)
{
    static const Manta__V1__NodeToHead empty = MANTA__V1__NODE_TO_HEAD__INIT;
    Manta__V1__NodeToHead             *m = rlt_keep(r->out, &empty, sizeof empty);
    m->kind_case = (Manta__V1__NodeToHead__KindCase)kind;
    return m;
}

static char *keep_text(struct rlt *r, const char *text)
{
    return rlt_keep(r->out, text, strlen(text) + 1);
}

Manta__V1__Resource **rlt_resources_make(struct rlt *r, const struct ctl_resource *from, uint32_t count)
{
    static const Manta__V1__Resource empty = MANTA__V1__RESOURCE__INIT;
    Manta__V1__Resource            **out = rlt_keep(r->out, NULL, (count + 1) * sizeof *out);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = rlt_keep(r->out, &empty, sizeof empty);
        out[i]->name = keep_text(r, from[i].name);
        out[i]->milli = from[i].milli;
    }
    return out;
}

/* ---- registration ------------------------------------------------------------------------------------------------- */

static void register_send(struct rlt *r)
{
    static const Manta__V1__Register empty = MANTA__V1__REGISTER__INIT;
    Manta__V1__NodeToHead           *m = message_new(r, MANTA__V1__NODE_TO_HEAD__KIND_REGISTER);
    Manta__V1__Register             *g = rlt_keep(r->out, &empty, sizeof empty);
    g->version_min = g->version_max = 1;
    g->boot = r->config.boot;
    g->node = r->node;
    g->epoch = r->epoch;
    g->name = keep_text(r, r->config.node_name);
    g->address = keep_text(r, r->config.address);
    g->data_address = keep_text(r, r->config.data_address);
    g->cluster = keep_text(r, r->head.cluster);
    g->labels = keep_text(r, r->config.labels);
    g->n_total = r->ledger.count;
    g->total = rlt_resources_make(r, r->ledger.total, r->ledger.count);
    m->register_ = g;
    rlt_head_send(r, m);
}

void rlt_rejoin(struct rlt *r, const char *why)
{
    mt_log(MT_LOG_WARN, "rejoin", "node=%u epoch=%u why=\"%s\"", r->node, r->epoch, why);
    r->stats.fenced++;
    rlt_bundles_drop_all(r, why);
    rlt_submit_kill_all(r);
    rlt_peers_lose_all(r, why);
    MT_MAP_EACH(&r->conns, entry) {
        struct rlt_proc *p = entry->value.ptr;
        if (p->conn >= RLT_CONN_OURS) {
            rlt_act(r->out, RLT_A_KILL)->conn = p->conn;
        } else if (p->state != PROC_DYING) {
            rlt_proc_gone(r, p); /* a driver cannot be killed; its connection ends, and with it all that it had here */
        }
    }
}

static void ask_send(struct rlt *r, const struct rlt_asked *asked);
static void gone_send(struct rlt *r, uint64_t process, uint64_t job);

static void registered(struct rlt *r, const Manta__V1__Registered *g)
{
    if (g->code) {
        mt_log(MT_LOG_ERROR, "register_refused", "code=%s text=\"%.300s\"", mt_code_name(g->code), g->text);
        if (g->code == MT_EAGAIN)
            return; /* the head ends the stream; the next one asks again */
        char why[CTL_TEXT_SIZE];
        snprintf(why, sizeof why, "the head refused this node: %.300s", g->text);
        rlt_shut_down(r, why);
        return;
    }
    if (r->node && r->node != g->node) {
        rlt_shut_down(r, "the head knows this node under another number");
        return;
    }
    if (r->node && r->epoch != g->epoch)
        rlt_rejoin(r, "the head has given this node's work up");
    r->node = g->node;
    r->epoch = g->epoch;
    snprintf(r->head.cluster, sizeof r->head.cluster, "%s", g->cluster);
    r->head.is_registered = true;
    r->head.report_version = 0;
    r->head.reported_hash = 0;
    if (!r->head.is_ready) {
        r->head.is_ready = true;
        rlt_act(r->out, RLT_A_READY);
    }
    for (struct rlt_list *link = r->head.all_asked.next; link != &r->head.all_asked; link = link->next) {
        ask_send(r, mt_container_of(link, struct rlt_asked, in_all));
        rlt_detach_go(r, mt_container_of(link, struct rlt_asked, in_all));
    }
    for (uint32_t i = 0; i < r->head.gone_count && i < 64; i++)
        gone_send(r, r->head.gone[i], 0);
    for (uint32_t i = 0; i < r->head.jobs_gone_count && i < MT_RLT_JOBS_GONE; i++)
        gone_send(r, 0, r->head.jobs_gone[i]);
    rlt_submit_registered(r);
}

/* ---- reports ------------------------------------------------------------------------------------------------------- */

static void hash_in(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * 0x9e3779b97f4a7c15u;
    *hash ^= *hash >> 29;
}

static uint32_t places_left(const struct rlt *r)
{
    int64_t places = rlt_pool_places(r);
    return places < 0 ? 0 : places < MT_RLT_PLACES_SAID ? (uint32_t)places : MT_RLT_PLACES_SAID;
}

static uint64_t report_hash(const struct rlt *r, uint32_t *out_wants)
{
    uint64_t hash = 1;
    *out_wants = 0;
    for (uint32_t i = 0; i < r->ledger.count; i++)
        hash_in(&hash, (uint64_t)r->ledger.free[i]);
    hash_in(&hash, places_left(r) << 1 | rlt_is_stuck(r));
    hash_in(&hash, rlt_strict_hash(r));
    hash_in(&hash, r->bundle_changes);
    hash_in(&hash, r->ledger.changes); /* taken and given back since: the head lets go of what it had reserved */
    for (struct rlt_list *link = r->waiting.next; link != &r->waiting; link = link->next) {
        const struct rlt_class *c = mt_container_of(link, struct rlt_class, in_waiting);
        hash_in(&hash, c->owner->process);
        hash_in(&hash, c->def.class_id);
        hash_in(&hash, c->version << 20 | rlt_class_lacks(c));
        hash_in(&hash, c->held > 0);
        hash_in(&hash, c->ended_elsewhere);
        ++*out_wants;
    }
    return hash;
}

static Manta__V1__Want *want_make(struct rlt *r, const struct rlt_class *c)
{
    static const Manta__V1__Want empty = MANTA__V1__WANT__INIT;
    Manta__V1__Want             *w = rlt_keep(r->out, &empty, sizeof empty);
    w->owner = c->owner->process;
    w->class_id = c->def.class_id;
    w->version = c->version;
    w->wanted = rlt_class_lacks(c);
    w->held = c->held;
    w->policy = c->def.policy;
    w->group_process = c->def.group.process;
    w->group_counter = c->def.group.counter_index;
    w->bundle = c->def.bundle;
    w->node = c->def.node;
    w->labels = keep_text(r, c->def.labels);
    w->job = c->owner->job->job;
    w->n_avoid = c->job ? c->job->shunned.count : 0;
    w->avoid = w->n_avoid ? rlt_keep(r->out, c->job->shunned.data, w->n_avoid * sizeof *w->avoid) : NULL;
    w->n_resources = c->def.resource_count;
    w->resources = rlt_resources_make(r, c->def.resources, c->def.resource_count);
    return w;
}

static void report_send(struct rlt *r, uint32_t want_count)
{
    static const Manta__V1__Report empty = MANTA__V1__REPORT__INIT;
    Manta__V1__NodeToHead         *m = message_new(r, MANTA__V1__NODE_TO_HEAD__KIND_REPORT);
    Manta__V1__Report             *report = rlt_keep(r->out, &empty, sizeof empty);
    struct ctl_resource            free_now[MT_RLT_RESOURCES_MAX];
    memcpy(free_now, r->ledger.total, sizeof free_now);
    for (uint32_t i = 0; i < r->ledger.count; i++)
        free_now[i].milli = r->ledger.free[i];
    report->version = ++r->head.report_version;
    report->n_free = r->ledger.count;
    report->free = rlt_resources_make(r, free_now, r->ledger.count);
    report->wants = rlt_keep(r->out, NULL, (want_count + 1) * sizeof *report->wants);
    for (struct rlt_list *link = r->waiting.next; link != &r->waiting; link = link->next)
        report->wants[report->n_wants++] = want_make(r, mt_container_of(link, struct rlt_class, in_waiting));
    report->workers_max = r->config.workers_max;
    report->places = places_left(r);
    report->is_stuck = rlt_is_stuck(r);
    rlt_strict_report(r, report);
    rlt_bundles_report(r, report);
    rlt_alone_reported(r, report->n_wants ? report->version : 0);
    m->report = report;
    rlt_head_send(r, m);
}

/* A change is told soon, and once more when it stands: what the head has promised of this node it lets go with the first
 * report that is MT_HEAD_PROMISE_MS younger, and what came and went in between would wait for the next sign of life. */
static uint64_t report_gap_ms(const struct rlt_head *h, uint64_t hash)
{
    if (hash != h->reported_hash)
        return MT_RLT_REPORT_MS;
    return h->is_change_reported ? MT_HEAD_PROMISE_MS + MT_RLT_REPORT_MS : MT_RLT_BEAT_MS;
}

void rlt_head_changed(struct rlt *r)
{
    struct rlt_head *h = &r->head;
    uint32_t         wants;
    if (!h->is_registered || r->is_stopping)
        return;
    uint64_t hash = report_hash(r, &wants);
    uint64_t due = h->reported_at + report_gap_ms(h, hash) * RLT_MS;
    if (h->report_version && due > r->now) {
        if (!mt_heap_holds(&h->report.node) || h->report.node.key != due)
            rlt_timer_set(r, &h->report, due);
        return;
    }
    report_send(r, wants);
    h->is_change_reported = hash != h->reported_hash;
    h->reported_at = r->now;
    h->reported_hash = hash;
    rlt_timer_set(r, &h->report, r->now + report_gap_ms(h, hash) * RLT_MS);
}

/* ---- names ----------------------------------------------------------------------------------------------------------- */

static void ask_send(struct rlt *r, const struct rlt_asked *asked)
{
    if (asked->is_held)
        return;
    if (asked->actor) {
        Manta__V1__NodeToHead *request = message_new(r, MANTA__V1__NODE_TO_HEAD__KIND_ACTOR);
        request->actor = asked->actor;
        rlt_head_send(r, request);
        return;
    }
    if (asked->group) {
        Manta__V1__NodeToHead *request = message_new(r, MANTA__V1__NODE_TO_HEAD__KIND_GROUP);
        request->group = asked->group;
        rlt_head_send(r, request);
        return;
    }
    static const Manta__V1__NameRequest empty = MANTA__V1__NAME_REQUEST__INIT;
    Manta__V1__NodeToHead              *m = message_new(r, MANTA__V1__NODE_TO_HEAD__KIND_NAME);
    Manta__V1__NameRequest             *q = rlt_keep(r->out, &empty, sizeof empty);
    q->id_process = asked->id.process;
    q->id_counter = asked->id.counter_index;
    q->op = asked->op;
    q->space = keep_text(r, asked->name.space);
    q->name = keep_text(r, asked->name.name);
    q->type = keep_text(r, asked->name.type);
    q->actor_process = asked->name.actor.process;
    q->actor_counter = asked->name.actor.counter_index;
    q->owner = asked->name.owner;
    q->owner_node = asked->name.owner_node;
    m->name = q;
    rlt_head_send(r, m);
}

static void patience_arm(struct rlt *r)
{
    struct rlt_asked *oldest = rlt_list_first(&r->head.all_asked, struct rlt_asked, in_all);
    if (oldest)
        rlt_timer_set(r, &r->head.patience, oldest->since + MT_RLT_ASKED_MS * RLT_MS);
    else
        rlt_timer_clear(r, &r->head.patience);
}

static void patience_fire(struct rlt *r, struct rlt_timer *t)
{
    (void)t;
    RLT_LIST_EACH(&r->head.all_asked, link) {
        struct rlt_asked *asked = mt_container_of(link, struct rlt_asked, in_all);
        if (r->now - asked->since < MT_RLT_ASKED_MS * RLT_MS)
            break;
        if (asked->group && rlt_group_stays(r, asked)) {
            asked->since = r->now;
            rlt_list_append(&r->head.all_asked, &asked->in_all);
            continue;
        }
        if (rlt_proc_of_conn(r, asked->conn))
            rlt_down_reply(r->out, asked->conn, asked->id, MT_ETIMEDOUT, "the head has not answered");
        asked_free(r, asked);
    }
    patience_arm(r);
}

struct rlt_asked *rlt_head_asked(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, bool is_held)
{
    if (mt_id_is_zero(id) || mt_map_find(&r->head.asked, id))
        return NULL; /* said twice: one answer will do */
    if (r->head.asked.count >= MT_RLT_ASKED_MAX) {
        rlt_down_reply(r->out, p->conn, id, MT_EAGAIN, "too many requests wait for the head");
        return NULL;
    }
    struct rlt_asked *asked = rlt_calloc(sizeof *asked);
    asked->id = id;
    asked->conn = p->conn;
    asked->op = op;
    asked->is_held = is_held;
    asked->values = -1;
    asked->since = r->now;
    rlt_list_init(&asked->in_all);
    rlt_list_append(&r->head.all_asked, &asked->in_all);
    rlt_map_put(&r->head.asked, id, asked);
    patience_arm(r);
    return asked;
}

void rlt_head_ask_go(struct rlt *r, struct rlt_asked *asked)
{
    asked->is_held = false;
    if (r->head.is_registered)
        ask_send(r, asked);
}

void rlt_head_asked_over(struct rlt *r, struct rlt_asked *asked)
{
    asked_free(r, asked);
    patience_arm(r);
}

void rlt_head_ask_failed(struct rlt *r, struct rlt_asked *asked, int32_t code, const char *text)
{
    if (rlt_proc_of_conn(r, asked->conn))
        rlt_down_reply(r->out, asked->conn, asked->id, code, text);
    asked_free(r, asked);
    patience_arm(r);
}

void rlt_head_ask(struct rlt *r, struct rlt_proc *p, mt_id id, uint32_t op, const struct ctl_name *name)
{
    struct rlt_asked *asked = rlt_head_asked(r, p, id, op, true);
    if (!asked)
        return;
    asked->name = *name;
    p->has_names |= op == CTL_OP_NAME_PUT;
    rlt_head_ask_go(r, asked);
}

static void name_answered(struct rlt *r, const Manta__V1__NameReply *reply)
{
    mt_id             id = {reply->id_process, reply->id_counter};
    struct rlt_asked *asked = mt_map_ptr(&r->head.asked, id);
    if (!asked || asked->group)
        return;
    if (asked->op == CTL_OP_NAME_GET && reply->code == MT_ENOENT && rlt_name_is_apart(r, &asked->name)) {
        rlt_name_unplace(r, &asked->name); /* its job has none of that name: perhaps another has one for all */
        ask_send(r, asked);
        return;
    }
    bool is_place = asked->op == CTL_OP_NAME_GET || (asked->op == CTL_OP_ACTOR && asked->actor->verb == CTL_ACTOR_WHERE);
    if (rlt_proc_of_conn(r, asked->conn) && reply->code == MT_OK && is_place) {
        struct ctl_name name = asked->name;
        rlt_name_unplace(r, &name);
        name.flags = reply->detached ? CTL_NAME_DETACHED : 0;
        name.actor = (mt_id){reply->actor_process, reply->actor_counter};
        name.owner = reply->owner;
        name.owner_node = reply->owner_node;
        snprintf(name.type, sizeof name.type, "%s", reply->type);
        rlt_reply_bytes(r, asked->conn, id, &name, sizeof name);
    } else if (rlt_proc_of_conn(r, asked->conn)) {
        rlt_down_reply(r->out, asked->conn, id, reply->code, reply->text[0] ? reply->text : NULL);
    }
    asked_free(r, asked);
    patience_arm(r);
}

static void gone_send(struct rlt *r, uint64_t process, uint64_t job)
{
    static const Manta__V1__ProcessGone empty = MANTA__V1__PROCESS_GONE__INIT;
    Manta__V1__NodeToHead              *m = message_new(r, MANTA__V1__NODE_TO_HEAD__KIND_GONE);
    m->gone = rlt_keep(r->out, &empty, sizeof empty);
    m->gone->process = process;
    m->gone->job = job;
    rlt_head_send(r, m);
}

void rlt_head_process_gone(struct rlt *r, uint64_t process)
{
    r->head.gone[r->head.gone_count++ % 64] = process;
    if (r->head.is_registered)
        gone_send(r, process, 0);
}

void rlt_head_job_gone(struct rlt *r, uint64_t job)
{
    r->head.jobs_gone[r->head.jobs_gone_count++ % MT_RLT_JOBS_GONE] = job;
    if (r->head.is_registered)
        gone_send(r, 0, job);
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
    rlt_guest_comes(r, &def, 0);
}

static void head_message(struct rlt *r, const Manta__V1__HeadToNode *m)
{
    if (m->kind_case == MANTA__V1__HEAD_TO_NODE__KIND_REGISTERED) {
        registered(r, m->registered);
        return;
    }
    if (!r->head.is_registered)
        return;
    switch (m->kind_case) {
    case MANTA__V1__HEAD_TO_NODE__KIND_VIEW: rlt_nodes_view(r, m->view); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_PLACE: placed(r, m->place); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_EXTEND:
        rlt_alone_answered(r, m->extend->version);
        rlt_strict_extend(r, m->extend);
        break;
    case MANTA__V1__HEAD_TO_NODE__KIND_PRESS: pressed(r, m->press); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_UNSCHEDULABLE: unschedulable(r, m->unschedulable); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_GROUP: rlt_group_answered(r, m->group); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_BUNDLE: rlt_bundle_order(r, m->bundle); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_NAME: name_answered(r, m->name); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_START_JOB:
    case MANTA__V1__HEAD_TO_NODE__KIND_STOP_JOB:
    case MANTA__V1__HEAD_TO_NODE__KIND_JOB_ACK:
    case MANTA__V1__HEAD_TO_NODE__KIND_LOG_ACK: rlt_submit_order(r, m); break;
    case MANTA__V1__HEAD_TO_NODE__KIND_SHUTDOWN: rlt_shut_down(r, m->shutdown->reason); break;
    default: break; /* of a newer head: not for us */
    }
}

void rlt_head_event(struct rlt *r, const struct rlt_event *e)
{
    switch (e->kind) {
    case RLT_EV_HEAD_UP:
        r->head.is_up = true;
        r->head.is_registered = false;
        register_send(r);
        break;
    case RLT_EV_HEAD_DOWN:
        r->head.is_up = r->head.is_registered = false;
        r->head.unanswered = 0;
        rlt_timer_clear(r, &r->alone); /* sooner than for one that is silent */
        r->is_dirty = true;
        rlt_timer_clear(r, &r->head.report);
        break;
    default: head_message(r, e->head);
    }
}
