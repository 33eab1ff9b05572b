/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c - what processes, and the core, want of the object store: segments, objects, ends.
 *
 * Owns: nothing; on top of the room. Thread: the loop only.
 * Always: a process is in the store from its welcome until its connection is closed; a job from its first process here
 * until the core says that it is over: what a dead worker has left may be wanted on another node.
 */
#include "core/base/limits/object.h"
#include "raylet/store/quota.h"
#include "core/base/log.h"
#include "core/base/plant.h"
#include "raylet/store/adopt.h"
#include "raylet/store/known.h"
#include "raylet/store/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASK_MS = 200 };

/* ---- segments ---- */

static void want(struct sh *sh, struct sh_conn *c, mt_id id, uint64_t size)
{
    char      text[OS_TEXT_SIZE] = "";
    mt_status st = mt_error(MT_ESTORE_FULL, 0, "others wait for room already");
    if (!sh_spill_is_awaited(sh) || !sh_store_could_fit(sh, size))
        st = sh_store_want_now(sh, c->conn, id, size, text);
    if (st.code == MT_ESTORE_FULL && st.sys == EDQUOT) {
        sh_quota_wait(sh, c, id, size, text);
        return;
    }
    if (st.code == MT_ESTORE_FULL && sh_store_could_fit(sh, size) && sh_spill_wait(sh, c->conn, id, size))
        return;
    if (st.code)
        sh_store_refuse(sh, c->conn, id, st, text);
}

/* Those whose job had its quota: again, while the timer runs. */
static void serve_quotas(struct io_timer *timer)
{
    struct sh_quotas *q = mt_container_of(timer, struct sh_quotas, timer);
    uint64_t          now = io_now_ms();
    bool              asks = now - q->asked_ms >= ASK_MS;
    sh_store_settle(q->sh);
    q->asked_ms = asks ? now : q->asked_ms;
    RLT_LIST_EACH(&q->waiters, link) {
        struct quota_waiter *w = mt_container_of(link, struct quota_waiter, link);
        struct sh_conn      *c = sh_conn_find(q->sh, w->conn);
        char                 text[OS_TEXT_SIZE] = "";
        mt_status            st = sh_store_want_now(q->sh, w->conn, w->request, w->size, text);
        bool                 is_quota = st.code == MT_ESTORE_FULL && st.sys == EDQUOT;
        if (is_quota && now - w->since_ms < MT_ROOM_MS) {
            if (asks && c)
                sh_store_ask_back(q->sh, c->job);
            continue;
        }
        if (is_quota && c)
            sh_quota_refuse(q->sh, c, w->request, text);
        else if (st.code == MT_ESTORE_FULL && c)
            want(q->sh, c, w->request, w->size); /* it is the store that is full now: it waits with all others */
        else if (st.code)
            sh_store_refuse(q->sh, w->conn, w->request, st, text);
        sh_quota_end(q, w);
    }
    if (q->count)
        io_timer_start(q->sh->loop, &q->timer, MT_SPILL_LOOK_MS);
}

static void map(struct sh_store *s, struct sh_conn *c, mt_id id, uint32_t segment)
{
    struct os_segment_view view;
    mt_status              st = os_store_segment(s->store, c->process, segment, &view);
    if (st.code)
        sh_store_refuse(s->sh, c->conn, id, st.code == MT_ENOENT ? mt_error(MT_EOBJ_LOST, 0, "its segment is gone") : st, NULL);
    else
        sh_store_give(s->sh, c->conn, id, &view, false);
}

static void dead(struct sh_store *s, uint64_t from, const struct lane_ref *ref)
{
    mt_status st = os_store_dead(s->store, from, ref);
    if (st.code)
        mt_log_status(MT_LOG_DEBUG, "object_dead", st);
    else if (from == 0 || from == ref->id.process || !sh_store_conn_of(s->sh, ref->id.process))
        sh_spill_dead(s->sh, ref);
    sh_store_settle(s->sh);
}

/* Of a value of another node: the copy here, if there is one. */
static void copy_dead(struct sh_store *s, const struct sh_conn *c, const struct lane_ref *ref)
{
    if (ref->id.process == c->process && os_store_copy_dead(s->store, ref->id).code == 0)
        sh_store_settle(s->sh);
}

static bool object_record(struct sh_store *s, struct sh_conn *c, const struct rlt_ev_record *e)
{
    struct lane_ref ref;
    if (e->record.length < LANE_RECORD_SIZE + sizeof ref)
        return true;
    memcpy(&ref, e->payload, sizeof ref);
    if (e->record.kind == CTL_PULL) {
        sh_pull_request(s->sh, c, e->record.id, &ref);
        return true;
    }
    if (ref.id.process == c->process)
        sh_known_dead(s->sh, &ref);
    if (ref.node == s->sh->node) {
        dead(s, c->process, &ref);
        return ref.id.process != c->process || !sh_serving_was(s->sh, ref.id); /* else others may have copies */
    }
    copy_dead(s, c, &ref);
    return false; /* the core knows the way to its node, and to other copies */
}

static void seek(struct sh *sh, const struct sh_conn *c, const struct rlt_ev_record *e)
{
    struct ctl_moved word;
    if (e->record.length < LANE_RECORD_SIZE + sizeof word)
        return;
    memcpy(&word, e->payload, sizeof word);
    if (word.from.id.process == c->process)
        sh_known_seek(sh, &word.from);
}

