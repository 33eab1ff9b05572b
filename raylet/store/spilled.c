/* SPDX-License-Identifier: Apache-2.0
 *
 * spilled.c - the table of values on disk: their states, their files, and the copies in memory that can be given up.
 *
 * Owns: struct spilled, struct spill_file. Thread: the loop only.
 * Always: what sh_spill_check says.
 */
#include "raylet/store/spill.h"
#include "objectstore/server/spill.h"

#include "core/base/limits/object.h"
#include "core/base/machine.h"
#include "core/base/plant.h"

#include <stdlib.h>

/* NEW --written and taken--> AWAY --asked for--> HUNGRY --room--> READING --whole--> HERE
 *                             ^ |                   |               ^ |               |
 *                             | '-- there is room --+---------------' |               |
 *                             '----- refused -------'<--- failed -----'<-- given up --' */
static const char *const       state_names[] = {[SPILLED_NEW] = "NEW",
                                                [SPILLED_AWAY] = "AWAY",
                                                [SPILLED_HUNGRY] = "HUNGRY",
                                                [SPILLED_READING] = "READING",
                                                [SPILLED_HERE] = "HERE"};
static const uint32_t          state_next[] = {[SPILLED_NEW] = MT_STATE(SPILLED_AWAY),
                                               [SPILLED_AWAY] = MT_STATE(SPILLED_HUNGRY) | MT_STATE(SPILLED_READING),
                                               [SPILLED_HUNGRY] = MT_STATE(SPILLED_READING) | MT_STATE(SPILLED_AWAY),
                                               [SPILLED_READING] = MT_STATE(SPILLED_HERE) | MT_STATE(SPILLED_AWAY),
                                               [SPILLED_HERE] = MT_STATE(SPILLED_AWAY)};
static const struct mt_machine machine = MT_MACHINE("value on disk", state_names, state_next);

void spilled_set_state(struct spilled *v, enum spilled_state state)
{
    struct sh_spill *s = v->spill;
    MT_TRANSITION(&machine, v->state, state);
    if (v->state == SPILLED_HUNGRY && !MT_PLANT(MT_PLANT_WAIT_UNCOUNTED))
        s->waiting--;
    if (v->state == SPILLED_READING)
        s->reads--;
    rlt_list_out(&v->link);
    v->state = state;
    if (state == SPILLED_HUNGRY) {
        rlt_list_append(&s->hungry, &v->link);
        s->waiting++;
    } else if (state == SPILLED_HERE) {
        rlt_list_append(&s->copies, &v->link);
    }
    if (state == SPILLED_READING)
        s->reads++;
    if (state == SPILLED_HUNGRY || state == SPILLED_HERE)
        v->since_ms = io_now_ms();
}

struct spilled *spilled_find(const struct sh_spill *s, const struct lane_ref *ref)
{
    struct spilled *v = mt_map_ptr(&s->all, spilled_key(ref));
    return v && mt_id_equal(v->ref.id, ref->id) ? v : NULL;
}

void spill_file_drop(struct sh_spill *s, struct spill_file *file)
{
    if (--file->users > 0)
        return;
    if (file->fd >= 0)
        os_disk_close(file->fd);
    s->files--;
    free(file);
}

void spilled_end(struct spilled *v)
{
    struct sh_spill *s = v->spill;
    mt_map_remove(&s->all, spilled_key(&v->ref));
    rlt_list_out(&v->link);
    s->bytes -= v->item.stored;
    s->progress_ms = io_now_ms();
    spill_file_drop(s, v->file);
    mt_vec_fini(&v->waiters);
    free(v);
}

void spilled_refuse(struct spilled *v, mt_status st, const char *text)
{
    if (v->state == SPILLED_HUNGRY)
        spilled_set_state(v, SPILLED_AWAY);
    for (size_t i = 0; i < v->waiters.count; i++)
        sh_store_refuse(v->spill->sh, v->waiters.data[i].conn, v->waiters.data[i].request, st, text);
    v->waiters.count = 0;
}

bool sh_spill_is_awaited(const struct sh *sh)
{
    return sh->spill && !rlt_list_is_empty(&sh->spill->room);
}

/* Where memory and disk are full, a value on disk could not be read any more: some memory is for those alone. */
uint64_t sh_spill_kept(const struct sh *sh)
{
    const struct sh_spill *s = sh->spill;
    uint64_t               most = sh->options.store_bytes / 4, least = sh->options.store_bytes / 8;
    if (!s || s->all.count == 0)
        return 0;
    if (s->largest < least)
        return least;
    return s->largest < most ? s->largest : most;
}

