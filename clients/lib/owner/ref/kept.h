/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.h - door: what is kept so that a lost value can be made again: its task, and the refs that a second run brings anew.
 *
 * Thread: as own.h.
 */
#ifndef OWN_KEPT_H
#define OWN_KEPT_H

#include "clients/lib/owner/ref/ref.h"

/* ---- value.c ---- */

/* One result of a task that is to run again: `is_it` is lost, and so is what stood on `node` (0: none). True: it is awaited. */
bool own_lineage_mark(struct own *own, struct own_ref *ref, bool is_it, uint32_t node);
/* A value of ours is lost: our raylet asks the nodes that have copies, and it is sought until one has it, or own_ref_not_found.
 * False: no other node is to be asked. */
bool own_lineage_seek(struct own *own, struct own_ref *ref, int32_t code, const char *text);
/* It was sought, and is here now; or it was not, and its place is another one. */
void own_lineage_found(struct own *own, struct own_ref *ref, const struct lane_ref *place);
/* It was sought, no node has a copy, and no task can make it: who waits for it hears why. It is where it was, should that node come
 * back. */
void own_lineage_nowhere(struct own *own, struct own_ref *ref, const struct own_failure *why);
/* What a run brings for a ref that had a value, or failed, before. */
void own_lineage_value(struct own *own, struct own_ref *ref, const struct lane_value *value, const struct lane_ref *place);
void own_lineage_failed(struct own *own, struct own_ref *ref, const struct own_failure *why);

/* ---- declare.c ---- */

/* The refs that the run's first value declares take the place of those that the lost one declared. */
mt_status own_lineage_declare(struct own *own, struct own_ref *ref, struct own_ref **take_refs, uint32_t count);

/* ---- kept.c ---- */

bool     own_kept_is_wanted(const struct own_task *task, uint32_t own_hold); /* `own_hold`: holds that are the task's own */
uint64_t own_kept_weight(const struct own_task *task);
/* Leaves own->kept, for `state`: OWN_RERUN or OWN_GIVEN_UP. */
void own_kept_leave(struct own *own, struct own_task *task, enum own_task_state state);
/* A kept task that nobody needs any more: posted. */
void                 own_lineage_give_up(struct own *own, struct own_task *task);
bool                 own_is_item(const struct own_ref *ref);                       /* and its generator may still make it again */
struct own_item_ref *own_item_at(const struct own_stream *stream, uint64_t index); /* NULL: there is none */
static inline void   own_item_clear(struct own_stream *stream, struct own_item_ref *entry)
{
    entry->ref = NULL;
    stream->item_count--;
}
/* Nobody has the item: true: it may be freed; false: tasks that may run again need it. */
bool own_items_unheld(struct own *own, struct own_ref *item);

#endif
