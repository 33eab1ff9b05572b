/* SPDX-License-Identifier: Apache-2.0
 *
 * result.h - what a task brings back: one value, several, the items of a generator.
 *
 * Thread: as own.h; own_stream_next the user's, without the owner lock.
 */
#ifndef OWN_RESULT_H
#define OWN_RESULT_H

#include "clients/lib/owner/ref/ref.h"

/* ---- generators: stream.c ---- */
/* A stream with one hold of the user's. NULL: no memory. */
struct own_stream *own_stream_new(struct own *own, uint32_t ahead);
void own_stream_free(struct own_stream *stream); /* the user lets go: the producer is told, what was not taken is dropped */
bool own_stream_next(struct own_stream *stream, struct own_item *out); /* no lock needed; false: take more */
bool own_stream_take(struct own_stream *stream);                       /* under the lock: what has arrived; false: nothing */
/* Says how many items are used, where that makes a difference, or `all`. */
void      own_stream_ack(struct own_stream *stream, bool all);
void      own_stream_sent(struct own *own, struct own_lane *lane, struct own_task *task);
mt_status own_stream_item(struct own *own, struct own_task *task, const struct lane_record *record, const uint8_t *payload,
                          size_t size);

/* The generator will not run again; ends the stream if the user has let go of it. */
void own_stream_over(struct own *own, struct own_stream *stream);

/* ---- items of generators: items.c ---- */
/* It has come, and stands there. */
MT_MUST_USE mt_status own_items_add(struct own *own, struct own_task *task, uint64_t index, const struct lane_ref *place);
/* The user takes it, and its hold. NULL: it is not in the store. */
struct own_ref *own_items_take(struct own_stream *stream, uint64_t index);
/* The user takes none any more. */
void own_items_drop(struct own *own, struct own_stream *stream);
/* The generator will not run again. */
void own_items_over(struct own *own, struct own_stream *stream);
/* As own_lineage_mark, of all items; NULL: no one in particular. */
void own_items_mark(struct own *own, struct own_task *task, const struct own_ref *item, uint32_t node);
/* The next run begins: it brings all items. */
void own_items_again(struct own_stream *stream);
/* Whether the run that there is should bring one that was lost. */
bool own_items_awaited(const struct own_stream *stream);
/* An item that had come before comes again. */
void own_items_came(struct own *own, struct own_task *task, uint64_t index, const struct lane_value *value, const uint8_t *bytes);
void own_items_why(struct own_stream *stream, enum own_why_not why);
void own_items_failed(struct own *own, struct own_task *task, const struct own_failure *why);
/* The generator has ended well; `why`: it can't run again. What did not come again is lost. */
enum own_items_left { OWN_ITEMS_HERE = 0, OWN_ITEMS_AWAY = 1 /* to be kept for them */, OWN_ITEMS_LOST = 2 /* to run again */ };
enum own_items_left own_items_settle(struct own *own, struct own_task *task, enum own_why_not why);

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

/* ---- a value is lost: items.c ---- */
/* The task that made it is posted to run again, with all of its values that stood on `node` (0: this one alone). */
void own_lineage_lose(struct own *own, struct own_ref *ref, uint32_t node);

#endif
