/* SPDX-License-Identifier: Apache-2.0
 *
 * busy.h - what a worker does that works or would like to, and must not count as hung. Thread: any; a call is of its own thread.
 */
#ifndef TESTS_SGD_BUSY_H
#define TESTS_SGD_BUSY_H

#include <sys/types.h>

/* Computes for so long. */
void busy_spin(int ms);
/* Waits for the end of a child, awake: one that gets no CPU takes a while to end, and who sleeps so long in a call hangs. */
void busy_await(pid_t child);
/* Computes for so long on a CPU that is busy with so many other processes, which have ended afterwards. */
void busy_starve(int others, int ms);

#endif
