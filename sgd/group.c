/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - generations, barrier and abort over a shared region.
 *
 * Owns:    nothing; the region is the caller's. Thread: one per struct sgd_group; sgd_group_abort from any.
 * Always:  a member writes only its own entry (by compare and swap, never backwards), the bell and the abort
 * word, so a member that dies at any instruction leaves nothing half done that another would have to finish.
 */
#include "sgd/group_private.h"

#include "sgd/clock.h"
#include "sgd/futex.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* One cache line each, so that members do not disturb each other. */
struct member_entry {
    _Alignas(64) _Atomic uint64_t arrived; /* generation << 32 | barriers entered in it */
    _Atomic uint64_t plan;                 /* what this member believes; written before its first arrival */
    _Atomic uint64_t vote;                 /* written before, read after a barrier */
};

struct sgd_group_shared {
    _Alignas(64) _Atomic uint64_t layout; /* which plan the region is cut for; 0 when new */
    _Alignas(64) _Atomic uint64_t abort;  /* generation << 32 | reason << 16 | rank */
    _Alignas(64) _Atomic uint32_t bell;   /* grows by 2 at each ring; bit 0: somebody sleeps on it */
    struct member_entry members[MT_GROUP_MEMBERS_MAX];
};
static_assert(sizeof(struct member_entry) == 64, "an entry is a cache line");
static_assert(offsetof(struct sgd_group_shared, members) == 192, "drawn in group.h");

