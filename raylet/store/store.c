/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - the object store's server half in the real world: segments on request, space back, ends of processes.
 *
 * Owns: the os_store and the memory behind its segments. Thread: the loop only.
 * Always: a process is in the store from its welcome until its connection is closed; a job from its first process here
 * until the core says that it is over: what a dead worker has left may be wanted on another node.
 *
 * The store is a state machine of its own beside the core: no decision of one depends on the other.
 */
#include "raylet/store/private.h"

#include "core/base/log.h"
#include "core/base/plant.h"
#include "objectstore/system/backing.h"
#include "objectstore/server/local.h"
#include "objectstore/system/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STORE_TICK_MS = 20,         /* while dead objects are still pinned */
    STORE_IDLE_TICK_MS = 1000,  /* else: warm segments grow cold */
    CGROUP_RESERVE_PERCENT = 6, /* at least: values alone never make the node so short that tasks are stopped */
    CGROUP_RESERVE_MIB = 64,    /* kept free for everything that is not the store */
};

struct job {
    bool            has_local;
    bool            is_over; /* but a thread of the disk is still at work on it */
    struct os_local local;   /* this raylet as a process of that job */
};

struct sh_store {
    struct sh        *sh;
    struct os_store  *store;
    struct os_actions actions;
    struct io_timer   timer;
    uint64_t          trimmed_ms;
    mt_map            jobs; /* short number -> job */
};

/* ---- telling processes ---- */

void sh_store_send_down(struct sh *sh, uint64_t conn, uint16_t kind, mt_id id, const void *payload, size_t size)
{
    struct rlt_action a = {.kind = RLT_A_SW_DOWN, .conn = conn, .fd = -1, .payload = payload};
    a.record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + size), .kind = kind, .id = id};
    sh_switcher_act(sh, &a, NULL);
}

void sh_store_refuse(struct sh *sh, uint64_t conn, mt_id id, mt_status st, const char *text)
{
    struct ctl_reply reply = {.code = st.code};
    snprintf(reply.text, sizeof reply.text, "%s", text && text[0] ? text : st.what ? st.what : mt_code_text(st.code));
    sh_store_send_down(sh, conn, CTL_REPLY, id, &reply, sizeof reply);
}

static void give_segment(struct sh *sh, uint64_t conn, mt_id id, const struct os_segment_view *view, bool is_writer)
{
    struct sh_conn    *c = sh_conn_find(sh, conn);
    struct ctl_segment segment = {.segment = view->segment, .size = view->size};
    int                fds[2] = {is_writer ? view->backing.data_rw : view->backing.data_ro, view->backing.generations_ro};
    struct rlt_action  a = {.kind = RLT_A_SOCKET, .conn = conn, .payload = (const uint8_t *)&segment};
    a.record = (struct lane_record){.length = (uint32_t)(LANE_RECORD_SIZE + sizeof segment), .kind = CTL_SEGMENT, .id = id};
    if (c)
        sh_conn_send(c, &a, fds, 2);
}

static struct sh_conn *conn_of_process(const struct sh *sh, uint64_t process)
{
    MT_MAP_EACH(&sh->conns, entry) {
        struct sh_conn *c = entry->value.ptr;
        if (c->process == process)
            return c;
    }
    return NULL;
}

static void local_space_back(struct sh_store *s, const struct os_action *a)
{
    MT_MAP_EACH(&s->jobs, entry) {
        struct job *job = entry->value.ptr;
        if (job->has_local && job->local.client.process == a->process)
            (void)os_client_space_back(&job->local.client, a->segment, a->offset).code;
    }
}

static void locals_forget(struct sh_store *s, uint32_t segment)
{
    MT_MAP_EACH(&s->jobs, entry) {
        struct job *job = entry->value.ptr;
        if (job->has_local)
            os_local_forget(&job->local, segment);
    }
}

void sh_store_segment_close(const struct os_action *close)
{
    os_backing_close(&close->backing, close->size);
}

