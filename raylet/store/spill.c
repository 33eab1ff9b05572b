/* SPDX-License-Identifier: Apache-2.0
 *
 * spill.c - makes room in a full object store: writes values to disk while processes wait for it.
 *
 * Owns: the spill files, the table of what is in them, and who waits for room. Thread: the loop only; the disk is read and
 * written by two threads of core/io, which see nothing but bytes.
 * Always: a value is in the table iff it is whole on disk and os_store_take has ended it in memory; nobody who waits for
 * room is passed by one who came later; each is answered once.
 *
 *   a want finds no room --> waits; victims are chosen --> written (two files ahead) --> taken --> its pages go --> granted
 *                              '-- nothing gets free for MT_ROOM_MS: the store's or the disk's error
 *
 * The files have no names, so what is in them is gone with this process.
 */
#include "raylet/store/spill.h"

#include "core/base/limits/object.h"
#include "core/base/limits/text.h"
#include "core/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One file on its way to disk. */
struct write_job {
    struct io_job        job;
    struct sh_spill     *spill;
    struct spill_file   *file;
    char                 folder[MT_PATH_BYTES_MAX];
    mt_status            result;         /* of the first value that failed */
    uint32_t             count, written; /* values; those before `written` are whole */
    struct lane_ref     *refs;
    struct os_disk_item *items;
    const void         **data;
};

/* ---- writing: the disk's thread ---- */

static void write_work(struct io_job *job)
{
    struct write_job *w = mt_container_of(job, struct write_job, job);
    uint64_t          at = 0;
    w->result = os_disk_open(w->folder, &w->file->fd);
    while (w->result.code == 0 && w->written < w->count) {
        w->result = os_disk_write(w->file->fd, &at, &w->items[w->written], w->data[w->written]);
        w->written += w->result.code == 0;
    }
}

/* ---- written ---- */

static void write_free(struct write_job *w)
{
    free(w->refs);
    free(w->items);
    free(w->data);
    free(w);
}

static void took(struct sh_spill *s, struct write_job *w, uint32_t i)
{
    struct spilled *v = calloc(1, sizeof *v);
    if (!v || mt_map_put_ptr(&s->all, spilled_key(&w->refs[i]), v).code) {
        free(v);
        os_store_spare(sh_store_of(s->sh), &w->refs[i]);
        return;
    }
    v->spill = s;
    v->ref = w->refs[i];
    v->item = w->items[i];
    v->file = w->file;
    rlt_list_init(&v->link);
    spilled_set_state(v, SPILLED_AWAY);
    w->file->users++;
    s->bytes += v->item.stored;
    if (v->ref.size > s->largest)
        s->largest = v->ref.size;
    if (os_store_take(sh_store_of(s->sh), &w->refs[i]).code)
        spilled_end(v);
}

static void write_done(struct io_job *job)
{
    struct write_job *w = mt_container_of(job, struct write_job, job);
    struct sh_spill  *s = w->spill;
    for (uint32_t i = 0; i < w->count; i++) {
        if (i < w->written && !s->is_ending)
            took(s, w, i);
        else
            os_store_spare(sh_store_of(s->sh), &w->refs[i]);
    }
    if (w->result.code) {
        if (s->refused.code != w->result.code)
            mt_log_status(MT_LOG_WARN, "spill_write", w->result); /* once, not at each try */
        s->refused = w->result;
        s->refused_ms = io_now_ms();
    } else {
        s->refused = mt_ok();
        s->progress_ms = io_now_ms();
    }
    s->writes--;
    spill_file_drop(s, w->file);
    write_free(w);
    sh_store_release(s->sh);
    spill_settle(s);
}

/* ---- choosing ---- */

/* How much is written at a time: a small store is not emptied for a small want. */
static uint64_t goal(const struct sh_spill *s)
{
    const struct spill_waiter *first = rlt_list_first(&s->room, struct spill_waiter, in_room);
    const struct spilled      *hungry = rlt_list_first(&s->hungry, struct spilled, link);
    uint64_t                   want = first ? first->size : hungry ? hungry->ref.size : 0, share = s->sh->options.store_bytes / 8;
    if (share > MT_SPILL_FILE_BYTES)
        share = MT_SPILL_FILE_BYTES;
    return want > share ? want : share;
}

