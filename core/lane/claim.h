/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.h - who may run the task of a slot: rings carry, claims decide. Frozen states.
 *
 *             owner: set                worker: claim            worker: finish
 *   FREE ------------------> PENDING ------------------> RUNNING ----------------> DONE --owner--> FREE
 *                             |    \
 *               owner: revoke |     \ worker: give back (recalled, or blocks)
 *                             v      v
 *                          REVOKED  RETURNED   --owner--> FREE
 *
 * One 64-bit word a slot, changed by compare-and-swap only once it is PENDING:
 *   bits 0..7 state, 8..23 attempt, 24..63 the low 40 bits of the record's sequence (so a stale record of an earlier
 *   use of the slot never claims the new one).
 * Whoever finds a slot PENDING after the worker's death knows that it has not run. DONE: it has, and its completion
 * record is whole (lane_ring_peek_unpublished). RUNNING means: it may have run.
 */
#ifndef LANE_CLAIM_H
#define LANE_CLAIM_H

#include "core/base/debug.h"
#include "core/base/plant.h"
#include "core/lane/shm.h"

enum lane_claim_state {
    LANE_FREE = 0,
    LANE_PENDING = 1,
    LANE_RUNNING = 2,
    LANE_RETURNED_CLAIM = 3,
    LANE_REVOKED = 4,
    LANE_DONE_CLAIM = 5,
};

enum { LANE_SLOTS = 1024 }; /* tasks under way on one lane */

static inline uint64_t lane_claim_word(uint64_t sequence, uint32_t attempt, enum lane_claim_state state)
{
    return sequence << 24 | (uint64_t)(attempt & 0xffff) << 8 | (uint64_t)state;
}
static inline enum lane_claim_state lane_claim_state_of(uint64_t word)
{
    return (enum lane_claim_state)(word & 0xff);
}

/* Owner: before the record is published. The slot is FREE and the owner's. */
static inline void lane_claim_set(shm_u64 *slot, uint64_t sequence, uint32_t attempt)
{
    shm_store64_release(slot, lane_claim_word(sequence, attempt, LANE_PENDING));
}
/* Owner: after the outcome is known. */
static inline void lane_claim_clear(shm_u64 *slot)
{
    shm_store64_release(slot, 0);
}
/* One PENDING slot becomes `to`. True for exactly one caller. */
static inline bool lane_claim_take(shm_u64 *slot, uint64_t sequence, uint32_t attempt, enum lane_claim_state to)
{
    MT_ASSERT_DEBUG(to == LANE_RUNNING || to == LANE_RETURNED_CLAIM || to == LANE_REVOKED); /* the arrows out of PENDING */
    uint64_t pending = lane_claim_word(sequence, attempt, LANE_PENDING);
    uint64_t taken = lane_claim_word(sequence, attempt, to);
    if (MT_PLANT(MT_PLANT_CLAIM_ANY) && lane_claim_state_of(shm_load64(slot)) == LANE_PENDING)
        pending = shm_load64(slot);
    if (MT_PLANT(MT_PLANT_CLAIM_BY_STORE)) {
        bool is_pending = shm_load64(slot) == pending;
        if (is_pending)
            shm_store64(slot, taken);
        return is_pending;
    }
    return shm_cas64(slot, pending, taken);
}
/* After the end of the worker, or of the lease: whether the task of the slot has not run. What only a process that writes over
 * its shared memory can have left there proves nothing: the task may have run, and done that. */
static inline bool lane_claim_has_not_run(const shm_u64 *slot, uint64_t sequence, uint32_t attempt)
{
    uint64_t word = shm_load64_acquire((shm_u64 *)slot);
    return word == lane_claim_word(sequence, attempt, LANE_PENDING) ||
           word == lane_claim_word(sequence, attempt, LANE_RETURNED_CLAIM);
}
/* Worker: the task it claimed is finished. Its record is in the ring, perhaps not yet published: who finds DONE after the
 * worker's death finds the whole record behind what was published. */
static inline void lane_claim_finish(shm_u64 *slot, uint64_t sequence, uint32_t attempt)
{
    shm_store64_release(slot, lane_claim_word(sequence, attempt, LANE_DONE_CLAIM));
}

#endif