static void carry_out(struct sh_store *s)
{
    for (size_t i = 0; i < s->actions.count; i++) {
        const struct os_action *a = &s->actions.data[i];
        if (a->kind == OS_CLOSE) {
            locals_forget(s, a->segment);
            if (!sh_spill_keeps(s->sh, a))
                sh_store_segment_close(a);
        } else if (a->kind == OS_PUNCH) {
            (void)os_memory_punch(a->backing.data_rw, a->offset, a->size).code; /* else the pages stay, and count twice */
        } else if (a->kind == OS_ASK_BACK) {
            struct sh_conn    *c = conn_of_process(s->sh, a->process);
            struct ctl_segment segment = {.segment = a->segment};
            if (c)
                sh_store_send_down(s->sh, c->conn, CTL_SEGMENT_ASK, (mt_id){0, 0}, &segment, sizeof segment);
        } else if (a->kind == OS_SPACE_BACK) {
            struct sh_conn  *c = conn_of_process(s->sh, a->process);
            struct ctl_space space = {.segment = a->segment, .generation = a->generation, .offset = a->offset};
            if (c)
                sh_store_send_down(s->sh, c->conn, CTL_SPACE_BACK, (mt_id){0, 0}, &space, sizeof space);
            else
                local_space_back(s, a);
        }
    }
    s->actions.count = 0;
}

/* Out of memory inside the store leaves its work undone; the next tick does it. */
static void sweep(struct sh_store *s)
{
    struct os_stats stats;
    mt_status       st = os_store_sweep(s->store, &s->actions);
    if (st.code)
        mt_log_status(MT_LOG_WARN, "store_sweep", st);
    carry_out(s);
    os_store_stats(s->store, &stats);
    io_timer_start(s->sh->loop, &s->timer, stats.dead_pinned || st.code ? STORE_TICK_MS : STORE_IDLE_TICK_MS);
}

static void trim(struct sh_store *s, bool now)
{
    MT_MAP_EACH(&s->jobs, entry) {
        struct job *job = entry->value.ptr;
        if (job->has_local)
            os_local_trim(&job->local, now);
    }
}

static void ticked(struct io_timer *timer)
{
    struct sh_store *s = mt_container_of(timer, struct sh_store, timer);
    uint64_t         now = io_now_ms();
    mt_status        st = os_store_tick(s->store, (int64_t)now, &s->actions);
    if (st.code)
        mt_log_status(MT_LOG_WARN, "store_tick", st);
    if (now - s->trimmed_ms >= OS_TRIM_ROUND_MS) {
        s->trimmed_ms = now;
        trim(s, false);
    }
    sweep(s);
}

void sh_store_settle(struct sh *sh)
{
    sweep(sh->store);
}

struct os_store *sh_store_of(const struct sh *sh)
{
    return sh->store->store;
}

/* ---- this raylet as a process of a job ---- */

static struct job *job_get(struct sh_store *s, uint32_t number)
{
    struct job *job = mt_map_ptr(&s->jobs, mt_map_key(number));
    if (job)
        return job;
    job = calloc(1, sizeof *job);
    if (!job || mt_map_put_ptr(&s->jobs, mt_map_key(number), job).code) {
        free(job);
        return NULL;
    }
    return job;
}

struct os_local *sh_store_local(struct sh *sh, uint32_t job)
{
    struct sh_store *s = sh->store;
    struct job      *found = mt_map_ptr(&s->jobs, mt_map_key(job));
    uint64_t         process;
    uint32_t         node, epoch;
    rlt_self(sh->core, &node, &epoch);
    if (!found || found->is_over) { /* a process of another job has or wants a value of it */
        job = OS_JOB_NODE;
        found = job_get(s, job);
    }
    if (found && found->has_local) {
        found->local.client.node = node; /* a raylet that was given up has a new number */
        return &found->local;
    }
    if (!found || sh_random(sh, &process).code || os_local_open(&found->local, s->store, process, node, job).code)
        return NULL;
    found->has_local = true;
    return &found->local;
}

static void headroom(struct sh_store *s, struct os_headroom *room);

/* The store is full: what it keeps only because it may be asked for again goes. False: there was nothing. */
static bool shed(struct sh_store *s, uint64_t bytes)
{
    bool any = sh_spill_shed(s->sh, bytes);
    sh_pulls_shed(s->sh);
    trim(s, true);
    return any;
}

