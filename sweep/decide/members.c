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

#include "core/base/machine.h"

static const char *const member_names[] = {
    [SWP_MEMBER_RUNNING] = "RUNNING", [SWP_MEMBER_PAUSED] = "PAUSED", [SWP_MEMBER_ENDED] = "ENDED"};
static const uint32_t member_next[] = {
    [SWP_MEMBER_RUNNING] = MT_STATE(SWP_MEMBER_PAUSED) | MT_STATE(SWP_MEMBER_ENDED),
    [SWP_MEMBER_PAUSED] = MT_STATE(SWP_MEMBER_RUNNING) | MT_STATE(SWP_MEMBER_ENDED),
    [SWP_MEMBER_ENDED] = 0,
};
static const struct mt_machine member_machine = MT_MACHINE("trial of a scheduler", member_names, member_next);

void swp_member_set_state(struct swp_scheduler *s, struct swp_member *m, enum swp_member_state next)
{
    MT_TRANSITION(&member_machine, m->state, next);
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
        waiting = s->members.data[i].state == SWP_MEMBER_PAUSED;
    return waiting;
}