static struct write_job *write_new(struct sh_spill *s)
{
    struct write_job *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->refs = calloc(MT_SPILL_VALUES_MAX, sizeof *w->refs);
    w->items = calloc(MT_SPILL_VALUES_MAX, sizeof *w->items);
    w->data = calloc(MT_SPILL_VALUES_MAX, sizeof *w->data);
    w->file = calloc(1, sizeof *w->file);
    if (!w->refs || !w->items || !w->data || !w->file) {
        free(w->file);
        write_free(w);
        return NULL;
    }
    w->spill = s;
    w->job.work = write_work;
    w->job.done = write_done;
    *w->file = (struct spill_file){.fd = -1, .users = 1};
    s->files++;
    snprintf(w->folder, sizeof w->folder, "%s", s->sh->options.spill_dir);
    return w;
}

static mt_status disk_allows(const struct sh_spill *s, uint64_t bytes)
{
    if (s->files >= MT_SPILL_FILES_MAX)
        return mt_error(MT_EDISK_FULL, 0, "too many spill files");
    if (s->sh->options.spill_bytes && s->bytes + bytes > s->sh->options.spill_bytes)
        return mt_error(MT_EDISK_FULL, 0, "the limit of spilled bytes is reached");
    return mt_ok();
}

/* Begins one file. False: there is nothing to write, or nowhere. */
static bool write_start(struct sh_spill *s)
{
    struct os_store  *store = sh_store_of(s->sh);
    struct write_job *w = write_new(s);
    uint64_t          bytes = 0;
    mt_status         st;
    if (!w)
        return false;
    w->count = sh_store_victims(s->sh, goal(s), w->refs, MT_SPILL_VALUES_MAX);
    for (uint32_t i = 0; i < w->count; i++) {
        w->items[i].size = w->refs[i].size;
        w->data[i] = os_store_victim_data(store, &w->refs[i]);
        bytes += w->refs[i].size;
    }
    st = w->count ? disk_allows(s, bytes) : mt_error(MT_ENOENT, 0, "nothing can be spilled");
    if (st.code == 0)
        st = io_worker_submit(s->writer, &w->job);
    if (st.code == 0) {
        s->writes++;
        sh_store_hold(s->sh);
        return true;
    }
    if (st.code == MT_EDISK_FULL) {
        s->refused = st;
        s->refused_ms = io_now_ms();
    }
    for (uint32_t i = 0; i < w->count; i++)
        os_store_spare(store, &w->refs[i]);
    spill_file_drop(s, w->file);
    write_free(w);
    return false;
}

mt_status spill_threads(struct sh_spill *s)
{
    if (!s->writer)
        MT_TRY(io_worker_new(s->sh->loop, MT_SPILL_WRITES_MAX, &s->writer));
    return s->reader ? mt_ok() : io_worker_new(s->sh->loop, MT_SPILL_READS_MAX, &s->reader);
}

void spill_pump(struct sh_spill *s)
{
    bool may_write = !s->refused.code || io_now_ms() - s->refused_ms >= MT_SPILL_AGAIN_MS;
    if (s->is_ending || !s->waiting)
        return;
    if (may_write && spill_threads(s).code == 0)
        while (s->writes < MT_SPILL_WRITES_MAX && write_start(s))
            ;
    io_timer_start(s->sh->loop, &s->timer, MT_SPILL_LOOK_MS);
}

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

static void look(struct io_timer *timer)
{
    struct sh_spill *s = mt_container_of(timer, struct sh_spill, timer);
    sh_store_settle(s->sh);
    spill_feed_hungry(s);
    serve_room(s);
    refuse_hungry(s);
    spill_pump(s);
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

void spill_settle(struct sh_spill *s)
{
    if (s->is_ending)
        return;
    look(&s->timer);
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

bool sh_spill_is_making_room(struct sh *sh, uint64_t size)
{
    struct sh_spill *s = sh->spill;
    if (!s || !sh->options.spill_dir[0] || size > sh->options.store_bytes)
        return false;
    if (s->writes == 0 && !s->refused.code && spill_threads(s).code == 0)
        (void)write_start(s);
    return s->writes > 0;
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
    s->timer.fire = look;
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
