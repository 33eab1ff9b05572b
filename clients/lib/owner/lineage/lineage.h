/* SPDX-License-Identifier: Apache-2.0
 *
 * lineage.h - values that were lost: who keeps what to make them again, how a reader finds out; and own_settle.
 *
 * Thread: as own.h.
 */
#ifndef OWN_LINEAGE_H
#define OWN_LINEAGE_H

#include "clients/lib/owner/actor/actor.h"
#include "clients/lib/owner/ref/doubt.h"

/* ---- notes: settle.c ---- */
/* Moves on what was posted, until nothing is left. From the owner's outermost calls only: own_settle_posted. */
void               own_settle(struct own *own);
static inline void own_settle_posted(struct own *own)
{
    if (MT_UNLIKELY(own->is_posted))
        own_settle(own);
}

/* ---- the owner: again.c, lost.c ---- */
/* A task of another node has brought its values: true: it is kept in case they are lost; false: it is to be finished. */
bool own_lineage_keep(struct own *own, struct own_task *task);
/* That node has died: what stood there before is lost. */
void own_lineage_node_died(struct own *own, uint32_t node);
/* It was posted: its task runs once more. */
void own_lineage_again(struct own *own, struct own_task *task);
/* What was posted as given up is freed. */
void own_lineage_free_given_up(struct own *own);
void own_lineage_failure(struct own *own, const struct own_ref *ref, int32_t code, const char *text, struct own_failure *out);
/* A value of ours was not to be had at `at` (NULL: it was let go). OWN_LOST_MOVED: it is elsewhere now; FAILED: *out says why
 * it can't be made again; WAIT: it is being made, and the ref's waiters will be told. */
enum own_lost { OWN_LOST_WAIT = 1, OWN_LOST_MOVED = 2, OWN_LOST_FAILED = 3 };
enum own_lost own_ref_lost(struct own *own, struct own_ref *ref, const struct lane_ref *at, int32_t code, const char *text,
                           struct own_failure *out);

/* Another node has adopted a value of ours, since the one that had it leaves or is gone: its place is that one, unless the value
 * was not known there (any more). Answers. */
void own_ref_adopted(struct own *own, const struct ctl_moved *word);
/* The same of one that is sought: no node has a copy. */
void own_ref_not_found(struct own *own, const struct ctl_moved *word);

/* ---- the reader: lost.c ---- */
/* The value is not to be had at that place, for that reason: its owner is asked, and it is over when that one knows another
 * place (once its task has run again), or that there is none, or is known to be dead. `mine` (may be NULL): our own ref of it,
 * held by the caller. Begin and own_doubt_end are a pair, or own_doubt_leave (doubt.h). */
void own_doubt_begin(struct own *own, struct own_doubt *doubt, struct own_ref *mine, const struct lane_ref *at, int32_t code,
                     const char *text);
bool own_doubt_is_over(struct own *own, struct own_doubt *doubt);

#endif
