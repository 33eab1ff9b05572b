/* SPDX-License-Identifier: Apache-2.0
 *
 * spill.h - door: values that go to disk, as far as memory is concerned (spill.c).
 */
#ifndef OS_SPILL_H
#define OS_SPILL_H

#include "objectstore/server/store.h"

/* What to write to disk next: living objects that nobody pins and that are no copies, at least `bytes` of them if there
 * are, at most `max`. Large ones first; within each kind from the segment where the last call ended, which is about the
 * oldest first. They are marked and not named again until os_store_take or os_store_spare. Fills `out` and returns how
 * many; says OS_ASK_BACK for segments in which nothing lives any more. ENOMEM is told as nothing found. */
uint32_t os_store_victims(struct os_store *store, uint64_t bytes, struct lane_ref *out, uint32_t max, struct os_actions *actions);
/* Where the value of a victim stands. Its writer may free it at any time: only os_store_take says what was there. Valid
 * until OS_CLOSE of its segment. NULL: the segment is closed. */
const void *os_store_victim_data(const struct os_store *store, const struct lane_ref *victim);
/* The value of a victim is on disk: ends the object here. From now on no pin finds it; its place is given back when no
 * old pin is left, by os_store_sweep: a slab's to its writer, a run's pages to the kernel (OS_PUNCH), and the place to its
 * writer when there is room again. ENOENT: it was freed meanwhile, and what was written may be nonsense. ENOMEM. */
MT_MUST_USE mt_status os_store_take(struct os_store *store, const struct lane_ref *victim);
/* The victim stays where it is. */
void os_store_spare(struct os_store *store, const struct lane_ref *victim);
/* Whether the object of a ref lives here, in memory. */
bool os_store_lives(const struct os_store *store, const struct lane_ref *ref);
/* Whether some process pins the place of a ref, at a glance. */
bool os_store_is_pinned(const struct os_store *store, const struct lane_ref *ref);
/* Bytes of memory that the store holds now: of its segments, without what is withheld. */
uint64_t os_store_bytes(const struct os_store *store);

#endif
