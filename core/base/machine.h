/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.h - which states of a machine may follow which: a table of bit masks, and the check that holds a change against it.
 *
 * A machine has one setter, <machine>_set_state, and nothing else assigns to its state. The drawing stands above the table:
 *
 *   GREETING --hello--> ALIVE --its end is known--> DYING
 *      '----------------its end is known--------------^
 *
 *   static const char *const names[] = {[GREETING] = "GREETING", [ALIVE] = "ALIVE", [DYING] = "DYING"};
 *   static const uint32_t next[] = {[GREETING] = MT_STATE(ALIVE) | MT_STATE(DYING), [ALIVE] = MT_STATE(DYING), [DYING] = 0};
 *   static const struct mt_machine machine = MT_MACHINE("process", names, next);
 *
 *   static void proc_set_state(struct proc *p, enum proc_state to)
 *   {
 *       MT_TRANSITION(&machine, p->state, to);
 *       p->state = to;
 *   }
 *
 * A machine has at most 32 states, numbered from 0. Staying in a state is a transition like any other: allowed where its own
 * bit is in its row. A change that is not allowed is our own bug: it fails as MT_ASSERT does, and says
 * "process: ALIVE -> GREETING is no transition", with the place. A change costs a load and a test.
 */
#ifndef MT_BASE_MACHINE_H
#define MT_BASE_MACHINE_H

#include "core/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Static for the life of the process; may be read by any thread. */
struct mt_machine {
    const char        *name;
    const char *const *states; /* a name each */
    const uint32_t    *next;   /* a bit for each state that may follow */
    uint32_t           count;
};

#define MT_STATE(state)        (UINT32_C(1) << (state))
#define MT_MACHINE_ROWS(table) (sizeof(table) / sizeof *(table))
/* Does not compile where the table has not a row for each name. */
#define MT_MACHINE(name, states, next) \
    { \
        (name), (states), (next), \
            (uint32_t)(MT_MACHINE_ROWS(next) * sizeof(char[MT_MACHINE_ROWS(states) == MT_MACHINE_ROWS(next) ? 1 : -1])) \
    }

static inline bool mt_machine_may(const struct mt_machine *m, uint32_t from, uint32_t to)
{
    return from < m->count && to < m->count && (m->next[from] & MT_STATE(to)) != 0;
}

/* The name of a state; "?" for a number that is none. */
static inline const char *mt_machine_text(const struct mt_machine *m, uint32_t state)
{
    return state < m->count ? m->states[state] : "?";
}

/* Fails as MT_ASSERT does, naming the machine and both states. */
void mt_machine_refuse(const struct mt_machine *m, uint32_t from, uint32_t to, const char *file, int line);

#define MT_TRANSITION(machine, from, to) \
    do { \
        if (MT_UNLIKELY(!mt_machine_may((machine), (uint32_t)(from), (uint32_t)(to)))) \
            mt_machine_refuse((machine), (uint32_t)(from), (uint32_t)(to), __FILE__, __LINE__); \
    } while (0)

#endif
