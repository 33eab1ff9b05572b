/* SPDX-License-Identifier: Apache-2.0
 *
 * members.c - the trials of a scheduler, and the state of each.
 *
 *   RUNNING ---pause---> PAUSED
 *    |   ^---resume-------'  |
 *    '--end--> ENDED <--end--'
 *
 * Owns: the states. Thread: one at a time.
 */
#include "sweep/decide/private.h"

#define AS_BIT(state) (1u << SWP_MEMBER_##state)
static const uint8_t member_next[] = {
    [SWP_MEMBER_RUNNING] = AS_BIT(PAUSED) | AS_BIT(ENDED),
    [SWP_MEMBER_PAUSED] = AS_BIT(RUNNING) | AS_BIT(ENDED),
    [SWP_MEMBER_ENDED] = 0,
};

void swp_member_set_state(struct swp_scheduler *s, struct swp_member *m, enum swp_member_state next)
{
    MT_ASSERT(member_next[m->state] & (1u << next));
    s->running -= m->state == SWP_MEMBER_RUNNING;
    m->state = next;
    s->running += m->state == SWP_MEMBER_RUNNING;
    MT_ASSERT(s->running <= s->members.count);
}

struct swp_member *swp_scheduler_member(const struct swp_scheduler *s, uint64_t trial)
{
    mt_map_entry *entry = mt_map_find(&s->by_trial, mt_map_key(trial));
    return entry ? &s->members.data[entry->value.num] : NULL;
}

bool swp_scheduler_has_waiting(const struct swp_scheduler *s)
{
    bool waiting = s->has_supply;
    for (size_t i = 0; i < s->members.count && !waiting; i++)
        waiting = s->members.data[i].state == SWP_MEMBER_PAUSED && !s->members.data[i].by_user;
    return waiting;
}
