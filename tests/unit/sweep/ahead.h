/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h - the wall clock of a machine whose time was set an hour ahead, and is put right as soon as somebody has read it: who
 * waits by it waits an hour too long. For the one file of a test program that includes it; the other clocks are the kernel's.
 */
#ifndef TESTS_UNIT_SWEEP_AHEAD_H
#define TESTS_UNIT_SWEEP_AHEAD_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, out);
    if (rc == 0 && clock == CLOCK_REALTIME)
        out->tv_sec += 3600;
    return rc;
}

#endif
