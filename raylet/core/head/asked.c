/* SPDX-License-Identifier: Apache-2.0
 *
 * asked.c - requests of this node's processes that wait for the head, and ends that it is to hear of.
 *
 * Owns: every struct rlt_asked. Thread: the logic loop only.
 * Always: a request keeps its id until it is answered, over a restart of the head too; a process that waits for an answer
 * gets one after MT_RLT_ASKED_MS at the latest.
 */
#include "raylet/core/head/head.h"
#include "raylet/core/head/private.h"

#include <stdlib.h>

static void asked_free(struct rlt *r, struct rlt_asked *asked)
{
    mt_map_remove(&r->head.asked, asked->id);
    rlt_list_out(&asked->in_all);
    if (asked->actor)
        manta__v1__actor_request__free_unpacked(asked->actor, NULL);
    if (asked->group)
        manta__v1__group_request__free_unpacked(asked->group, NULL);
    rlt_close_fd(r->out, asked->values);
    free(asked);
}

void rlt_head_fini(struct rlt *r)
{
    RLT_LIST_EACH(&r->head.all_asked, link)
        asked_free(r, mt_container_of(link, struct rlt_asked, in_all));
    mt_map_fini(&r->head.asked);
}

void rlt_asked_send(struct rlt *r, const struct rlt_asked *asked)
{
    if (asked->is_held)
        return;
    if (asked->actor) {
        Manta__V1__NodeToHead *request = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_ACTOR);
        request->actor = asked->actor;
        rlt_head_send(r, request);
        return;
    }
    if (asked->group) {
        Manta__V1__NodeToHead *request = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_GROUP);
        request->group = asked->group;
        rlt_head_send(r, request);
        return;
    }
    static const Manta__V1__NameRequest empty = MANTA__V1__NAME_REQUEST__INIT;
    Manta__V1__NodeToHead              *m = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_NAME);
    Manta__V1__NameRequest             *q = rlt_keep(r->out, &empty, sizeof empty);
    q->id_process = asked->id.process;
    q->id_counter = asked->id.counter_index;
    q->op = asked->op;
    q->space = rlt_keep_text(r, asked->name.space);
    q->name = rlt_keep_text(r, asked->name.name);
    q->type = rlt_keep_text(r, asked->name.type);
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

/* Nobody waits for the answers to these: what they ask for is to be done all the same. */
static bool group_stays(const struct rlt *r, const struct rlt_asked *asked)
{
    return asked->group->verb == CTL_GROUP_REMOVE ||
           (asked->group->verb == CTL_GROUP_NEW && rlt_proc_of_conn(r, asked->conn) != NULL);
}

void rlt_head_patience(struct rlt *r)
{
    RLT_LIST_EACH(&r->head.all_asked, link) {
        struct rlt_asked *asked = mt_container_of(link, struct rlt_asked, in_all);
        if (r->now - asked->since < MT_RLT_ASKED_MS * RLT_MS)
            break;
        if (asked->group && group_stays(r, asked)) {
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
        rlt_asked_send(r, asked);
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

void rlt_gone_send(struct rlt *r, uint64_t process, uint64_t job)
{
    static const Manta__V1__ProcessGone empty = MANTA__V1__PROCESS_GONE__INIT;
    Manta__V1__NodeToHead              *m = rlt_to_head(r, MANTA__V1__NODE_TO_HEAD__KIND_GONE);
    m->gone = rlt_keep(r->out, &empty, sizeof empty);
    m->gone->process = process;
    m->gone->job = job;
    rlt_head_send(r, m);
}

void rlt_head_process_gone(struct rlt *r, uint64_t process)
{
    r->head.gone[r->head.gone_count++ % 64] = process;
    if (r->head.is_registered)
        rlt_gone_send(r, process, 0);
}

void rlt_head_job_gone(struct rlt *r, uint64_t job)
{
    r->head.jobs_gone[r->head.jobs_gone_count++ % MT_RLT_JOBS_GONE] = job;
    if (r->head.is_registered)
        rlt_gone_send(r, 0, job);
}
