/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.h - generators: items that a task or call makes one after the other, as their consumer has them.
 *
 * Data only. Thread: as own.h.
 */
#ifndef OWN_STATE_STREAM_H
#define OWN_STATE_STREAM_H

#include "clients/lib/owner/state/task.h"
#include "core/ds/vec.h"

/* An item that stands in the store: items.c. */
struct own_item_ref {
    uint64_t        index;
    struct own_ref *ref;      /* NULL: it is gone */
    bool            is_taken; /* the user has it */
    bool            is_late;  /* lost behind the place where its generator is: the next run brings it */
};

/* The public manta_generator: items of one task or call, in order, each taken once. */
struct own_stream {
    struct own      *own;
    struct own_task *task; /* makes the items, or may make them again (OWN_KEPT); NULL once it is finished */
    struct own_ref  *end;  /* ready when it has ended, failed where it failed; one hold */
    mt_id            id;   /* of the task */
    uint64_t         arrived;
    uint64_t         used;    /* given to the user */
    uint64_t         acked;   /* of them the producer knows */
    uint32_t         ahead;   /* items it may have made that are not used */
    bool             is_free; /* the user has let go */
    mt_buf           in;      /* items: lane_value, bytes, padded to 8 */
    mt_buf           out;     /* the same, being used: touched by the user's thread alone */
    size_t           out_at;
    MT_VEC(struct own_item_ref) items; /* in the store, in order */
    uint32_t           item_count;     /* of them that are not gone */
    struct own_stream *next, **link;   /* in own->streams */
};
struct own_item {
    mt_id             id; /* for a ref of it */
    uint64_t          index;
    struct lane_value value;
    const uint8_t    *bytes; /* until the next own_stream_next */
};

/* Its items are all there, and its task runs again for those that were lost. */
static inline bool own_stream_runs_again(const struct own_stream *stream)
{
    return own_ref_is_ready(stream->end);
}
static inline mt_id own_stream_item_id(mt_id task, uint64_t index)
{
    return mt_id_make(task.process, mt_id_counter(task) + 1 + index / UINT16_MAX, (uint16_t)(index % UINT16_MAX + 1));
}
enum { OWN_STREAM_COUNTERS = 1 << 20 }; /* of ids, kept for the items of one stream */

#endif
