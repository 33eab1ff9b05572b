/* SPDX-License-Identifier: Apache-2.0
 *
 * lineage.h - values that were lost: who keeps what to make them again, and how a reader finds out.
 *
 * Thread: as own.h.
 */
#ifndef OWN_OWN_LINEAGE_H
#define OWN_OWN_LINEAGE_H

#include "clients/lib/owner/stream.h"

/* ---- the owner: lineage.c ---- */
/* A task of another node has brought its values: true: it is kept in case they are lost; false: it is to be finished. */
bool own_lineage_keep(struct own *own, struct own_task *task);
/* Nobody has the ref any more, but tasks that may run again: true: it stays for them. */
bool own_lineage_holds(struct own *own, struct own_ref *ref);
/* A kept task that nobody needs any more. */
void own_lineage_give_up(struct own *own, struct own_task *task);
/* One result of a task that is to run again: `is_it` is lost, and so is what stood on `node` (0: none). True: it is awaited. */
bool own_lineage_mark(struct own *own, struct own_ref *ref, bool is_it, uint32_t node);
/* That node has died: what stood there before is lost. */
void own_lineage_node_died(struct own *own, uint32_t node);
/* Arguments of a call that stood on a node which has died are made again before it is sent: its actor may be the one to make
 * them. True: it waits for them. */
bool own_lineage_waits(struct own *own, struct own_task *call);
/* What a run brings for a ref that had a value, or failed, before. */
void own_lineage_value(struct own *own, struct own_ref *ref, const struct lane_value *value, const struct lane_ref *place);
/* The refs that the run's first value declares take the place of those that the lost one declared. */
mt_status own_lineage_declare(struct own *own, struct own_ref *ref, struct own_ref **take_refs, uint32_t count);
void      own_lineage_failed(struct own *own, struct own_ref *ref, const struct own_failure *why);
/* A value of ours was not to be had at `at` (NULL: it was let go). OWN_LOST_MOVED: it is elsewhere now; FAILED: *out says why
 * it can't be made again; WAIT: it is being made, and the ref's waiters will be told. */
enum own_lost { OWN_LOST_WAIT = 1, OWN_LOST_MOVED = 2, OWN_LOST_FAILED = 3 };
enum own_lost own_ref_lost(struct own *own, struct own_ref *ref, const struct lane_ref *at, int32_t code, const char *text,
                           struct own_failure *out);
/* Where the value is, as far as we know; state is OWN_REF_PLACE. Views keep to the place that they have pinned, so the first
 * one stays in value.place. */
const struct lane_ref *own_ref_place(struct own *own, const struct own_ref *ref);
void                   own_ref_moved(struct own *own, struct own_ref *ref, const struct lane_ref *place);
static inline bool     own_place_is(const struct lane_ref *a, const struct lane_ref *b)
{
    return a->node == b->node && a->segment == b->segment && a->offset == b->offset && a->generation == b->generation &&
           a->attempt == b->attempt;
}

/* ---- items of generators: items.c ---- */
bool own_is_item(const struct own_ref *ref); /* and its generator may still make it again */
/* It has come, and stands there. */
MT_MUST_USE mt_status own_items_add(struct own *own, struct own_task *task, uint64_t index, const struct lane_ref *place);
/* The user takes it, and its hold. NULL: it is not in the store. */
struct own_ref *own_items_take(struct own_stream *stream, uint64_t index);
/* The user takes none any more. */
void own_items_drop(struct own *own, struct own_stream *stream);
/* Nobody has the item: true: it may be freed; false: tasks that may run again need it. */
bool own_items_unheld(struct own *own, struct own_ref *item);
/* The generator will not run again; ends the stream if the user has let go of it. */
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

/* ---- the reader: message.c ---- */
/* A value is not where it should be: where is it? On the stack of whoever wants to know. */
struct own_doubt {
    struct own_doubt  *next;
    mt_id              ref;
    struct own_ref    *mine; /* it is ours, and being made again; NULL: its owner has been asked */
    bool               is_over;
    struct lane_ref    place; /* then: where it is now, or ... */
    struct own_failure why;   /* ... why it is nowhere, if the code is not 0 */
};
/* The value is not to be had at that place, for that reason: its owner is asked, and it is over when that one knows another
 * place (once its task has run again), or that there is none, or is known to be dead. `mine` (may be NULL): our own ref of it,
 * held by the caller. Begin and end are a pair. */
void own_doubt_begin(struct own *own, struct own_doubt *doubt, struct own_ref *mine, const struct lane_ref *at, int32_t code,
                     const char *text);
bool own_doubt_is_over(struct own *own, struct own_doubt *doubt);
void own_doubt_end(struct own *own, const struct own_doubt *doubt);

#endif
