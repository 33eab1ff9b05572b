/* SPDX-License-Identifier: Apache-2.0
 *
 * decide.c - what the survivors of a generation agree on: who is left, and the AND of their flags.
 *
 * Each member writes its flags and then its vote. Whoever sees that every member has voted or is dead writes the outcome
 * as it saw it into its own entry and tries to make that the group's decision by one compare and swap. The first one's
 * stands for all, also where a later one would have found another, and also where the first one is dead by now. A round's
 * outcome is not written over before all have voted in the next round, when all have read it.
 *
 * Owns: nothing. Thread: one at a time per struct coll_shm.
 */
#include "sgd/coll/shm/private.h"

/* Whether each member has voted or is dead; *next skips those that did. What they voted is collected. */
static bool collect(const struct coll_shm *g, uint32_t *next, struct coll_decision *seen)
{
    for (; *next < g->members; ++*next) {
        const struct coll_entry *entry = &g->shared->entries[*next];
        if (coll_reached(g, &entry->voted, g->round)) {
            seen->alive |= 1ull << *next;
            seen->flags &= atomic_load(&entry->flags);
        } else if (atomic_load(&entry->dead) != g->generation) {
            return false;
        }
    }
    return true;
}

static uint64_t decision_word(const struct coll_shm *g)
{
    return (uint64_t)g->generation << 32 | (g->round & 0xffffff) << 8 | g->rank;
}

/* Makes `seen` the decision of this round, if there is none. */
static void settle(struct coll_shm *g, const struct coll_decision *seen)
{
    struct coll_entry *entry = &g->shared->entries[g->rank];
    uint64_t           mine = decision_word(g), before = atomic_load(&g->shared->decision);

    atomic_store(&entry->outcome_alive, seen->alive);
    atomic_store(&entry->outcome_flags, seen->flags);
    while (before >> 8 < mine >> 8 && !atomic_compare_exchange_weak(&g->shared->decision, &before, mine))
        ;
}

/* Those who have read the decision may have gone on to a next generation and write their words anew; what it needs from
 * this member, its vote there, is still missing, so the decision itself stands. */
static bool is_decided(const struct coll_shm *g)
{
    return atomic_load(&g->shared->decision) >> 8 >= decision_word(g) >> 8;
}

mt_status coll_shm_decide(struct coll_shm *g, uint64_t flags, struct coll_decision *out)
{
    struct coll_entry   *entry = &g->shared->entries[g->rank];
    struct coll_decision seen = {.flags = UINT64_MAX};
    struct coll_idle     idle = {0};
    uint32_t             next = 0;
    uint64_t             last = atomic_load(&entry->voted);
    bool                 is_complete;

    g->round++;
    atomic_store(&entry->flags, flags);
    MT_TRY(coll_publish(g, &entry->voted, &last, g->round));
    coll_look_for_dead(g, next);
    while (!(is_complete = collect(g, &next, &seen)) && !is_decided(g))
        MT_TRY(coll_idle(g, &idle, next, true));
    coll_idle_end(g, &idle);
    if (is_complete)
        settle(g, &seen);

    uint64_t                 decision = atomic_load(&g->shared->decision);
    const struct coll_entry *by = &g->shared->entries[decision & 0xff];
    *out = (struct coll_decision){atomic_load(&by->outcome_alive), atomic_load(&by->outcome_flags)};
    if (decision >> 32 != g->generation || !(out->alive >> g->rank & 1))
        return mt_error(MT_EFENCED, 0, "the group has gone on without this member");
    return mt_ok();
}
