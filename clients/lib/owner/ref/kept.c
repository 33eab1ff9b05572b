/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - tasks that are kept to make lost values again: what weighs, what is wanted, who is given up.
 *
 * Thread: the caller's, under the owner lock.
 * Always: a kept task has no hold on its results, which lead to it by ref->task; its arguments count it in ref->kept_by.
 */
#include "clients/lib/owner/ref/ref.h"
#include "clients/lib/owner/ref/kept.h"

bool own_kept_is_wanted(const struct own_task *task, uint32_t own_hold)
{
    if (own_stream_of(task))
        return own_stream_of(task)->item_count > 0;
    for (uint32_t i = 0; i < own_result_count(task); i++) {
        const struct own_ref *ref = own_result_at(task, i);
        if (ref->holds > own_hold || ref->borrowers || ref->kept_by)
            return true;
    }
    return false;
}

uint64_t own_kept_weight(const struct own_task *task)
{
    uint64_t bytes = sizeof *task + task->blob_size + task->arg_count * sizeof *task->args;
    for (uint32_t i = 0; i < task->arg_count; i++)
        bytes += task->args[i].ref ? 0 : task->args[i].size;
    return bytes + (task->results ? sizeof *task->results + task->results->count * sizeof task->results->more[0] : 0);
}

void own_kept_leave(struct own *own, struct own_task *task, enum own_task_state state)
{
    own_queue_remove(&own->kept, task);
    own->kept_bytes -= own_kept_weight(task);
    own_task_set_state(task, state);
}

void own_lineage_give_up(struct own *own, struct own_task *task)
{
    own_kept_leave(own, task, OWN_GIVEN_UP);
    own_given_up_post(own, task);
}

/* ---- items of generators ---- */

bool own_is_item(const struct own_ref *ref)
{
    const struct own_task *task = ref->task;
    return task && task->results && task->results->stream && ref != task->ref;
}

struct own_item_ref *own_item_at(const struct own_stream *stream, uint64_t index)
{
    size_t low = 0, high = stream->items.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (stream->items.data[mid].index < index)
            low = mid + 1;
        else
            high = mid;
    }
    struct own_item_ref *entry = low < stream->items.count ? &stream->items.data[low] : NULL;
    return entry && entry->index == index && entry->ref ? entry : NULL;
}

static struct own_item_ref *entry_of(const struct own_ref *item)
{
    const struct own_stream *stream = item->task->results->stream;
    uint64_t                 hops = mt_id_counter(item->id) - mt_id_counter(stream->id) - 1;
    return own_item_at(stream, hops * UINT16_MAX + mt_id_index(item->id) - 1);
}

bool own_items_unheld(struct own *own, struct own_ref *item)
{
    struct own_task   *task = item->task;
    struct own_stream *stream = task->results->stream;
    if (item->kept_by)
        return false;
    own_item_clear(stream, entry_of(item));
    item->task = NULL;
    if (task->state == OWN_KEPT && !stream->item_count)
        own_lineage_give_up(own, task);
    return true;
}
