/* SPDX-License-Identifier: Apache-2.0
 *
 * waits.c - who waits for room: served in turn, as values go to disk and come back from it; values that die on disk; start and end.
 *
 * Owns: struct spill_waiter, struct sh_spill. Thread: the loop only.
 * Always: nobody who waits for room is passed by one who came later; each is answered once.
 *
 *   a want finds no room --> waits --> something got free --> granted
 *                              '-- nothing gets free for MT_ROOM_MS: the store's or the disk's error
 *
 * A write or a read that is done leaves a note (spill_note_done); this file takes it up.
 */
#include "raylet/store/spill.h"
#include "raylet/store/quota.h"

#include "core/base/limits/object.h"
#include "core/base/limits/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- who waits for room ---- */

static void waiter_end(struct sh_spill *s, struct spill_waiter *w)
{
    rlt_list_out(&w->in_room);
    s->waiting--;
    free(w);
}

/* Why there is still no room: the disk's word goes first, for more of it would help. `full` says the store's figures. */
static mt_status why(const struct sh_spill *s, const char *full, char text[OS_TEXT_SIZE * 2])
{
    if (s->refused.code) {
        snprintf(text, OS_TEXT_SIZE * 2, "%s; spilling to %s: %s%s%s (%llu MiB are there)", full, s->sh->options.spill_dir,
                 s->refused.what, s->refused.sys ? ": " : "", s->refused.sys ? strerror(s->refused.sys) : "",
                 (unsigned long long)(s->bytes >> 20));
        return mt_error(s->refused.code == MT_EDISK_FULL ? MT_EDISK_FULL : MT_ESTORE_FULL, s->refused.sys, "spill");
    }
    snprintf(text, OS_TEXT_SIZE * 2, "%s; nothing more could be spilled for %d s: the rest is being read or written", full,
             MT_ROOM_MS / 1000);
    return mt_error(MT_ESTORE_FULL, 0, "object store");
}

static bool is_over(const struct sh_spill *s, uint64_t since_ms)
{
    uint64_t now = io_now_ms(), from = s->progress_ms > since_ms ? s->progress_ms : since_ms;
    return now - from >= MT_ROOM_MS || now - since_ms >= MT_ROOM_MS_MAX;
}

/* In turn, until one has to go on waiting. */
static void serve_room(struct sh_spill *s)
{
    RLT_LIST_EACH(&s->room, link) {
        struct spill_waiter *w = mt_container_of(link, struct spill_waiter, in_room);
        char                 full[OS_TEXT_SIZE] = "", text[OS_TEXT_SIZE * 2];
        mt_status            st = sh_store_want_now(s->sh, w->conn, w->request, w->size, full);
        if (st.code == MT_ESTORE_FULL && st.sys == EDQUOT && sh_conn_find(s->sh, w->conn)) {
            sh_quota_wait(s->sh, sh_conn_find(s->sh, w->conn), w->request, w->size, full); /* others may pass it */
            waiter_end(s, w);
            continue;
        }
        if (st.code == MT_ESTORE_FULL && !is_over(s, w->since_ms))
            return;
        if (st.code == MT_ESTORE_FULL) {
            st = why(s, full, text);
            sh_store_refuse(s->sh, w->conn, w->request, st, text);
        } else if (st.code) {
            sh_store_refuse(s->sh, w->conn, w->request, st, full);
        }
        waiter_end(s, w);
    }
}

static void refuse_hungry(struct sh_spill *s)
{
    RLT_LIST_EACH(&s->hungry, link) {
        struct spilled *v = mt_container_of(link, struct spilled, link);
        char            text[OS_TEXT_SIZE * 2];
        if (is_over(s, v->since_ms))
            spilled_refuse(v, why(s, "no room for a value that is on disk", text), text);
    }
}

/* What has got free goes to those who wait; then more is made free. */
static void look(struct sh_spill *s)
{
    sh_store_settle(s->sh);
    spill_feed_hungry(s);
    serve_room(s);
    refuse_hungry(s);
    spill_pump(s);
}

static void timer_look(struct io_timer *timer)
{
    look(mt_container_of(timer, struct sh_spill, timer));
}

