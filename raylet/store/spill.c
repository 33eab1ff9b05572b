/* SPDX-License-Identifier: Apache-2.0
 *
 * spill.c - writes values to disk, so that a full object store has room.
 *
 * Owns: the spill files. Thread: the loop only; a thread of core/io writes, and sees nothing but bytes.
 * Always: a value is in the table iff it is whole on disk and os_store_take has ended it in memory.
 *
 *   somebody waits (waits.c) --> victims are chosen --> written (two files ahead) --> taken --> its pages go
 *
 * The files have no names, so what is in them is gone with this process.
 */
#include "raylet/store/spill.h"
#include "objectstore/server/spill.h"

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
    spill_note_done(s);
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

bool sh_spill_is_making_room(struct sh *sh, uint64_t size)
{
    struct sh_spill *s = sh->spill;
    if (!s || !sh->options.spill_dir[0] || size > sh->options.store_bytes)
        return false;
    if (s->writes == 0 && !s->refused.code && spill_threads(s).code == 0)
        (void)write_start(s);
    return s->writes > 0;
}
