/* SPDX-License-Identifier: Apache-2.0
 *
 * load.h - whether a worker that loads its data and model is at work, by what its process shows: it enters no barriers and does no
 * steps yet, so the watchdog (watch.h) can't tell.
 *
 * It works in a second in which it uses a fifth of a CPU (SGD_WATCH_BACK), and wherever two looks in a row find it waiting for the
 * disk, or ready to run: then others have the CPUs.
 *
 * A pure state machine: time and what is seen are arguments. Thread: any, one at a time.
 */
#ifndef SGD_LOAD_H
#define SGD_LOAD_H

#include "sgd/watch/watch.h"

struct sgd_load {
    int64_t  second_ns;  /* when the present second began; 0: nobody has looked yet */
    uint32_t process_ms; /* time of CPUs that it had had by then */
    bool     was_busy;   /* at the last look: with the disk, or ready to run */
};

/* One look. Zeroed at first. */
bool sgd_load_works(struct sgd_load *load, int64_t now_ns, const struct sgd_pulse_seen *seen);

#endif
