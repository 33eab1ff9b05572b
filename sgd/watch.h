/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.h - which members of a generation hang, and which are slow, by what they show of their work.
 *
 * A member shows a pulse: beats, one for each piece of work, and the barriers that it has entered. Who has entered a barrier
 * that others have not, waits for them and is not to blame. Who is the furthest behind and shows nothing for longer than the
 * limit, hangs. The limit comes from the run's own steps: 5 times their median, at least MT_TRAIN_HUNG_MS; more where no step
 * is done yet in this generation, and none in the run; and what a member has announced (it writes a file). Time in which threads of
 * it were ready to run and other processes had the CPUs is not counted, up to MT_TRAIN_STARVED_MS: it would be killed for being one
 * of many.
 *
 * A pure state machine: time and pulses are arguments. Thread: the driver's.
 */
#ifndef SGD_WATCH_H
#define SGD_WATCH_H

#include "core/base/limits.h"
#include "core/base/status.h"

#include <stdbool.h>

enum { SGD_WATCH_THREADS = 1000 };

/* What a member shows at one moment. */
struct sgd_pulse_seen {
    uint64_t arrived;  /* the last barrier: grows over generations and within them */
    uint64_t beats;    /* changes with each piece of work */
    uint64_t steps;    /* that it has completed in all */
    uint64_t step_ns;  /* that the last one took, with its waits */
    uint64_t work_ns;  /* time it has spent in its own share of all */
    uint32_t silent_ms : 22; /* for so long it may show nothing just now, in place of the limit; 0: that holds */
    uint32_t ready : 10; /* of its threads that compute so many are ready to run, at most SGD_WATCH_THREADS; 0: none or unknown */
    uint32_t cpu_ms;    /* time of CPUs that all of them have had, those that sleep now included */
};

enum { SGD_WATCH_STEPS = 31 };

struct sgd_watch {
    uint32_t members;
    bool     has_stepped; /* in this generation */
    int64_t  looked_ns;
    struct {
        struct sgd_pulse_seen seen;
        int64_t               changed_ns; /* when it last showed something, later by what does not count */
        int64_t               starved_ns; /* that was not counted since then */
    } of[MT_GROUP_MEMBERS_MAX];
    int64_t  step_ns[SGD_WATCH_STEPS]; /* a ring of the last steps' durations */
    uint32_t step_count;
    bool     is_over; /* the generation: its members are to come back */
    int64_t  window_ns;  /* stragglers: where the present window began, and what it began with */
    uint64_t window_work[MT_GROUP_MEMBERS_MAX], window_steps;
};

/* A generation begins; what is known of the steps' durations stays. */
void sgd_watch_begin(struct sgd_watch *watch, int64_t now_ns, uint32_t members, const struct sgd_pulse_seen *pulses);

/* One look at all members' pulses: a bit for each that hangs. *out_straggler: a member that needed more than twice the time of
 * the others' median in a whole window; -1: none. */
uint64_t sgd_watch_look(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses, int *out_straggler);

/* The generation is over, and those that work still are to come back: a bit for each that takes longer than the limit. Called at
 * each look from then on. */
uint64_t sgd_watch_late(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses);

/* How long a member may show nothing. */
int64_t sgd_watch_limit_ns(const struct sgd_watch *watch);

#endif
