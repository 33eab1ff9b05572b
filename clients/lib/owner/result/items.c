/* SPDX-License-Identifier: Apache-2.0
 *
 * items.c - items of generators that stand in the store, and how lost ones are made again.
 *
 * Owns:   the entries of stream->items: one for each item that is not taken (with a hold), and as long as the generator can
 *         run again for each that somebody still has (without one).
 * Thread: the caller's, under the owner lock.
 * Always: while ref->task of an item leads to the generator, its entry leads to the ref. Entries are in the order of items.
 *
 * A lost item is made again by the whole generator, from the first item on; what is there already is dropped. Items that are
 * lost while it runs come with its next run: at once where its worker died, else when it has ended.
 */
#include "clients/lib/owner/result/result.h"
#include "clients/lib/owner/ref/kept.h"

/* Entries that were cleared go, once they are the most of them. */
static void entries_pack(struct own_stream *stream)
{
    size_t kept = 0;
    if (stream->items.count < 64 || stream->item_count > stream->items.count / 2)
        return;
    for (size_t i = 0; i < stream->items.count; i++)
        if (stream->items.data[i].ref)
            stream->items.data[kept++] = stream->items.data[i];
    stream->items.count = kept;
}

/* ---- items come and go ---- */

mt_status own_items_add(struct own *own, struct own_task *task, uint64_t index, const struct lane_ref *place)
{
    struct own_stream  *stream = task->results->stream;
    struct own_item_ref entry = {.index = index};
    struct lane_ref     at = *place;
    entries_pack(stream);
    MT_TRY(mt_vec_reserve(&stream->items, 1));
    entry.ref = own_ref_new(own, own_stream_item_id(task->id, index));
    if (!entry.ref)
        return mt_error(MT_ENOMEM, 0, "an item of a generator");
    at.id = entry.ref->id;
    at.attempt = task->attempt;
    entry.ref->flags |= OWN_REF_ESCAPED;
    entry.ref->task = task;
    own_ref_set_place(own, entry.ref, &at);
    stream->item_count++;
    return mt_vec_push(&stream->items, entry);
}

struct own_ref *own_items_take(struct own_stream *stream, uint64_t index)
{
    struct own_item_ref *entry = own_item_at(stream, index);
    struct own_ref      *ref = entry ? entry->ref : NULL;
    if (!ref)
        return NULL;
    entry->is_taken = true;
    if (!ref->task)
        own_item_clear(stream, entry);
    return ref;
}

void own_items_drop(struct own *own, struct own_stream *stream)
{
    for (size_t i = 0; i < stream->items.count; i++) {
        struct own_item_ref *entry = &stream->items.data[i];
        struct own_ref      *ref = entry->ref;
        if (!ref || entry->is_taken)
            continue;
        entry->is_taken = true;
        if (!ref->task)
            own_item_clear(stream, entry);
        own_ref_unhold(own, ref);
    }
}

void own_items_over(struct own *own, struct own_stream *stream)
{
    stream->task = NULL;
    for (size_t i = 0; i < stream->items.count; i++)
        if (stream->items.data[i].ref)
            stream->items.data[i].ref->task = NULL;
    for (size_t i = 0; i < stream->items.count; i++) {
        struct own_item_ref *entry = &stream->items.data[i];
        struct own_ref      *ref = entry->ref;
        if (!ref || !entry->is_taken)
            continue;
        own_item_clear(stream, entry);
        own_ref_unheld(own, ref); /* it may be there for a task that may run again */
    }
}

/* ---- lost, and made again ---- */

void own_items_mark(struct own *own, struct own_task *task, const struct own_ref *item, uint32_t node)
{
    struct own_stream *stream = task->results->stream;
    for (size_t i = 0; i < stream->items.count; i++) {
        struct own_item_ref *entry = &stream->items.data[i];
        if (entry->ref && own_lineage_mark(own, entry->ref, entry->ref == item, node))
            entry->is_late = task->state == OWN_SENT;
    }
}

bool own_items_awaited(const struct own_stream *stream)
{
    for (size_t i = 0; stream->item_count && i < stream->items.count; i++)
        if (stream->items.data[i].ref && stream->items.data[i].ref->again == OWN_AGAIN_RUNS && !stream->items.data[i].is_late)
            return true;
    return false;
}

void own_items_again(struct own_stream *stream)
{
    for (size_t i = 0; i < stream->items.count; i++)
        stream->items.data[i].is_late = false;
}

void own_items_came(struct own *own, struct own_task *task, uint64_t index, const struct lane_value *value, const uint8_t *bytes)
{
    const struct own_item_ref *entry = own_item_at(task->results->stream, index);
    struct lane_ref            place = {.node = 0};
    if (value->flags & LANE_VALUE_SHARED)
        shm_read(&place, bytes, sizeof place);
    place.id = own_stream_item_id(task->id, index);
    place.attempt = task->attempt;
    if (entry)
        own_lineage_value(own, entry->ref, value, &place);
    else if (value->flags & LANE_VALUE_SHARED && own->free_place)
        own->free_place(own, &place, true);
}

void own_items_why(struct own_stream *stream, enum own_why_not why)
{
    for (size_t i = 0; i < stream->items.count; i++)
        if (stream->items.data[i].ref)
            stream->items.data[i].ref->why_not = why;
}

void own_items_failed(struct own *own, struct own_task *task, const struct own_failure *why)
{
    struct own_stream *stream = task->results->stream;
    for (size_t i = 0; i < stream->items.count; i++) {
        struct own_ref *ref = stream->items.data[i].ref;
        if (!ref)
            continue;
        ref->why_not = OWN_WHY_ITEM;
        own_lineage_failed(own, ref, why);
    }
}

/* What the run that has ended should have brought, or no other will. */
static void fail_awaited(struct own *own, struct own_task *task, enum own_why_not why)
{
    struct own_stream *stream = task->results->stream;
    struct own_failure f;
    own_failure_set(&f, MT_EOBJ_LOST, why ? "%s has no retry left for it" : "the run of %s ended without this item", task->name);
    for (size_t i = 0; i < stream->items.count; i++) {
        struct own_ref *ref = stream->items.data[i].ref;
        if (!ref)
            continue;
        ref->why_not = why;
        if (!stream->items.data[i].is_late || why)
            own_lineage_failed(own, ref, &f);
    }
}

enum own_items_left own_items_settle(struct own *own, struct own_task *task, enum own_why_not why)
{
    struct own_stream  *stream = task->results->stream;
    enum own_items_left left = OWN_ITEMS_HERE;
    fail_awaited(own, task, why);
    for (size_t i = 0; i < stream->items.count && left != OWN_ITEMS_LOST; i++) {
        const struct own_ref *ref = stream->items.data[i].ref;
        if (ref && ref->again == OWN_AGAIN_RUNS)
            left = OWN_ITEMS_LOST;
        else if (ref && (own_ref_place(own, ref)->node != own->node || ref->again == OWN_AGAIN_GONE))
            left = OWN_ITEMS_AWAY;
    }
    return left;
}

void own_lineage_lose(struct own *own, struct own_ref *ref, uint32_t node)
{
    struct own_task *task = ref->task;
    if (own_stream_of(task))
        own_items_mark(own, task, ref, node);
    else
        for (uint32_t i = 0; i < own_result_count(task); i++)
            (void)own_lineage_mark(own, own_result_at(task, i), own_result_at(task, i) == ref, node);
    if (task->state != OWN_KEPT)
        return;
    own_kept_leave(own, task, OWN_RERUN);
    own_rerun_post(own, task, node);
}