mt_status sh_store_local_alloc(struct sh *sh, struct os_local *local, uint64_t size, struct os_place *place, void **data,
                               char *text)
{
    struct os_headroom room;
    mt_status          st;
    headroom(sh->store, &room);
    st = os_local_alloc(local, size, &room, place, data, text, &sh->store->actions);
    carry_out(sh->store);
    for (bool any = true; st.code == MT_ESTORE_FULL && st.sys != EDQUOT && any;) {
        any = shed(sh->store, size);
        headroom(sh->store, &room);
        st = os_local_alloc(local, size, &room, place, data, text, &sh->store->actions);
        carry_out(sh->store);
    }
    return st;
}

static void job_end(struct sh_store *s, uint32_t number)
{
    struct job *job = mt_map_ptr(&s->jobs, mt_map_key(number));
    if (!job)
        return;
    if (!job->is_over) {
        sh_pulls_job_unserve(s->sh, number);
        job->is_over = true;
        sh_pulls_job_over(s->sh, number);
    }
    if (!sh_spill_job_over(s->sh, number))
        return;
    if (job->has_local && os_local_close(&job->local).code)
        mt_log(MT_LOG_WARN, "store_local_close", "");
    mt_map_remove(&s->jobs, mt_map_key(number));
    free(job);
    if (os_store_job_gone(s->store, number, s->sh->node, &s->actions).code)
        mt_log(MT_LOG_WARN, "store_job_gone", "");
    carry_out(s);
}

/* ---- requests ---- */

static void headroom(struct sh_store *s, struct os_headroom *room)
{
    struct os_segment_view view = {0};
    memset(room, 0, sizeof *room);
    room->reserve = (uint64_t)CGROUP_RESERVE_MIB << 20;
    if (os_cgroup_read("/sys/fs/cgroup", &room->limit, &room->usage).code)
        room->limit = UINT64_MAX;
    else if (room->limit != UINT64_MAX && room->reserve < room->limit / 100 * CGROUP_RESERVE_PERCENT)
        room->reserve = room->limit / 100 * CGROUP_RESERVE_PERCENT;
    if (room->limit != UINT64_MAX)
        while (os_store_next(s->store, view.segment, &view))
            room->resident += os_memory_resident(view.backing.data_ro);
}

static mt_status find_room(struct sh_store *s, uint64_t process, uint64_t size, struct os_grant *grant, char *text)
{
    struct os_headroom room;
    mt_status          st;
    headroom(s, &room);
    room.kept = sh_spill_kept(s->sh);
    st = os_store_want(s->store, process, size, &room, grant, text, &s->actions);
    carry_out(s);
    for (bool any = true; st.code == MT_ESTORE_FULL && st.sys != EDQUOT && any;) {
        any = shed(s, size);
        headroom(s, &room);
        room.kept = sh_spill_kept(s->sh);
        st = os_store_want(s->store, process, size, &room, grant, text, &s->actions);
        carry_out(s);
    }
    return st;
}

mt_status sh_store_want_now(struct sh *sh, uint64_t conn, mt_id request, uint64_t size, char *text)
{
    struct sh_store       *s = sh->store;
    struct sh_conn        *c = sh_conn_find(sh, conn);
    struct os_grant        grant;
    struct os_backing      backing;
    struct os_segment_view view;
    if (!c)
        return mt_error(MT_ENOENT, 0, "its process is gone");
    MT_TRY(find_room(s, c->process, size, &grant, text));
    if (!grant.segment) {
        MT_TRY(os_backing_make(grant.create_size, &backing));
        mt_status st = os_store_add_segment(s->store, c->process, grant.create_size, &backing, &grant.segment);
        if (st.code) {
            os_backing_close(&backing, grant.create_size);
            return st;
        }
    }
    MT_TRY(os_store_segment(s->store, c->process, grant.segment, &view));
    give_segment(sh, conn, request, &view, true);
    return mt_ok();
}

