/* SPDX-License-Identifier: Apache-2.0
 *
 * own_lineage.h - values that were lost: who keeps what to make them again, and how a reader finds out.
 *
 * Thread: as own.h.
 */
#ifndef OWN_OWN_LINEAGE_H
#define OWN_OWN_LINEAGE_H

#include "clients/lib/own.h"

/* ---- the owner: own_lineage.c ---- */
/* A task of another node has brought its values: true: it is kept in case they are lost; false: it is to be finished. */
bool own_lineage_keep(struct own *own, struct own_task *task);
/* Nobody has the ref any more, but tasks that may run again: true: it stays for them. */
bool own_lineage_holds(struct own *own, struct own_ref *ref);
/* What a run brings for a ref that had a value, or failed, before. */
void own_lineage_value(struct own *own, struct own_ref *ref, const struct lane_value *value, const struct lane_ref *place);
/* The refs that the run's first value declares take the place of those that the lost one declared. */
mt_status own_lineage_declare(struct own *own, struct own_ref *ref, struct own_ref **take_refs, uint32_t count);
void own_lineage_failed(struct own *own, struct own_ref *ref, const struct own_failure *why);
/* A value of ours was not to be had at `at` (NULL: it was let go). OWN_LOST_MOVED: it is elsewhere now; FAILED: *out says why
 * it can't be made again; WAIT: it is being made, and the ref's waiters will be told. */
enum own_lost { OWN_LOST_WAIT = 1, OWN_LOST_MOVED = 2, OWN_LOST_FAILED = 3 };
enum own_lost own_ref_lost(struct own *own, struct own_ref *ref, const struct lane_ref *at, int32_t code, const char *text,
                           struct own_failure *out);
/* Where the value is, as far as we know; state is OWN_REF_PLACE. Views keep to the place that they have pinned, so the first
 * one stays in value.place. */
const struct lane_ref *own_ref_place(struct own *own, const struct own_ref *ref);
void own_ref_moved(struct own *own, struct own_ref *ref, const struct lane_ref *place);
static inline bool own_place_is(const struct lane_ref *a, const struct lane_ref *b)
{
    return a->node == b->node && a->segment == b->segment && a->offset == b->offset && a->generation == b->generation &&
           a->attempt == b->attempt;
}

/* ---- the reader: own_message.c ---- */
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
