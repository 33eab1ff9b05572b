/* SPDX-License-Identifier: Apache-2.0
 *
 * functions.h - what tests of cancels and limits run in the workers, and what it says on its board (its first argument).
 *
 *   open_gate "u>"         says STARTED, then waits for GATE
 *   until_cancelled "u>l"  says STARTED, runs until it is asked to stop, says STOPPED and returns a value all the same
 *   deaf "u>"              says STARTED and looks at nothing for ten minutes
 *   count "ul>l"           counts RAN; its second argument comes back
 *   whose ">l"             the worker's pid comes back
 */
#ifndef TEST_CANCEL_FUNCTIONS_H
#define TEST_CANCEL_FUNCTIONS_H

/* Words of the board. */
enum { STARTED = 0, GATE = 1, RAN = 2, STOPPED = 3, CODE = 4, MAY_BEGIN = 5, HELD = 6, ORDER = 8 };

/* A worker that is to be killed has so long for its task to end by itself (core/base/limits/lib.h). On a crowded machine it may
 * get no CPU meanwhile: then it is killed, and a test tries again. */
enum { MOMENT_MS = 100 };

#endif
