/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c - the consumer's end of a generator: items in, credits out.
 *
 * Owns:   every struct own_stream; it lives while the user holds it or its task runs.
 * Thread: the caller's, under the owner lock; own_stream_next alone is the user's thread's without it.
 * Always: items are taken in order, each once: what a second attempt makes again is known by its index.
 *
 * Items come as LANE_ITEM through the completion ring. The producer may be `ahead` of what was acknowledged; the credit
 * word of its slot says how far the consumer is, and LANE_GONE when it wants no more. Nothing is sent per item.
 */
#include "clients/lib/owner/result/result.h"

#include "core/base/plant.h"

struct own_stream *own_stream_new(struct own *own, uint32_t ahead)
{
    struct own_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->own = own;
    stream->ahead = ahead;
    stream->next = own->streams;
    stream->link = &own->streams;
    if (own->streams)
        own->streams->link = &stream->next;
    own->streams = stream;
    return stream;
}

static size_t item_padded(const struct lane_value *value)
{
    return sizeof *value + (((size_t)value->size + 7) & ~(size_t)7);
}

void own_stream_free(struct own_stream *stream)
{
    struct own *own = stream->own;
    mt_buf_fini(&stream->in);
    mt_buf_fini(&stream->out);
    stream->out_at = 0;
    own_items_drop(own, stream);
    stream->is_free = true;
    if (stream->task) {
        own_stream_ack(stream, true);
        return; /* the task's end frees the rest */
    }
    mt_vec_fini(&stream->items);
    if (stream->end)
        own_ref_unhold(own, stream->end);
    if (stream->next)
        stream->next->link = stream->link;
    *stream->link = stream->next;
    free(stream);
}

void own_stream_over(struct own *own, struct own_stream *stream)
{
    own_items_over(own, stream);
    if (stream->is_free)
        own_stream_free(stream);
}

/* ---- taking ---- */

bool own_stream_next(struct own_stream *stream, struct own_item *out)
{
    const uint8_t *at;
    if (stream->out_at == stream->out.size)
        return false;
    at = stream->out.data + stream->out_at;
    memcpy(&out->value, at, sizeof out->value);
    out->id = own_stream_item_id(stream->id, stream->used);
    out->index = stream->used;
    out->bytes = at + sizeof out->value;
    stream->out_at += item_padded(&out->value);
    stream->used++;
    return true;
}

bool own_stream_take(struct own_stream *stream)
{
    mt_buf used = stream->out;
    if (!stream->in.size)
        return false;
    MT_ASSERT(stream->out_at == used.size);
    stream->out = stream->in;
    stream->out_at = 0;
    stream->in = used; /* its memory serves the next items */
    stream->in.size = 0;
    return true;
}

/* ---- credits ---- */

static void credit(struct own *own, struct own_lane *lane, struct own_task *task, uint64_t used)
{
    struct lane_record record = own_task_record(own, task, LANE_ACK);
    record.aux = used;
    if (!lane->is_remote) {
        lane_credit_set(lane->memory, record.slot, task->sequence, used);
        if (lane_park_must_wake(lane->peer))
            own_wake(own, lane->peer);
    } else if (lane_ring_push(&lane->forward, &record, NULL)) {
        own_lane_publish(own, lane);
    } else {
        return; /* full: said with the next one */
    }
    if (used != LANE_GONE && used != task->results->stream->acked)
        task->results->stream->acked = used;
}

/* The user has let go before the generator had ended, and the run that there is brings nothing that somebody waits for. */
static bool is_unwanted(const struct own_stream *stream)
{
    return stream->is_free && !own_stream_runs_again(stream) && !own_items_awaited(stream);
}

/* A run again for lost items has credit for all of them from the start, and is not told how far the user is. */
void own_stream_ack(struct own_stream *stream, bool all)
{
    struct own_task *task = stream->task;
    uint64_t         news = stream->used - stream->acked;
    if (!task || !task->lane || (!stream->is_free && (news == 0 || (!all && news < stream->ahead / 4))))
        return;
    if (own_stream_runs_again(stream) ? stream->item_count == 0 : is_unwanted(stream))
        credit(stream->own, task->lane, task, LANE_GONE);
    else if (!own_stream_runs_again(stream) && !stream->is_free)
        credit(stream->own, task->lane, task, stream->used);
}

/* Its record is in the ring, not yet published: the worker finds the word when it begins. */
void own_stream_sent(struct own *own, struct own_lane *lane, struct own_task *task)
{
    struct own_stream *stream = task->results->stream;
    uint64_t           used;
    if (!stream)
        return;
    if (is_unwanted(stream))
        used = LANE_GONE;
    else
        used = own_stream_runs_again(stream) || stream->is_free ? stream->arrived : stream->acked;
    if (!lane->is_remote)
        lane_credit_set(lane->memory, (uint32_t)(task->sequence & (LANE_SLOTS - 1)), task->sequence, 0);
    if (used)
        credit(own, lane, task, used);
}

/* ---- items come ---- */

mt_status own_stream_item(struct own *own, struct own_task *task, const struct lane_record *record, const uint8_t *payload,
                          size_t size)
{
    struct own_stream *stream = task->results ? task->results->stream : NULL;
    struct lane_value  value;
    if (!stream || size < sizeof value)
        return mt_error(MT_EPROTO, 0, "an item of a task that is no generator");
    shm_read(&value, payload, sizeof value);
    if (item_padded(&value) > size)
        return mt_error(MT_EPROTO, 0, "an item that runs past its record");
    MT_TRY(own_value_check(&value, payload + sizeof value));
    if (record->aux > stream->arrived + stream->ahead ||
        (!own_stream_runs_again(stream) && (record->aux > stream->arrived || record->aux >= stream->acked + stream->ahead)))
        return mt_error(MT_EPROTO, 0, "an item out of turn, or beyond its generator's credit");
    if ((record->aux < stream->arrived && !MT_PLANT(MT_PLANT_ITEM_TWICE)) || stream->is_free || own_stream_runs_again(stream)) {
        own_items_came(own, task, record->aux, &value, payload + sizeof value); /* of another attempt: we had it already */
        if (own_stream_runs_again(stream) && record->aux >= stream->arrived)
            credit(own, task->lane, task, LANE_GONE); /* it goes on where the first run ended: nobody wants more */
        else
            stream->arrived += record->aux == stream->arrived;
        if (is_unwanted(stream))
            credit(own, task->lane, task, LANE_GONE); /* this was what a lost one was made again for */
        return mt_ok();
    }
    size = item_padded(&value);
    MT_TRY(mt_buf_reserve(&stream->in, size));
    if (value.flags & LANE_VALUE_SHARED) {
        struct lane_ref place;
        shm_read(&place, payload + sizeof value, sizeof place);
        MT_TRY(own_items_add(own, task, record->aux, &place));
    }
    memcpy(stream->in.data + stream->in.size, &value, sizeof value);
    shm_read(stream->in.data + stream->in.size + sizeof value, payload + sizeof value, size - sizeof value);
    stream->in.size += size;
    stream->arrived++;
    own->completed++;
    return mt_ok();
}
