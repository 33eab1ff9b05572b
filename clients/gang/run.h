/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - runs a gang to its end: the driver around the state machine of gang.h.
 *
 * Thread: the one that called manta_init. Blocks until the gang has ended.
 */
#ifndef GNG_RUN_H
#define GNG_RUN_H

#include "clients/gang/plan/plan.h"

#include <signal.h>

enum { GNG_SIGNALS = 5 };
extern const int gng_signals[GNG_SIGNALS]; /* those that are passed on to the ranks */

/* `plan` was checked. pending[i]: gng_signals[i] has come, set by the caller's handlers. What people are to know goes to standard
 * error. The exit status: that of the rank that failed first; 128 + the signal where one ended it, or the gang; 127 or 126 where it
 * could not be started; 1 where there was no room; 0. */
int gng_run(const struct gng_plan *plan, volatile sig_atomic_t *pending);

#endif