/* Whether any room that can be made would be enough. */
static bool could_ever_fit(const struct sh_store *s, uint64_t size)
{
    struct os_stats stats;
    os_store_stats(s->store, &stats);
    return size <= stats.bytes_allowed;
}

void sh_store_ask_back(struct sh *sh, uint32_t job)
{
    if (os_store_job_ask_back(sh->store->store, job, &sh->store->actions).code == 0)
        carry_out(sh->store);
}

void sh_store_want(struct sh *sh, struct sh_conn *c, mt_id id, uint64_t size)
{
    struct sh_store *s = sh->store;
    char             text[OS_TEXT_SIZE] = "";
    mt_status        st = mt_error(MT_ESTORE_FULL, 0, "others wait for room already");
    if (!sh_spill_is_awaited(s->sh) || !could_ever_fit(s, size))
        st = sh_store_want_now(s->sh, c->conn, id, size, text);
    if (st.code == MT_ESTORE_FULL && st.sys == EDQUOT) {
        sh_quota_wait(sh, c, id, size, text);
        return;
    }
    if (st.code == MT_ESTORE_FULL && could_ever_fit(s, size) && sh_spill_wait(s->sh, c->conn, id, size))
        return;
    if (st.code)
        sh_store_refuse(s->sh, c->conn, id, st, text);
}

uint32_t sh_store_victims(struct sh *sh, uint64_t bytes, struct lane_ref *out, uint32_t max)
{
    uint32_t count = os_store_victims(sh->store->store, bytes, out, max, &sh->store->actions);
    carry_out(sh->store);
    return count;
}

void sh_store_jobs_settle(struct sh *sh)
{
    MT_MAP_EACH(&sh->store->jobs, entry) {
        struct job *job = entry->value.ptr;
        if (job->is_over)
            job_end(sh->store, (uint32_t)entry->key.counter_index);
    }
}

static void map(struct sh_store *s, struct sh_conn *c, mt_id id, uint32_t segment)
{
    struct os_segment_view view;
    mt_status              st = os_store_segment(s->store, c->process, segment, &view);
    if (st.code)
        sh_store_refuse(s->sh, c->conn, id, st.code == MT_ENOENT ? mt_error(MT_EOBJ_LOST, 0, "its segment is gone") : st, NULL);
    else
        give_segment(s->sh, c->conn, id, &view, false);
}

static void dead(struct sh_store *s, uint64_t from, const struct lane_ref *ref)
{
    mt_status st = os_store_dead(s->store, from, ref);
    if (st.code)
        mt_log_status(MT_LOG_DEBUG, "object_dead", st);
    else if (from == 0 || from == ref->id.process || !conn_of_process(s->sh, ref->id.process))
        sh_spill_dead(s->sh, ref);
    sweep(s);
}

/* Of a value of another node: the copy here, if there is one. */
static void copy_dead(struct sh_store *s, const struct sh_conn *c, const struct lane_ref *ref)
{
    if (ref->id.process == c->process && os_store_copy_dead(s->store, ref->id).code == 0)
        sweep(s);
}

static bool object_record(struct sh_store *s, struct sh_conn *c, const struct rlt_event *e)
{
    struct lane_ref ref;
    if (e->record.length < LANE_RECORD_SIZE + sizeof ref)
        return true;
    memcpy(&ref, e->payload, sizeof ref);
    if (e->record.kind == CTL_PULL) {
        sh_pull_request(s->sh, c, e->record.id, &ref);
        return true;
    }
    if (ref.node == s->sh->node) {
        dead(s, c->process, &ref);
        return ref.id.process != c->process || !sh_pull_was_served(s->sh, ref.id); /* else others may have copies */
    }
    copy_dead(s, c, &ref);
    return false; /* the core knows the way to its node, and to other copies */
}

