#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# starve.py [OPTION...] COMMAND... - runs the command, and again and again lets a random one of its processes stand still.
#
#   --seed N             of what is drawn (default: from the clock; it is printed first)
#   --stop FROM:TO       seconds that one stands still (default 0.1:1.5)
#   --pause FROM:TO      seconds between two (default 0:0.3)
#   --at-a-time N        so many stand still at once, at most (default 2)
#   --only REGEX         those whose command line it is found in; --spare REGEX: not those
#   --quota              they get no CPU, in a control group of version 1 (root), instead of SIGSTOP: who looks sees them ready to run
#   --log FILE           each stop: when, how long, whom
#
# What a crowded machine does to a process now and then, made frequent: `starve.py --seed 7 ctest --test-dir build/release -R cluster`.
# Only the command's descendants, and what carries its mark in the environment (a daemon gets another parent), are touched. Each of
# these is let go again, whatever happens to this script short of SIGKILL, and only by who stopped it: one that a test has stopped
# is left alone. A test that stops processes itself (grep SIGSTOP) may find them running too soon.
#
# Stops above 2 s make nodes suspect; of a worker of a training those above 0.9 s count as hung (MT_TRAIN_STOPPED_MS), and a crowded machine
# prolongs each: 0.1:0.5 is enough there. The exit status is the command's.
import argparse
import heapq
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

PROC, GROUP = pathlib.Path("/proc"), pathlib.Path("/sys/fs/cgroup/cpu")
MARK = "MANTA_STARVED"
LOOK_S = 0.02


def stat_of(pid):
    """State, parent and start time; the name before them may hold blanks and brackets."""
    fields = (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    return fields[0], int(fields[1]), fields[19]


def bytes_of(pid, name):
    return (PROC / str(pid) / name).read_bytes()


class Herd:
    """The command's processes."""

    def __init__(self, mark, root, only, spare):
        self.mark, self.root = f"{MARK}={mark}".encode(), root
        self.only, self.spare = only and re.compile(only), spare and re.compile(spare)

    def find(self):
        """Those that run, or sleep, as (pid, start time, command line)."""
        states, marked = {}, set()
        for entry in PROC.iterdir():
            if not entry.name.isdigit():
                continue
            try:
                states[int(entry.name)] = stat_of(entry.name)
                if self.mark in bytes_of(entry.name, "environ").split(b"\0"):
                    marked.add(int(entry.name))
            except (OSError, IndexError):
                continue  # gone meanwhile, or not ours to read
        herd = [(pid, states[pid][2]) for pid in states if pid in marked or self.is_below(pid, states)]
        return [(pid, start, self.line(pid)) for pid, start in herd if pid != self.root and states[pid][0] in "RSD" and self.wanted(pid)]

    def is_below(self, pid, states):
        while pid in states and pid != self.root:
            pid = states[pid][1]
        return pid == self.root

    def line(self, pid):
        try:
            return bytes_of(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""

    def wanted(self, pid):
        line = self.line(pid)
        return line and (not self.only or self.only.search(line)) and not (self.spare and self.spare.search(line))


class Signals:
    """By SIGSTOP, through a pidfd: never a stranger that has got the number meanwhile."""

    def stop(self, pid, start):
        fd = os.pidfd_open(pid)
        try:
            if stat_of(pid)[2] != start:
                raise ProcessLookupError
            signal.pidfd_send_signal(fd, signal.SIGSTOP)
        except OSError:
            os.close(fd)
            raise
        return fd

    def go(self, fd):
        try:
            signal.pidfd_send_signal(fd, signal.SIGCONT)
        except ProcessLookupError:
            pass
        os.close(fd)

    def end(self):
        pass


class Quota:
    """By a group for each, of 1 ms of CPU a second. What it has forked meanwhile is let go with it."""

    def __init__(self, mark):
        self.mark, self.count, self.left = mark, 0, []

    def stop(self, pid, start):
        self.count += 1
        group = GROUP / f"starved-{self.mark}-{self.count}"
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("1000000")
        (group / "cpu.cfs_quota_us").write_text("1000")
        try:
            if stat_of(pid)[2] != start:
                raise ProcessLookupError
            (group / "cgroup.procs").write_text(str(pid))
        except OSError:
            self.go(group)
            raise
        return group

    def go(self, group):
        (group / "cpu.cfs_quota_us").write_text("-1")
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                try:
                    (GROUP / "cgroup.procs").write_text(pid)
                except OSError:
                    pass  # it has gone
        try:
            group.rmdir()
        except OSError:
            # a zombie is in it until somebody takes it in
            self.left.append(group)

    def end(self):
        for group in self.left:
            try:
                group.rmdir()
            except OSError as error:
                print(f"starve.py: {group}: {error}", file=sys.stderr)


def span(text):
    low, high = map(float, text.split(":"))
    return low, high


def starve(command, herd, how, chance, options):
    """Until the command ends; returns how many stood still."""
    still, count, next_at = [], 0, time.monotonic()
    log = open(options.log, "a", encoding="utf-8") if options.log else None
    try:
        while command.poll() is None:
            now = time.monotonic()
            while still and still[0][0] <= now:
                how.go(heapq.heappop(still)[3])
            if now >= next_at and len(still) < options.at_a_time:
                next_at = now + chance.uniform(*options.pause)
                length = chance.uniform(*options.stop)
                among = sorted(one for one in herd.find() if one[0] not in [pid for _, _, pid, _ in still])
                if among:
                    pid, start, line = chance.choice(among)
                    try:
                        heapq.heappush(still, (time.monotonic() + length, count, pid, how.stop(pid, start)))
                    except OSError:
                        continue  # it has gone
                    count += 1
                    if log:
                        print(f"{time.time():.3f} {length:.3f} {pid} {line[:120]}", file=log, flush=True)
            time.sleep(LOOK_S)
    finally:
        for *_, one in still:
            how.go(one)
        how.end()
        if log:
            log.close()
    return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000)
    parser.add_argument("--stop", type=span, default=(0.1, 1.5))
    parser.add_argument("--pause", type=span, default=(0.0, 0.3))
    parser.add_argument("--at-a-time", type=int, default=2)
    parser.add_argument("--only")
    parser.add_argument("--spare")
    parser.add_argument("--quota", action="store_true")
    parser.add_argument("--log")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    print(f"starve.py: seed {options.seed}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    mark = f"{os.getpid()}.{time.time_ns()}"
    command = subprocess.Popen(options.command, env={**os.environ, MARK: mark})
    try:
        how = Quota(mark) if options.quota else Signals()
        count = starve(command, Herd(mark, command.pid, options.only, options.spare), how, random.Random(options.seed), options)
    finally:
        if command.poll() is None:
            command.terminate()
    print(f"starve.py: {count} stops", flush=True)
    return command.returncode


if __name__ == "__main__":
    sys.exit(main())
