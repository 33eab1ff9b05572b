/* SPDX-License-Identifier: Apache-2.0
 *
 * restore.c - brings values back from disk when they are asked for: into segments of the raylet's own, as copies.
 *
 * Owns: the copies, until they are given up. Thread: the loop only; a thread of core/io reads.
 * Always: one read a value, whatever the number of processes that wait for it; each of them is answered once. The bytes on
 * disk stay as long as the value lives, so a copy can go at any time without being written again.
 *
 *   AWAY --asked for--> HUNGRY --room--> READING --whole--> HERE --longest unused, and room is needed--> AWAY
 */
#include "raylet/store/spill.h"
#include "objectstore/server/spill.h"

#include "core/base/limits/object.h"
#include "core/base/log.h"

#include <stdio.h>
#include <stdlib.h>

static void answer(struct spilled *v, const struct lane_ref *here)
{
    for (size_t i = 0; i < v->waiters.count; i++)
        sh_send_down(v->spill->sh, v->waiters.data[i].conn, CTL_HERE, v->waiters.data[i].request, here, sizeof *here);
    v->waiters.count = 0;
}

/* ---- reading ---- */

static void read_work(struct io_job *job)
{
    struct spilled *v = mt_container_of(job, struct spilled, job);
    if (v->place.cold)
        (void)os_memory_prefault(v->data, v->ref.size).code; /* else page by page */
    v->result = os_disk_read(v->file->fd, &v->item, v->data);
}

static void place_give_back(struct spilled *v)
{
    (void)os_client_free(&v->local->client, v->place.segment, v->place.offset, v->place.generation).code;
    v->data = NULL;
}

static void read_done(struct io_job *job)
{
    struct spilled  *v = mt_container_of(job, struct spilled, job);
    struct sh_spill *s = v->spill;
    struct lane_ref  here;
    mt_status        st = v->result;
    if (st.code == 0 && !v->is_dead && !s->is_ending) {
        os_client_publish(&v->local->client, v->place, v->data, v->ref.id, v->ref.owner_node, v->ref.size, v->ref.type, &here);
        st = os_store_copy_add(sh_store_of(s->sh), &here);
        if (st.code)
            (void)os_store_dead(sh_store_of(s->sh), 0, &here).code; /* else nobody would free it */
    } else {
        place_give_back(v);
    }
    if (v->is_dead || s->is_ending) {
        spilled_set_state(v, SPILLED_AWAY);
        spilled_refuse(v, mt_error(MT_EOBJ_LOST, 0, "it died while it was read from disk"), NULL);
        spilled_end(v);
    } else if (st.code) {
        mt_log_status(MT_LOG_WARN, "spill_read", st);
        spilled_set_state(v, SPILLED_AWAY);
        spilled_refuse(v, st, NULL);
    } else {
        spilled_set_state(v, SPILLED_HERE);
        answer(v, &here);
    }
    spill_note_done(s);
}

/* EAGAIN: too many are under way. ESTORE_FULL: no room for it now. */
static mt_status read_start(struct spilled *v)
{
    struct sh_spill *s = v->spill;
    char             text[OS_TEXT_SIZE] = "";
    mt_status        st;
    MT_TRY(spill_threads(s));
    v->local = sh_store_local(s->sh, v->ref.job);
    if (!v->local)
        return mt_error(MT_ENOMEM, 0, "a place for a value that is on disk");
    MT_TRY(sh_store_local_alloc(s->sh, v->local, v->ref.size, &v->place, &v->data, text));
    v->job = (struct io_job){.work = read_work, .done = read_done};
    st = io_worker_submit(s->reader, &v->job);
    if (st.code) {
        place_give_back(v);
        return st;
    }
    spilled_set_state(v, SPILLED_READING);
    return mt_ok();
}

static bool may_wait(mt_status st)
{
    return st.code == MT_ESTORE_FULL || st.code == MT_EAGAIN;
}

void spill_feed_hungry(struct sh_spill *s)
{
    RLT_LIST_EACH(&s->hungry, link) {
        struct spilled *v = mt_container_of(link, struct spilled, link);
        mt_status       st = read_start(v);
        if (may_wait(st))
            return;
        if (st.code)
            spilled_refuse(v, st, NULL);
    }
}

/* Begins to bring a value back. */
static mt_status restore(struct spilled *v)
{
    struct sh_spill *s = v->spill;
    mt_status        st;
    if (v->state != SPILLED_AWAY)
        return mt_ok();
    st = rlt_list_is_empty(&s->hungry) ? read_start(v) : mt_error(MT_EAGAIN, 0, "others wait before it");
    if (!may_wait(st))
        return st;
    spilled_set_state(v, SPILLED_HUNGRY);
    spill_pump(s);
    return mt_ok();
}

/* ---- asking ---- */

static bool copy_of(struct spilled *v, struct lane_ref *here)
{
    if (v->state != SPILLED_HERE)
        return false;
    if (os_store_copy_find(sh_store_of(v->spill->sh), v->ref.id, here).code) {
        spilled_set_state(v, SPILLED_AWAY); /* its owner was said to be gone, and it was not, or so */
        return false;
    }
    v->since_ms = io_now_ms();
    rlt_list_append(&v->spill->copies, &v->link); /* used last */
    return true;
}

void sh_spill_get(struct sh *sh, const struct sh_conn *c, mt_id request, const struct lane_ref *ref)
{
    struct spilled     *v = sh->spill ? spilled_find(sh->spill, ref) : NULL;
    struct spill_waiter w = {.conn = c->conn, .request = request};
    struct lane_ref     here;
    mt_status           st = mt_ok();
    if (!v && os_store_lives(sh_store_of(sh), ref)) {
        sh_send_down(sh, c->conn, CTL_HERE, request, ref, sizeof *ref);
        return;
    }
    if (!v || v->is_dead)
        st = mt_error(MT_EOBJ_LOST, 0, "the value is no longer there");
    else if (copy_of(v, &here)) {
        sh_send_down(sh, c->conn, CTL_HERE, request, &here, sizeof here);
        return;
    } else if (v->waiters.count >= MT_SPILL_WAITERS_MAX)
        st = mt_error(MT_EAGAIN, 0, "too many wait for one value");
    else
        st = mt_vec_push(&v->waiters, w);
    if (st.code) {
        sh_store_refuse(sh, c->conn, request, st, NULL);
        return;
    }
    st = restore(v);
    if (st.code)
        spilled_refuse(v, st, NULL);
}

mt_status sh_spill_serve(struct sh *sh, const struct lane_ref *ref, struct lane_ref *here)
{
    struct spilled *v = sh->spill ? spilled_find(sh->spill, ref) : NULL;
    if (!v || v->is_dead)
        return mt_error(MT_EOBJ_LOST, 0, "the value is no longer there");
    if (v->ref.job != ref->job && sh_jobs_are_apart(sh))
        return mt_error(MT_EWRONGJOB, 0, "it belongs to a job of another user");
    if (copy_of(v, here)) {
        here->job = ref->job; /* whose reader it is, as for a value in memory */
        return mt_ok();
    }
    MT_TRY(restore(v));
    return mt_error(MT_EAGAIN, 0, "the value is on its way from disk");
}