/* ---- what the disk's threads do ---- */

mt_status spill_threads(struct sh_spill *s)
{
    if (!s->writer)
        MT_TRY(io_worker_new(s->sh->loop, MT_SPILL_WRITES_MAX, &s->writer));
    return s->reader ? mt_ok() : io_worker_new(s->sh->loop, MT_SPILL_READS_MAX, &s->reader);
}

void spill_note_done(struct sh_spill *s)
{
    if (!s->is_ending)
        io_timer_start(s->sh->loop, &s->done, 0);
}

/* ---- checking ---- */

const char *sh_spill_check(const struct sh *sh)
{
    const struct sh_spill *s = sh->spill;
    uint32_t               hungry = 0, reading = 0, room = 0;
    uint64_t               bytes = 0;
    if (!s)
        return NULL;
    MT_MAP_EACH(&s->all, entry) {
        const struct spilled *v = entry->value.ptr;
        bool                  is_listed = !rlt_list_is_empty(&v->link);
        hungry += v->state == SPILLED_HUNGRY;
        reading += v->state == SPILLED_READING;
        bytes += v->item.stored;
        if (is_listed != (v->state == SPILLED_HUNGRY || v->state == SPILLED_HERE))
            return "a value on disk is in a list iff it is hungry, or has a copy";
        if (v->waiters.count && v->state != SPILLED_HUNGRY && v->state != SPILLED_READING)
            return "who waits for a value on disk waits for one that is on its way";
        if (v->is_dead && v->state != SPILLED_READING)
            return "a dead value on disk is kept only while it is read";
    }
    for (const struct rlt_list *link = s->room.next; link != &s->room; link = link->next)
        room++;
    if (s->waiting != hungry + room)
        return "who waits for room is counted once";
    if (s->reads != reading)
        return "each read that is under way is of one value";
    return s->bytes == bytes ? NULL : "the bytes on disk are those of its values";
}

/* ---- giving copies up ---- */

bool sh_spill_shed(struct sh *sh, uint64_t bytes)
{
    struct sh_spill *s = sh->spill;
    uint64_t         shed = 0, now = io_now_ms();
    if (!s)
        return false;
    RLT_LIST_EACH(&s->copies, link) {
        struct spilled *v = mt_container_of(link, struct spilled, link);
        struct lane_ref here;
        if (shed >= bytes || now - v->since_ms < MT_SPILL_GRACE_MS)
            break;
        if (os_store_copy_find(sh_store_of(sh), v->ref.id, &here).code == 0 && os_store_is_pinned(sh_store_of(sh), &here))
            continue;
        (void)os_store_copy_dead(sh_store_of(sh), v->ref.id).code; /* it may be gone already */
        spilled_set_state(v, SPILLED_AWAY);
        shed += v->ref.size;
    }
    if (shed)
        sh_store_settle(sh);
    return shed > 0;
}

/* ---- for people who look ---- */

static int by_place(const void *a, const void *b)
{
    const struct os_seen *x = a, *y = b;
    uint64_t              p = os_place_word(x->segment, x->offset), q = os_place_word(y->segment, y->offset);
    return p < q ? -1 : p > q;
}

uint32_t sh_spill_look(const struct sh *sh, uint64_t after, struct os_seen *out, uint32_t room)
{
    const struct sh_spill *s = sh->spill;
    uint32_t               count = 0, all = s ? (uint32_t)s->all.count : 0;
    struct os_seen        *seen = all ? calloc(all, sizeof *seen) : NULL;
    if (!seen)
        return 0;
    MT_MAP_EACH(&s->all, entry) {
        const struct lane_ref *ref = &((const struct spilled *)entry->value.ptr)->ref;
        if (os_place_word(ref->segment, ref->offset) > after)
            seen[count++] = (struct os_seen){.id = ref->id,
                                             .size = ref->size,
                                             .offset = ref->offset,
                                             .segment = ref->segment,
                                             .job = ref->job,
                                             .owner_node = ref->owner_node,
                                             .type = ref->type};
    }
    qsort(seen, count, sizeof *seen, by_place);
    count = count < room ? count : room;
    memcpy(out, seen, count * sizeof *out);
    free(seen);
    return count;
}

uint64_t sh_spill_bytes(const struct sh *sh)
{
    return sh->spill ? sh->spill->bytes : 0;
}
