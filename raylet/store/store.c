/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - the object store's server half in the real world: its actions, places back, this raylet as one of its processes.
 *
 * Owns: the os_store and the memory behind its segments. Thread: the loop only.
 * Always: the memory of a segment that the store has closed goes at once, or when the last thread that reads from it is done.
 *
 * The store is a state machine of its own beside the core: no decision of one depends on the other.
 */
#include "raylet/store/private.h"
#include "objectstore/server/spill.h"

#include "core/base/log.h"
#include "objectstore/system/backing.h"
#include "objectstore/server/local.h"
#include "objectstore/system/memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { STORE_IDLE_TICK_MS = 1000 }; /* while no dead object is pinned: warm segments grow cold */

/* ---- telling processes ---- */

void sh_store_refuse(struct sh *sh, uint64_t conn, mt_id id, mt_status st, const char *text)
{
    struct ctl_reply reply = {.code = st.code};
    snprintf(reply.text, sizeof reply.text, "%s", text && text[0] ? text : st.what ? st.what : mt_code_text(st.code));
    sh_send_down(sh, conn, CTL_REPLY, id, &reply, sizeof reply);
}

void sh_store_give(struct sh *sh, uint64_t conn, mt_id id, const struct os_segment_view *view, bool is_writer)
{
    struct sh_conn    *c = sh_conn_find(sh, conn);
    struct ctl_segment segment = {.segment = view->segment, .size = view->size};
    int                fds[2] = {is_writer ? view->backing.data_rw : view->backing.data_ro, view->backing.generations_ro};
    struct lane_record record = {.length = (uint32_t)(LANE_RECORD_SIZE + sizeof segment), .kind = CTL_SEGMENT, .id = id};
    if (c)
        sh_conn_send(c, &record, &segment, fds, 2);
}

struct sh_conn *sh_store_conn_of(const struct sh *sh, uint64_t process)
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
        struct sh_store_job *job = entry->value.ptr;
        if (job->has_local && job->local.client.process == a->process)
            (void)os_client_space_back(&job->local.client, a->segment, a->offset).code;
    }
}

static void local_asked(struct sh_store *s, const struct os_action *a)
{
    MT_MAP_EACH(&s->jobs, entry) {
        struct sh_store_job *job = entry->value.ptr;
        if (job->has_local && job->local.client.process == a->process)
            os_local_surrender(&job->local, a->segment);
    }
}

static void locals_forget(struct sh_store *s, uint32_t segment)
{
    MT_MAP_EACH(&s->jobs, entry) {
        struct sh_store_job *job = entry->value.ptr;
        if (job->has_local)
            os_local_forget(&job->local, segment);
    }
}

static void segment_close(const struct os_action *close)
{
    os_backing_close(&close->backing, close->size);
}

void sh_store_carry_out(struct sh_store *s)
{
    for (size_t i = 0; i < s->actions.count; i++) {
        const struct os_action *a = &s->actions.data[i];
        if (a->kind == OS_CLOSE) {
            locals_forget(s, a->segment);
            if (s->held == 0 || mt_vec_push(&s->closes, *a).code)
                segment_close(a);
        } else if (a->kind == OS_PUNCH) {
            (void)os_memory_punch(a->backing.data_rw, a->offset, a->size).code; /* else the pages stay, and count twice */
        } else if (a->kind == OS_ASK_BACK) {
            struct sh_conn    *c = sh_store_conn_of(s->sh, a->process);
            struct ctl_segment segment = {.segment = a->segment};
            if (c)
                sh_send_down(s->sh, c->conn, CTL_SEGMENT_ASK, (mt_id){0, 0}, &segment, sizeof segment);
            else
                local_asked(s, a);
        } else if (a->kind == OS_SPACE_BACK) {
            struct sh_conn  *c = sh_store_conn_of(s->sh, a->process);
            struct ctl_space space = {.segment = a->segment, .generation = a->generation, .offset = a->offset};
            if (c)
                sh_send_down(s->sh, c->conn, CTL_SPACE_BACK, (mt_id){0, 0}, &space, sizeof space);
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
    sh_store_carry_out(s);
    os_store_stats(s->store, &stats);
    io_timer_start(s->sh->loop, &s->timer, stats.dead_pinned || st.code ? MT_OS_TICK_MS : STORE_IDLE_TICK_MS);
}

void sh_store_trim(struct sh_store *s, bool now)
{
    MT_MAP_EACH(&s->jobs, entry) {
        struct sh_store_job *job = entry->value.ptr;
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
        sh_store_trim(s, false);
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

struct sh_store_job *sh_store_job_get(struct sh_store *s, uint32_t number)
{
    struct sh_store_job *job = mt_map_ptr(&s->jobs, mt_map_key(number));
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
    struct sh_store     *s = sh->store;
    struct sh_store_job *found = mt_map_ptr(&s->jobs, mt_map_key(job));
    uint64_t             process;
    uint32_t             node, epoch;
    rlt_self(sh->core, &node, &epoch);
    if (!found || found->is_over) { /* a process of another job has or wants a value of it */
        job = OS_JOB_NODE;
        found = sh_store_job_get(s, job);
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

void sh_store_ask_back(struct sh *sh, uint32_t job)
{
    if (os_store_job_ask_back(sh->store->store, job, &sh->store->actions).code == 0)
        sh_store_carry_out(sh->store);
}

uint32_t sh_store_victims(struct sh *sh, uint64_t bytes, struct lane_ref *out, uint32_t max)
{
    uint32_t count = os_store_victims(sh->store->store, bytes, out, max, &sh->store->actions);
    sh_store_carry_out(sh->store);
    return count;
}

void sh_store_hold(struct sh *sh)
{
    sh->store->held++;
}

void sh_store_release(struct sh *sh)
{
    struct sh_store *s = sh->store;
    MT_ASSERT(s->held > 0);
    if (--s->held > 0)
        return;
    for (size_t i = 0; i < s->closes.count; i++)
        segment_close(&s->closes.data[i]);
    s->closes.count = 0;
}

void sh_store_job_close(struct sh *sh, uint32_t number)
{
    struct sh_store     *s = sh->store;
    struct sh_store_job *job = mt_map_ptr(&s->jobs, mt_map_key(number));
    if (job->has_local && os_local_close(&job->local).code)
        mt_log(MT_LOG_WARN, "store_local_close", "");
    mt_map_remove(&s->jobs, mt_map_key(number));
    free(job);
    if (os_store_job_gone(s->store, number, sh->node, &s->actions).code)
        mt_log(MT_LOG_WARN, "store_job_gone", "");
    sh_store_carry_out(s);
}

mt_status sh_store_open(struct sh *sh)
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
    return mt_ok();
}

void sh_store_close(struct sh *sh)
{
    struct sh_store *s = sh->store;
    MT_ASSERT(s->held == 0);
    io_timer_stop(&s->timer);
    MT_MAP_EACH(&s->jobs, entry) {
        struct sh_store_job *job = entry->value.ptr;
        if (job->has_local)
            (void)os_local_close(&job->local).code;
        mt_map_remove(&s->jobs, entry->key);
        free(job);
    }
    if (os_store_close_all(s->store, &s->actions).code == 0)
        sh_store_carry_out(s);
    os_store_free(s->store);
    os_actions_fini(&s->actions);
    mt_map_fini(&s->jobs);
    mt_vec_fini(&s->closes);
    free(s);
    sh->store = NULL;
}