/* The value will never be asked for again. */
static void spilled_die(struct spilled *v)
{
    if (v->state == SPILLED_HERE)
        (void)os_store_copy_dead(sh_store_of(v->spill->sh), v->ref.id).code; /* it may be gone already */
    if (v->state == SPILLED_READING) {
        v->is_dead = true;
        return;
    }
    spilled_refuse(v, mt_error(MT_EOBJ_LOST, 0, "it died while it was on disk"), NULL);
    spilled_end(v);
}

/* Its values on disk go. True: a thread may still write into its segments. */
static bool job_is_read(struct sh *sh, uint32_t job)
{
    if (!sh->spill)
        return false;
    MT_MAP_EACH(&sh->spill->all, entry) {
        struct spilled *v = entry->value.ptr;
        if (v->ref.job == job && !os_store_outlives(sh_store_of(sh), v->ref.id, v->ref.owner_node, job, sh->node))
            spilled_die(v);
    }
    return sh->spill->reads > 0;
}

void sh_spill_job_finish(struct sh *sh, uint32_t number)
{
    if (job_is_read(sh, number))
        return;
    sh_store_job_close(sh, number);
}

/* Ends jobs that had to wait for a thread of the disk. */
static void jobs_settle(struct sh *sh)
{
    MT_MAP_EACH(&sh->store->jobs, entry) {
        const struct sh_store_job *job = entry->value.ptr;
        if (job->is_over)
            sh_spill_job_finish(sh, (uint32_t)entry->key.counter_index);
    }
}

static void done_settle(struct io_timer *timer)
{
    struct sh_spill *s = mt_container_of(timer, struct sh_spill, done);
    look(s);
    jobs_settle(s->sh);
}

bool sh_spill_wait(struct sh *sh, uint64_t conn, mt_id request, uint64_t size)
{
    struct sh_spill     *s = sh->spill;
    struct spill_waiter *w;
    if (!s || !sh->options.spill_dir[0] || s->waiting >= MT_SPILL_WAITERS_MAX || !(w = calloc(1, sizeof *w)))
        return false;
    w->conn = conn;
    w->request = request;
    w->size = size;
    w->since_ms = io_now_ms();
    rlt_list_init(&w->in_room);
    rlt_list_append(&s->room, &w->in_room);
    s->waiting++;
    spill_pump(s);
    return true;
}

/* ---- news ---- */

void sh_spill_conn_gone(struct sh *sh, uint64_t conn)
{
    struct sh_spill *s = sh->spill;
    if (!s)
        return;
    RLT_LIST_EACH(&s->room, link) {
        struct spill_waiter *w = mt_container_of(link, struct spill_waiter, in_room);
        if (w->conn == conn)
            waiter_end(s, w);
    }
}

void sh_spill_dead(struct sh *sh, const struct lane_ref *ref)
{
    struct spilled *v = sh->spill ? spilled_find(sh->spill, ref) : NULL;
    if (v)
        spilled_die(v);
}

void sh_spill_owner_gone(struct sh *sh, uint64_t owner, uint32_t node)
{
    if (!sh->spill)
        return;
    MT_MAP_EACH(&sh->spill->all, entry) {
        struct spilled *v = entry->value.ptr;
        if ((owner && v->ref.id.process == owner) || (node && v->ref.owner_node == node))
            spilled_die(v);
    }
}

/* ---- start and end ---- */

mt_status sh_spill_start(struct sh *sh)
{
    struct sh_spill *s = calloc(1, sizeof *s);
    if (!s)
        return mt_error(MT_ENOMEM, 0, "spill");
    s->sh = sh;
    s->timer.fire = timer_look;
    s->done.fire = done_settle;
    rlt_list_init(&s->room);
    rlt_list_init(&s->hungry);
    rlt_list_init(&s->copies);
    sh->spill = s;
    return mt_ok();
}

void sh_spill_stop(struct sh *sh)
{
    struct sh_spill *s = sh->spill;
    if (!s)
        return;
    s->is_ending = true;
    io_timer_stop(&s->timer);
    io_timer_stop(&s->done);
    if (s->writer)
        io_worker_free(s->writer);
    if (s->reader)
        io_worker_free(s->reader);
    RLT_LIST_EACH(&s->room, link)
        waiter_end(s, mt_container_of(link, struct spill_waiter, in_room));
    MT_MAP_EACH(&s->all, entry)
        spilled_die(entry->value.ptr);
    MT_ASSERT(s->files == 0);
    mt_map_fini(&s->all);
    free(s);
    sh->spill = NULL;
}