bool sh_store_record(struct sh *sh, const struct rlt_event *e)
{
    struct sh_store   *s = sh->store;
    struct sh_conn    *c = sh_conn_find(sh, e->conn);
    size_t             size = e->record.length - LANE_RECORD_SIZE;
    struct ctl_segment segment = {0};

    if ((e->record.kind < CTL_SEGMENT_WANT || e->record.kind > CTL_OBJECT_DEAD) && e->record.kind != CTL_SEGMENT_BACK &&
        e->record.kind != CTL_PULL)
        return false;
    if (!c || !c->process)
        return true;
    if (e->record.kind == CTL_OBJECT_DEAD || e->record.kind == CTL_PULL)
        return object_record(s, c, e);
    if (size < sizeof segment)
        return true;
    memcpy(&segment, e->payload, sizeof segment);
    if (e->record.kind == CTL_SEGMENT_WANT)
        sh_store_want(sh, c, e->record.id, segment.size);
    else if (e->record.kind == CTL_SEGMENT_MAP)
        map(s, c, e->record.id, segment.segment);
    else if (os_store_segment_back(s->store, c->process, segment.segment).code == 0)
        sweep(s);
    return true;
}

/* ---- processes come and go ---- */

mt_status sh_store_welcome(struct sh_conn *c, uint64_t process, uint32_t job)
{
    struct sh_store *s = c->sh->store;
    if (!job_get(s, job))
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
    sh_pulls_owner_gone(c->sh, c->process, 0);
    sh_spill_conn_gone(c->sh, c->conn);
    sh_quota_conn_gone(c->sh, c->conn);
    c->process = 0;
    sweep(s);
}

void sh_store_told(struct sh *sh, const struct rlt_action *a)
{
    struct sh_store *s = sh->store;
    struct lane_ref  ref;
    mt_status        st = mt_ok();
    if (!s)
        return;
    if (a->kind == RLT_A_OBJECT_DEAD) {
        memcpy(&ref, a->payload, sizeof ref);
        if (ref.node == sh->node)
            st = os_store_dead(s->store, 0, &ref);
        else if (!MT_PLANT(MT_PLANT_COPY_STAYS))
            st = os_store_copy_dead(s->store, ref.id);
        if (ref.node == sh->node) {
            sh_spill_dead(sh, &ref);
            (void)sh_pull_was_served(sh, ref.id); /* copies elsewhere go by age */
        }
    } else if (a->kind == RLT_A_OWNER_GONE) {
        sh_spill_owner_gone(sh, a->number, 0);
        sh_pulls_owner_gone(sh, a->number, 0);
        st = os_store_owner_gone(s->store, a->number);
    } else if (a->kind == RLT_A_OWNERS_GONE) {
        sh_pulls_node_lost(sh, a->node);
        sh_spill_owner_gone(sh, 0, a->node);
        sh_pulls_owner_gone(sh, 0, a->node);
        st = os_store_node_gone(s->store, a->node);
    } else {
        job_end(s, (uint32_t)a->number);
    }
    if (st.code)
        mt_log_status(MT_LOG_DEBUG, "object_dead", st);
    sweep(s);
}

mt_status sh_store_start(struct sh *sh)
{
    struct os_store_config config = {
        .bytes_max = sh->options.store_bytes, .job_bytes_max = sh->options.job_bytes, .jobs_apart = sh_jobs_are_apart(sh)};
    struct sh_store *s = calloc(1, sizeof *s);
    mt_status        st;
    if (!s)
        return mt_error(MT_ENOMEM, 0, "store");
    s->sh = sh;
    s->timer.fire = ticked;
    st = os_store_new(&config, &s->store);
    if (st.code) {
        free(s);
        return st;
    }
    sh->store = s;
    return sh_spill_start(sh);
}

void sh_store_stop(struct sh *sh)
{
    struct sh_store *s = sh->store;
    if (!s)
        return;
    sh_quotas_stop(sh);
    sh_spill_stop(sh);
    io_timer_stop(&s->timer);
    MT_MAP_EACH(&s->jobs, entry) {
        struct job *job = entry->value.ptr;
        if (job->has_local)
            (void)os_local_close(&job->local).code;
        mt_map_remove(&s->jobs, entry->key);
        free(job);
    }
    if (os_store_close_all(s->store, &s->actions).code == 0)
        carry_out(s);
    os_store_free(s->store);
    os_actions_fini(&s->actions);
    mt_map_fini(&s->jobs);
    free(s);
    sh->store = NULL;
}
