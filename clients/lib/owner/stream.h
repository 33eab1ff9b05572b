/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.h - generators: items that a task or call makes one after the other, as their consumer has them.
 *
 * Thread: as own.h; own_stream_next the user's, without the owner lock.
 */
#ifndef OWN_OWN_STREAM_H
#define OWN_OWN_STREAM_H

#include "clients/lib/owner/own.h"

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

/* A stream with one hold of the user's. NULL: no memory. */
struct own_stream *own_stream_new(struct own *own, uint32_t ahead);
void own_stream_free(struct own_stream *stream); /* the user lets go: the producer is told, what was not taken is dropped */
/* Its items are all there, and its task runs again for those that were lost. */
static inline bool own_stream_runs_again(const struct own_stream *stream)
{
    return own_ref_is_ready(stream->end);
}
bool  own_stream_next(struct own_stream *stream, struct own_item *out); /* no lock needed; false: take more */
bool  own_stream_take(struct own_stream *stream);                       /* under the lock: what has arrived; false: nothing */
mt_id own_stream_item_id(mt_id task, uint64_t index);
enum { OWN_STREAM_COUNTERS = 1 << 20 }; /* of ids, kept for the items of one stream */
/* Says how many items are used, where that makes a difference, or `all`. */
void      own_stream_ack(struct own_stream *stream, bool all);
void      own_stream_sent(struct own *own, struct own_lane *lane, struct own_task *task);
mt_status own_stream_item(struct own *own, struct own_task *task, const struct lane_record *record, const uint8_t *payload,
                          size_t size);

/* ---- more than one plain value: result.c ---- */
/* Room for several values or a stream. False: no memory. */
bool     own_results_new(struct own *own, struct own_task *task, const struct own_call *call);
void     own_results_drop(struct own *own, struct own_task *task);
void     own_results_again(struct own *own, struct own_task *task); /* another attempt: forgets what it declared */
uint32_t own_results_word(const struct own_task *task);             /* lane_call_head.results, where there are such */
/* Every value of the task fails, or its generator ends so. */
void own_task_set_failed(struct own *own, struct own_task *task, const struct own_failure *why);
/* The payload of LANE_DONE: values, then ids of refs that the worker holds. */
mt_status own_task_set_values(struct own *own, struct own_lane *lane, struct own_task *task, const uint8_t *payload, size_t size);
/* The same payload, of a task whose result nobody will have: what lies in the store is given back. */
void own_task_drop_values(struct own *own, const struct own_lane *lane, const struct own_task *task, const uint8_t *payload,
                          size_t size);
/* Ids of refs that the worker of that lane still holds after a run, however that ended: behind values and failures. */
void own_note_held(struct own *own, const struct own_lane *lane, const uint8_t *ids, size_t size);
/* The payload of LANE_REFS. */
mt_status own_task_declares(struct own *own, struct own_task *task, const uint8_t *payload, size_t size);

#endif
