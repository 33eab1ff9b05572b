/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.h - which members of a generation hang, and which are slow, by what they show of their work.
 *
 * A member shows a pulse: beats, one for each piece of work, and the barriers that it has entered. Who has entered a barrier
 * that others have not, waits for them and is not to blame. Who is the furthest behind and shows nothing for longer than the
 * limit, hangs. The limit comes from the run's own steps: 5 times the longest known, MT_TRAIN_HUNG_MS at least and
 * MT_TRAIN_FIRST_MS before a generation's first step; twice as much for each time that the same step has hung before. One that is
 * stopped has MT_TRAIN_STOPPED_MS from then on. Or it is what the user has set.
 *
 * Not every silence counts. In a call of the user's each moment of CPU takes back SGD_WATCH_BACK moments of it, and so does a
 * moment in which it waits for the disk, wherever: who works for a fifth of the time may go on for ever. Outside of calls only
 * time counts less in which its threads were ready to run and other processes had the CPUs, up to MT_TRAIN_STARVED_MS: it would
 * be killed for being one of many, but our own code is not to spin in vain.
 *
 * A pure state machine: time and pulses are arguments. Thread: the driver's.
 */
#ifndef SGD_WATCH_H
#define SGD_WATCH_H

#include "core/base/limits/train.h"
#include "core/base/status.h"

#include <stdbool.h>

enum { SGD_WATCH_THREADS = 1000, SGD_WATCH_DOING = 0xf, SGD_WATCH_BACK = 5 };

/* What a member shows at one moment. */
struct sgd_pulse_seen {
    uint64_t arrived;     /* the last barrier: grows over generations and within them; UINT64_MAX: it is back */
    uint64_t beats;       /* changes with each piece of work */
    uint64_t steps;       /* that it has completed in all */
    uint64_t work_ns;     /* time it has spent in its own share of all */
    uint32_t step_us;     /* that the last step took, with its waits */
    uint32_t ready : 10;  /* of its threads that compute so many are ready to run, at most SGD_WATCH_THREADS; 0: none or unknown */
    uint32_t doing : 4;   /* what it began last: the run's own numbers */
    uint32_t in_call : 1; /* it is in a function of the user's */
    uint32_t on_disk : 1; /* one of its threads waits for the disk */
    uint32_t is_stopped : 1; /* by a signal */
    uint32_t cpu_ms;         /* time of CPUs that all threads which compute have had, those that sleep now included */
    uint32_t process_ms;     /* the same of the whole process */
};

enum { SGD_WATCH_STEPS = 31 };

struct sgd_watch {
    int64_t  hang_after_ns; /* what the user has set; 0: nothing, negative: nobody hangs */
    uint32_t members;
    uint32_t again; /* times that somebody hung at `hung_step`, which is still not done */
    uint64_t hung_step;
    bool     has_hung;    /* in this generation */
    bool     has_stepped; /* in this generation */
    int64_t  looked_ns;
    struct {
        struct sgd_pulse_seen seen;
        int64_t               changed_ns; /* when it last showed something, later by what does not count */
        int64_t               starved_ns; /* that was not counted since then */
        int64_t               stopped_ns; /* when it was first seen stopped, the last time */
    } of[MT_GROUP_MEMBERS_MAX];
    uint32_t step_us[SGD_WATCH_STEPS]; /* a ring of the last steps' durations */
    uint32_t step_count;
    bool     is_over;   /* the generation: its members are to come back */
    int64_t  window_ns; /* stragglers: where the present window began, and what it began with */
    uint64_t window_work[MT_GROUP_MEMBERS_MAX], window_steps;
};

/* A generation begins, of members whose pulses were these before; what is known of the steps' durations stays. Zeroed at first,
 * but for hang_after_ns. */
void sgd_watch_begin(struct sgd_watch *watch, int64_t now_ns, uint32_t members, const struct sgd_pulse_seen *pulses);

/* One look at all members' pulses: a bit for each that hangs. *out_straggler: a member that needed more than twice the time of
 * the others' median in a whole window; -1: none. */
uint64_t sgd_watch_look(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses, int *out_straggler);

/* The generation is over, and those that work still are to come back: a bit for each that takes longer than the limit. Called at
 * each look from then on. */
uint64_t sgd_watch_late(struct sgd_watch *watch, int64_t now_ns, const struct sgd_pulse_seen *pulses);

/* How long a member that shows this may show nothing else; INT64_MAX: for ever. */
int64_t sgd_watch_limit_ns(const struct sgd_watch *watch, const struct sgd_pulse_seen *pulse);

/* The same of one that loads (load.h): its data may come over a network. */
int64_t sgd_watch_load_limit_ns(const struct sgd_watch *watch);

/* For how long the m-th has done nothing, as it counts. */
int64_t sgd_watch_silence_ns(const struct sgd_watch *watch, uint32_t m);

#endif
