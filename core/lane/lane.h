/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.h - the shared memory of one lease: two rings and a table of claims between an owner and a worker.
 *
 * One memfd of LANE_BYTES, made and sealed (SHRINK, GROW) by the raylet, all zero at first, mapped writable by both.
 * When owner and worker are on two nodes, each node has a lane of its own and the raylet's switch is the missing end.
 *
 *   0      header: recall, counters, ring words
 *   4096   claims: LANE_SLOTS words
 *   12288  data of the ring owner -> worker
 *   ...    data of the ring worker -> owner
 *   ...    credits: LANE_SLOTS words; how far the consumer of the generator in that slot is
 */
#ifndef LANE_LANE_H
#define LANE_LANE_H

#include "core/lane/claim.h"
#include "core/lane/park.h"
#include "core/lane/ring.h"

struct lane_header {
    shm_u32 recall;                        /* not 0: the owner sends no more, the worker returns what it has not begun */
                                           /* ... LANE_RECALL_SAVE: an actor, which saves its state before that */
    shm_u32                worker_blocked; /* not 0: the worker waits inside a task */
    uint8_t                pad[248];
    struct lane_ring_words forward;
    struct lane_ring_words back;
    shm_u64                cancelled[LANE_SLOTS / 64]; /* a bit a slot: its task is asked to stop; by the owner's side only */
};

enum { LANE_RECALL = 1, LANE_RECALL_SAVE = 2 };

enum {
    LANE_CLAIMS_OFFSET = 4096,
    LANE_FORWARD_OFFSET = LANE_CLAIMS_OFFSET + LANE_SLOTS * 8,
    LANE_BACK_OFFSET = LANE_FORWARD_OFFSET + LANE_RING_BYTES + 4096,
    LANE_CREDITS_OFFSET = LANE_BACK_OFFSET + LANE_RING_BYTES + 4096,
    LANE_BYTES = LANE_CREDITS_OFFSET + LANE_SLOTS * 8,
};
static_assert(sizeof(struct lane_header) <= LANE_CLAIMS_OFFSET, "the header is one page");
static_assert(LANE_FORWARD_OFFSET % 4096 == 0 && LANE_BACK_OFFSET % 4096 == 0, "areas begin on pages");

static inline struct lane_header *lane_header_of(void *lane)
{
    return lane;
}
static inline shm_u64 *lane_claims_of(void *lane)
{
    return (shm_u64 *)(void *)((uint8_t *)lane + LANE_CLAIMS_OFFSET);
}
static inline uint8_t *lane_forward_of(void *lane)
{
    return (uint8_t *)lane + LANE_FORWARD_OFFSET;
}
static inline uint8_t *lane_back_of(void *lane)
{
    return (uint8_t *)lane + LANE_BACK_OFFSET;
}

/* Owner's side (its one writer): asks the running task of a slot to stop, or takes that back for the next task. */
static inline void lane_cancel_set(struct lane_header *header, uint32_t slot, bool on)
{
    shm_u64 *word = &header->cancelled[slot / 64];
    uint64_t bit = UINT64_C(1) << slot % 64, now = shm_load64(word);
    shm_store64_release(word, on ? now | bit : now & ~bit);
}
static inline bool lane_cancel_is_set(struct lane_header *header, uint32_t slot)
{
    return shm_load64(&header->cancelled[slot / 64]) >> slot % 64 & 1;
}

static inline shm_u64 *lane_credits_of(void *lane)
{
    return (shm_u64 *)(void *)((uint8_t *)lane + LANE_CREDITS_OFFSET);
}

/* A credit word: bits 0..39 how many items of the generator have been used, or LANE_GONE: nobody wants more; 40..63 the
 * low bits of its record's sequence, so that what an earlier use of the slot left counts for nothing. The owner writes
 * (for an owner on another node, the switch), the worker reads. */
#define LANE_GONE (((uint64_t)1 << 40) - 1)
static inline void lane_credit_set(void *lane, uint32_t slot, uint64_t sequence, uint64_t used)
{
    shm_store64_release(&lane_credits_of(lane)[slot], sequence << 40 | used);
}
static inline uint64_t lane_credit_of(void *lane, uint32_t slot, uint64_t sequence)
{
    uint64_t word = shm_load64_acquire(&lane_credits_of(lane)[slot]);
    return word >> 40 == (sequence & 0xffffff) ? word & LANE_GONE : 0;
}

/* After the worker's death, when `back` is drained: the next outcome that it wrote and did not publish, proved by its claim.
 * The caller takes it like any other, clears the claim, and calls lane_ring_consume. */
static inline bool lane_next_unpublished(const shm_u64 *claims, struct lane_consumer *back, struct lane_record *out,
                                         const uint8_t **payload)
{
    while (lane_ring_peek_unpublished(back, out, payload)) {
        if (out->slot >= LANE_SLOTS)
            return false;
        uint64_t word = shm_load64_acquire((shm_u64 *)&claims[out->slot]);
        if (out->kind == LANE_DONE && word == lane_claim_word(out->sequence, out->attempt, LANE_DONE_CLAIM))
            return true;
        if (out->kind != LANE_RETURNED || word != lane_claim_word(out->sequence, out->attempt, LANE_RETURNED_CLAIM))
            return false;
        lane_ring_consume(back); /* the claim says it all */
    }
    return false;
}

/* The memory between a process and its raylet has the same layout: forward is "up" (process -> raylet), back is "down",
 * and the claims are not used. */

#endif