enum { FLOATS_PER_LINE = 16 };

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static size_t slot_stride(const struct sgd_group_plan *plan)
{
    return (plan->slot_floats + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE;
}

mt_status sgd_group_region_size(const struct sgd_group_plan *plan, size_t *out_size)
{
    size_t size;
    if (plan->vranks == 0 || plan->vranks > MT_VRANKS_MAX || plan->slot_floats == 0 ||
        plan->slot_floats > SIZE_MAX / 64)
        return mt_error(MT_EINVAL, 0, "group: plan out of range");
    if (__builtin_mul_overflow(slot_stride(plan) * sizeof(float), (size_t)plan->vranks + 1, &size) ||
        __builtin_add_overflow(size, sizeof(struct sgd_group_shared), &size))
        return mt_error(MT_EINVAL, 0, "group: plan too large");
    *out_size = size;
    return mt_ok();
}

/* ---- abort ---- */

/* Wakes sleepers. Without `force` only where the bell says that there are some. */
static void bell_ring(struct sgd_group_shared *shared, bool force)
{
    uint32_t before = atomic_fetch_add(&shared->bell, 2);
    if (!(before & 1) && !force)
        return;
    atomic_fetch_and(&shared->bell, ~1u);
    sgd_futex_wake_all(&shared->bell);
}

void sgd_group_abort(void *region, uint32_t generation, enum mt_code reason, uint32_t rank)
{
    struct sgd_group_shared *shared = region;
    uint64_t word = (uint64_t)generation << 32 | (uint64_t)(reason & 0xffff) << 16 | (rank & 0xffff);
    uint64_t seen = atomic_load(&shared->abort);

    MT_ASSERT(generation != 0 && reason != MT_OK);
    while (seen >> 32 < generation && !atomic_compare_exchange_weak(&shared->abort, &seen, word))
        ;
    /* Even where another was first: its wake may have died with it. */
    bell_ring(shared, true);
}

struct sgd_abort sgd_group_why(const void *region)
{
    const struct sgd_group_shared *shared = region;
    uint64_t word = atomic_load(&shared->abort);
    return (struct sgd_abort){(uint32_t)(word >> 32), (int32_t)(word >> 16 & 0xffff),
                              (uint32_t)(word & 0xffff)};
}

/* OK while the generation lives. */
static mt_status abort_check(const struct sgd_group *group)
{
    struct sgd_abort why = sgd_group_why(group->shared);
    if (why.generation < group->generation)
        return mt_ok();
    if (why.generation > group->generation)
        return mt_error(MT_EFENCED, 0, "collective: a later generation of the group exists");
    if (why.reason == MT_EWORKER_DIED)
        return mt_error(MT_EWORKER_DIED, 0, "collective aborted: a member of the group died");
    return mt_error(why.reason, 0, "collective aborted");
}

uint64_t sgd_group_arrived(const void *region, uint32_t rank)
{
    const struct sgd_group_shared *shared = region;
    MT_ASSERT(rank < MT_GROUP_MEMBERS_MAX);
    return atomic_load(&shared->members[rank].arrived);
}

/* ---- barrier ---- */

/* Whether the members from *next on have entered barrier `sequence`; *next skips those that have. */
static mt_status arrived_all(const struct sgd_group *group, uint32_t sequence, uint32_t *next, bool *out_all)
{
    for (; *next < group->members; ++*next) {
        uint64_t word = atomic_load(&group->shared->members[*next].arrived);
        uint32_t generation = (uint32_t)(word >> 32);
        if (generation > group->generation)
            return mt_error(MT_EFENCED, 0, "collective: a later generation of the group exists");
        if (generation < group->generation || (int32_t)((uint32_t)word - sequence) < 0)
            break;
    }
    *out_all = *next == group->members;
    return mt_ok();
}

/* Publishes that this member has entered barrier `sequence`; what it wrote before is visible to who sees
 * that. */
static mt_status arrive(struct sgd_group *group, uint32_t sequence)
{
    _Atomic uint64_t *word = &group->shared->members[group->rank].arrived;
    uint64_t seen = atomic_load(word), mine = (uint64_t)group->generation << 32 | sequence;
    uint32_t next = 0;
    bool all;

    do
        if (seen >> 32 > group->generation)
            return mt_error(MT_EFENCED, 0, "collective: a later generation of the group exists");
    while (!atomic_compare_exchange_weak(word, &seen, mine));
    /* Only the last to arrive has anybody to wake: in the one order of these stores, somebody sees all of
     * them. */
    MT_TRY(arrived_all(group, sequence, &next, &all));
    if (all)
        bell_ring(group->shared, false);
    return mt_ok();
}

/* One look of a waiter: arrived, aborted, or not yet. */
static mt_status look(const struct sgd_group *group, uint32_t sequence, uint32_t *next, bool *out_all)
{
    MT_TRY(arrived_all(group, sequence, next, out_all));
    return *out_all ? mt_ok() : abort_check(group);
}

static mt_status wait_all(struct sgd_group *group, uint32_t sequence)
{
    _Atomic uint32_t *bell = &group->shared->bell;
    uint64_t start = sgd_now_ns(), limit = (uint64_t)group->wait_limit_ms * 1000000u;
    uint32_t next = 0;
    bool all = false, has_slept = false;

    for (;;) {
        uint32_t rung =
            atomic_load(bell); /* before looking: a ring after the look changes it and stops the sleep */
        MT_TRY(look(group, sequence, &next, &all));
        if (all)
            break;
        uint64_t waited = sgd_now_ns() - start;
        if (waited >= limit) {
            sgd_group_abort(group->shared, group->generation, MT_ETIMEDOUT, next);
            return mt_error(MT_ETIMEDOUT, 0, "collective: a member did not come");
        }
        if (waited < group->spin_ns) {
            sched_yield();
        } else if (rung & 1 || atomic_compare_exchange_strong(bell, &rung, rung | 1)) {
            has_slept = true;
            sgd_futex_wait(bell, rung | 1, MT_GROUP_SLEEP_MS);
        }
    }
    /* Polling pays only where the others come soon: a wait that slept halves the next poll, one that did not
     * doubles it. */
    group->spin_ns = has_slept ? group->spin_ns / 2 : group->spin_ns * 2;
    group->spin_ns = group->spin_ns < MT_SPIN_NS_MIN ? MT_SPIN_NS_MIN : group->spin_ns;
    group->spin_ns = group->spin_ns > MT_SPIN_NS_MAX ? MT_SPIN_NS_MAX : group->spin_ns;
    return mt_ok();
}

mt_status sgd_group_barrier(struct sgd_group *group)
{
    MT_TRY(abort_check(group));
    uint32_t sequence = ++group->sequence;
    MT_TRY(arrive(group, sequence));
    return wait_all(group, sequence);
}

/* ---- join ---- */

/* The first comer writes which plan the region is cut for; all others compare. */
static mt_status layout_claim(struct sgd_group_shared *shared, const struct sgd_group_plan *plan)
{
    uint64_t mine = hash_add(hash_add(1, plan->vranks), slot_stride(plan)) | 1, seen = 0;
    if (!atomic_compare_exchange_strong(&shared->layout, &seen, mine) && seen != mine)
        return mt_error(MT_EINVAL, 0, "group: the region is laid out for another plan");
    return mt_ok();
}

static mt_status config_check(const struct sgd_group_config *config)
{
    size_t need;
    MT_TRY(sgd_group_region_size(&config->plan, &need));
    if ((uintptr_t)config->region % 64 != 0 || config->region_size < need)
        return mt_error(MT_EINVAL, 0, "group: region too small or not aligned");
    if (config->generation == 0 || config->members == 0 || config->members > MT_GROUP_MEMBERS_MAX ||
        config->members > config->plan.vranks || config->rank >= config->members)
        return mt_error(MT_EINVAL, 0, "group: generation, rank or number of members out of range");
    return mt_ok();
}

mt_status sgd_group_join(struct sgd_group *group, const struct sgd_group_config *config)
{
    struct sgd_group_shared *shared = config->region;

    MT_TRY(config_check(config));
    MT_TRY(layout_claim(shared, &config->plan));
    *group =
        (struct sgd_group){.shared = shared,
                           .plan = config->plan,
                           .generation = config->generation,
                           .rank = config->rank,
                           .members = config->members,
                           .spin_ns = MT_SPIN_NS_MAX,
                           .wait_limit_ms = config->wait_limit_ms ? config->wait_limit_ms : MT_GROUP_WAIT_MS};
    group->stride = slot_stride(&config->plan);
    group->sum = (float *)(void *)(shared + 1);
    group->slots = group->sum + group->stride;

    uint64_t plan =
        hash_add(hash_add(hash_add(1, config->members), config->plan.slot_floats), config->plan.fingerprint);
    atomic_store(&shared->members[config->rank].plan, plan);
    MT_TRY(sgd_group_barrier(group));
    for (uint32_t m = 0; m < config->members; m++) {
        if (atomic_load(&shared->members[m].plan) != plan) {
            sgd_group_abort(shared, config->generation, MT_EINVAL, m);
            return mt_error(MT_EINVAL, 0, "group: members disagree on the plan");
        }
    }
    return mt_ok();
}

void sgd_group_vranks(const struct sgd_group *group, uint32_t *out_first, uint32_t *out_last)
{
    *out_first = (uint32_t)((uint64_t)group->plan.vranks * group->rank / group->members);
    *out_last = (uint32_t)((uint64_t)group->plan.vranks * (group->rank + 1) / group->members);
}

float *sgd_group_slot(const struct sgd_group *group, uint32_t vrank)
{
    MT_ASSERT(vrank < group->plan.vranks);
    return group->slots + vrank * group->stride;
}

void sgd_group_vote_set(struct sgd_group *group, uint64_t vote)
{
    atomic_store(&group->shared->members[group->rank].vote, vote);
}

uint64_t sgd_group_vote_get(const struct sgd_group *group, uint32_t rank)
{
    return atomic_load(&group->shared->members[rank].vote);
}
