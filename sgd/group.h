/* SPDX-License-Identifier: Apache-2.0
 *
 * group.h - workers that compute together over a region of shared memory that all of them map writable.
 *
 * The region is handed in by the caller, zeroed when new; the group keeps no other shared state and owns
 * nothing.
 *
 *   0         64        128      192         192 + 64 x 64   + stride
 *   +---------+---------+--------+-----------+---------------+---------------------------------
 *   | layout  | abort   | bell   | members   | sum           | slots, one per virtual rank
 *   +---------+---------+--------+-----------+---------------+---------------------------------
 *
 * A group lives in generations, numbered from 1. Every word of a member carries the generation it was written
 * in, so a new generation finds nothing to clear or repair, whatever the dead left behind:
 *
 *   (none) --join g, all of g arrive--> ACTIVE g --somebody aborts g--> ABORTED g --join h > g--> ACTIVE h
 *
 * Two rules for whoever forms generations: numbers only grow, and a new generation is formed only once each
 * member of the last one is dead or has come back from its aborted call. (A straggler that is still inside a
 * call is fenced when it arrives at a barrier, but could until then write into its slots.)
 *
 * All members make the same sequence of collective calls. Each waits at most wait_limit_ms; a member whose
 * limit passes aborts the generation, so that nobody waits longer than the first.
 *
 * Errors of every collective: the reason of the abort (MT_EWORKER_DIED, ...) as soon as anybody has aborted
 * the generation; EFENCED where a later generation exists; ETIMEDOUT. After any of them the generation is
 * over. Blocking: yields for a short adaptive time, then sleeps on a futex. Thread: one per struct sgd_group.
 */
#ifndef SGD_GROUP_H
#define SGD_GROUP_H

#include "core/base/limits.h"
#include "core/base/status.h"

#include <stdbool.h>

struct sgd_group_shared;

/* What all members must agree on. */
struct sgd_group_plan {
    uint32_t vranks;      /* virtual ranks: gradients are summed over these, whatever the number of members */
    size_t   slot_floats; /* what one virtual rank contributes */
    size_t   mean_floats; /* of these, so many from the first are averaged, the others added */
    uint64_t fingerprint; /* of everything else that must be equal (seed, schedule, ...): compared at join */
};

struct sgd_group_config {
    void                 *region; /* kept as long as the group is used; 64-byte aligned */
    size_t                region_size;
    struct sgd_group_plan plan;
    uint32_t              generation;    /* > 0 */
    uint32_t              rank, members; /* rank < members <= min(MT_GROUP_MEMBERS_MAX, vranks) */
    uint32_t              wait_limit_ms; /* 0: MT_GROUP_WAIT_MS */
};

/* One process's view; a plain value. */
struct sgd_group {
    struct sgd_group_shared *shared;
    float                   *sum, *slots;
    struct sgd_group_plan    plan;
    size_t                   stride; /* floats from slot to slot: whole cache lines */
    uint32_t                 generation, rank, members;
    uint32_t                 sequence; /* barriers passed or entered in this generation */
    uint32_t                 wait_limit_ms;
    uint32_t                 spin_ns; /* how long the next wait polls before it sleeps */
};

/* Why a generation ended. */
struct sgd_abort {
    uint32_t generation; /* 0: none was ever aborted */
    int32_t  reason;     /* enum mt_code */
    uint32_t rank;       /* whom it is about */
};

/* Bytes of a region for a plan. EINVAL for a plan without or with too many virtual ranks, or too large. */
MT_MUST_USE mt_status sgd_group_region_size(const struct sgd_group_plan *plan, size_t *out_size);

/* Joins a generation and waits until all its members have. EINVAL where the arguments are out of range, the
 * region is too small or laid out for another plan, or members disagree on plan or size (then all of them get
 * it). */
MT_MUST_USE mt_status sgd_group_join(struct sgd_group *group, const struct sgd_group_config *config);

/* Ends a generation for everybody: members in a collective return at once with `reason`, later ones when they
 * call. The first abort of a generation stands; one for an earlier generation does nothing. Callable by any
 * process that maps the region, member or not, also before anyone has joined. Never blocks. */
void sgd_group_abort(void *region, uint32_t generation, enum mt_code reason, uint32_t rank);

/* The last abort of any generation. */
struct sgd_abort sgd_group_why(const void *region);

/* The last barrier that a member has entered, of whatever generation; grows. Callable by any process that maps the region. */
uint64_t sgd_group_arrived(const void *region, uint32_t rank);

/* Returns when all members have called it. */
MT_MUST_USE mt_status sgd_group_barrier(struct sgd_group *group);

/* The virtual ranks of a member: first <= vrank < last. */
void sgd_group_vranks(const struct sgd_group *group, uint32_t *out_first, uint32_t *out_last);

/* Where a virtual rank's contribution goes: slot_floats, written by its member before sgd_group_reduce. */
float *sgd_group_slot(const struct sgd_group *group, uint32_t vrank);

#endif