bool sh_store_record(struct sh *sh, const struct rlt_ev_record *e)
{
    struct sh_store   *s = sh->store;
    struct sh_conn    *c = sh_conn_find(sh, e->conn);
    size_t             size = e->record.length - LANE_RECORD_SIZE;
    struct ctl_segment segment = {0};

    if ((e->record.kind < CTL_SEGMENT_WANT || e->record.kind > CTL_OBJECT_DEAD) && e->record.kind != CTL_SEGMENT_BACK &&
        e->record.kind != CTL_PULL && e->record.kind != CTL_SEEK)
        return false;
    if (!c || !c->process)
        return true;
    if (e->record.kind == CTL_SEEK) {
        seek(sh, c, e);
        return true;
    }
    if (e->record.kind == CTL_OBJECT_DEAD || e->record.kind == CTL_PULL)
        return object_record(s, c, e);
    if (size < sizeof segment)
        return true;
    memcpy(&segment, e->payload, sizeof segment);
    if (e->record.kind == CTL_SEGMENT_WANT)
        want(sh, c, e->record.id, segment.size);
    else if (e->record.kind == CTL_SEGMENT_MAP)
        map(s, c, e->record.id, segment.segment);
    else if (os_store_segment_back(s->store, c->process, segment.segment).code == 0)
        sh_store_settle(s->sh);
    return true;
}

/* ---- processes and jobs come and go ---- */

static void job_end(struct sh *sh, uint32_t number)
{
    struct sh_store_job *job = mt_map_ptr(&sh->store->jobs, mt_map_key(number));
    if (!job)
        return;
    if (!job->is_over) {
        sh_serving_job_unserve(sh, number);
        job->is_over = true;
        sh_pulls_job_over(sh, number);
        sh_serving_job_over(sh, number);
    }
    sh_spill_job_finish(sh, number);
}

mt_status sh_store_welcome(struct sh_conn *c, uint64_t process, uint32_t job)
{
    struct sh_store *s = c->sh->store;
    if (!sh_store_job_get(s, job))
        return mt_error(MT_ENOMEM, 0, "a job in the object store");
    MT_TRY(os_store_add_process(s->store, process, job, c->pins));
    c->process = process;
    c->job = job;
    return mt_ok();
}

void sh_store_goodbye(struct sh_conn *c)
{
    struct sh_store *s = c->sh->store;
    if (!c->process || !s)
        return;
    if (os_store_process_gone(s->store, c->process).code)
        mt_log(MT_LOG_WARN, "store_process_gone", "");
    sh_spill_owner_gone(c->sh, c->process, 0);
    sh_serving_owner_gone(c->sh, c->process, 0);
    sh_take_owner_gone(c->sh, c->process, 0);
    sh_known_owner_gone(c->sh, c->process);
    sh_spill_conn_gone(c->sh, c->conn);
    sh_quota_conn_gone(c->sh, c->conn);
    c->process = 0;
    sh_store_settle(s->sh);
}

static void settle(struct sh *sh, mt_status st)
{
    if (st.code)
        mt_log_status(MT_LOG_DEBUG, "object_dead", st);
    sh_store_settle(sh);
}

void sh_store_object_dead(struct sh *sh, const struct lane_ref *ref)
{
    mt_status st = mt_ok();
    if (!sh->store)
        return;
    if (ref->node == sh->node)
        st = os_store_dead(sh->store->store, 0, ref);
    else if (!MT_PLANT(MT_PLANT_COPY_STAYS))
        st = os_store_copy_dead(sh->store->store, ref->id);
    if (ref->node == sh->node) {
        sh_spill_dead(sh, ref);
        (void)sh_serving_was(sh, ref->id); /* copies elsewhere go by age */
    }
    settle(sh, st);
}

void sh_store_owner_gone(struct sh *sh, uint64_t process)
{
    if (!sh->store)
        return;
    sh_spill_owner_gone(sh, process, 0);
    sh_serving_owner_gone(sh, process, 0);
    sh_take_owner_gone(sh, process, 0);
    settle(sh, os_store_owner_gone(sh->store->store, process));
}

void sh_store_owners_gone(struct sh *sh, uint32_t node)
{
    if (!sh->store)
        return;
    sh_serving_node_lost(sh, node);
    sh_pulls_node_lost(sh, node);
    sh_spill_owner_gone(sh, 0, node);
    sh_serving_owner_gone(sh, 0, node);
    sh_take_owner_gone(sh, 0, node);
    sh_leave_node_lost(sh, node);
    sh_known_node_lost(sh, node);
    settle(sh, os_store_node_gone(sh->store->store, node));
}

void sh_store_leave(struct sh *sh)
{
    if (sh->store)
        sh_leave_begin(sh);
}

void sh_store_moved(struct sh *sh, const struct rlt_moved *m)
{
    if (!sh->store || !sh->pulls)
        return;
    if (m->kind == PEER_ADOPTED)
        sh_leave_heard(sh, m);
    else if (m->kind == PEER_COPY)
        sh_known_copy(sh, m->node, &m->word.from);
    else if (m->kind == PEER_SOUGHT || m->kind == PEER_MOVED)
        sh_known_heard(sh, m);
    else
        sh_take_heard(sh, m);
}

void sh_store_job_over(struct sh *sh, uint32_t number)
{
    if (!sh->store)
        return;
    job_end(sh, number);
    sh_store_settle(sh);
}

mt_status sh_store_start(struct sh *sh)
{
    MT_TRY(sh_store_open(sh));
    MT_TRY(sh_quotas_start(sh));
    sh->quotas->timer.fire = serve_quotas;
    return sh_spill_start(sh);
}

void sh_store_stop(struct sh *sh)
{
    if (!sh->store)
        return;
    sh_quotas_stop(sh);
    sh_take_stop(sh);
    sh_leave_stop(sh);
    sh_spill_stop(sh);
    sh_store_close(sh);
}
