/* SPDX-License-Identifier: Apache-2.0
 *
 * spin.h - how a thread that waits goes on after a look that found nothing: it looks on, lets others run, or sleeps.
 *
 * Pure: wait.c looks, and does what is said here. Thread: the one that leads.
 */
#ifndef LIB_SPIN_H
#define LIB_SPIN_H

#include "clients/lib/owner/own.h"
#include "core/base/limits/lib.h"

enum { LIB_VAIN_YIELDS = 8 }; /* of an actor, in a row, before it sleeps */

struct lib_spin {
    uint64_t began_ns;    /* the first look that found nothing */
    uint64_t idle_since;  /* when a look first found nothing; 0: something has come since */
    uint64_t looked_ns;   /* the last look */
    uint64_t took_ns;     /* from the one before it */
    uint64_t away_ns;     /* since idle_since, in yields that let others run */
    uint32_t in_vain;     /* yields in a row that let nobody in for longer than a look */
    bool     has_yielded; /* after the last look */
    bool     is_crowded;  /* two looks were far apart: somebody needs the core for long */
};

/* What waits: the program outside of tasks, or a worker for its next task; a task; an actor, which others than its creator call,
 * for its next call. */
enum lib_waiter { LIB_WAITS_OUTSIDE, LIB_WAITS_TASK, LIB_WAITS_ACTOR };
enum lib_spin_how { LIB_SPIN_PAUSE, LIB_SPIN_YIELD, LIB_SPIN_NOT };

/* A look has found nothing. The time in which yields let others run costs nobody anything: it does not count as waited, but for a
 * task. */
static inline void lib_spin_looked(struct lib_spin *spin, uint64_t now, enum lib_waiter who)
{
    if (spin->idle_since == 0)
        *spin = (struct lib_spin){.began_ns = spin->began_ns ? spin->began_ns : now, .idle_since = now, .looked_ns = now};
    spin->took_ns = now - spin->looked_ns;
    spin->looked_ns = now;
    spin->is_crowded |= spin->took_ns >= MT_LIB_CROWDED_NS;
    if (!spin->has_yielded)
        return;
    spin->in_vain = spin->took_ns < MT_LIB_YIELDED_NS ? spin->in_vain + 1 : 0;
    if (!spin->in_vain && who != LIB_WAITS_TASK)
        spin->away_ns += spin->took_ns;
}

static inline bool lib_spin_is_over(const struct lib_spin *spin)
{
    uint64_t idle = spin->looked_ns - spin->idle_since;
    return idle - spin->away_ns >= MT_LIB_SPIN_NS || idle >= MT_LIB_AWAY_NS;
}

/* Yields that let nobody in, though somebody waits for us on this core or has what we wait for: he waits as we do. */
static inline bool lib_spin_in_vain(const struct lib_spin *spin, enum lib_waiter who)
{
    return spin->in_vain >= (who == LIB_WAITS_ACTOR ? LIB_VAIN_YIELDS : 1u);
}

/* `where` those run whom we wait for (own_where_served). Where all of them are on this very core, sched_yield lets them in only
 * after a time slice: sleep at once. The same where the last yield let others run for long: who yields on a crowded core waits for
 * their time slices, who sleeps is let in when he is woken. A task that sleeps must say BLOCKED first, which costs its lanes their
 * order of work: it always waits out the whole time. Where all of them run elsewhere there is nobody to let in at first. An actor
 * that waits for calls yields to whoever is there: actors that call each other have short methods, each waits for the others, and a
 * yield costs less than a sleep and its wake. */
static inline enum lib_spin_how lib_spin_how(const struct lib_spin *spin, unsigned where, enum lib_waiter who)
{
    bool is_useless = where & OWN_HERE && lib_spin_in_vain(spin, who);
    bool is_crowded = spin->is_crowded || is_useless || (who != LIB_WAITS_ACTOR && where == OWN_HERE);
    if (lib_spin_is_over(spin) || (is_crowded && who != LIB_WAITS_TASK))
        return LIB_SPIN_NOT;
    return where & OWN_HERE || spin->looked_ns - spin->idle_since >= MT_LIB_PAUSE_NS ? LIB_SPIN_YIELD : LIB_SPIN_PAUSE;
}

#endif
