# SPDX-License-Identifier: Apache-2.0
#
# gone.py - waits until processes are gone, by pidfd: nothing is read of a process that may vanish while it is read.
# (test_gone of tests/integration/harness.h is the same in C.)
import os
import select
import time


def has_gone(pid, seconds=0):
    """Whether the process has ended within that time; a zombie, which only its parent has to take in, counts as gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(fd)


def wait_gone(pids, seconds):
    """Waits until all of them are gone; returns those that are not after that time."""
    end = time.monotonic() + seconds
    return [pid for pid in pids if not has_gone(pid, max(0, end - time.monotonic()))]
