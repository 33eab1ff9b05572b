#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# conduct.py - a real cluster of two raylets under load, whose workers, raylets and head are killed and stopped.
#
# With --storm kills alone: a worker each second, a raylet every 20 s, the head every 45 s, for 150 s; judged in the same way.
#
# First a quiet run, then one with a schedule drawn from the seed: workers are killed twice a second, a raylet every 30 s,
# the head every 60 s (each at least once), each started again at once; workers, raylets and the head are stopped for up to
# 5 s. The ledger that the load writes is judged afterwards. Exit status 1 when anything was lost, duplicated, wrong or
# left over.
import argparse
import ctypes
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import ledger
from cluster import Cluster, now_ns, processes, stat_of

WORKER_KILLS_PER_S, RAYLET_S, HEAD_S, STOP_MAX_S = 2, 30, 60, 5
WORKER_STOP_S, DAEMON_STOP_S = 4, 25
SETTLE_S = 15 * int(os.environ.get("TEST_SLOWER", 1))
LINKS_MAX = 4  # descriptors to other nodes and the head, which come after a daemon's start
PR_SET_CHILD_SUBREAPER = 36


def each(rng, seconds, period):
    """One moment in each period of the run, the first and last second spared."""
    count = max(1, round(seconds / period))
    return [min(seconds - 1, max(1, (i + rng.random()) * seconds / count)) for i in range(count)]


def storm(rng, seconds):
    """As schedule, with kills alone, at a steady pace."""
    periods = (("worker", 1), ("raylet", 20), ("head", 45))
    return sorted((at, what, 0, rng.random()) for what, period in periods for at in each(rng, seconds, period))


def schedule(rng, seconds):
    """(second, what, length of a stop, a draw for the victim), in order."""
    events, at = [], 0.5
    while at < seconds - 0.5:
        events.append((at, "zygote" if rng.random() < 0.03 else "worker", 0, rng.random()))
        at += rng.expovariate(WORKER_KILLS_PER_S)
    events += [(at, "raylet", 0, rng.random()) for at in each(rng, seconds, RAYLET_S)]
    events += [(at, "head", 0, rng.random()) for at in each(rng, seconds, HEAD_S)]
    for what, period in (("worker", WORKER_STOP_S), ("raylet", DAEMON_STOP_S), ("head", DAEMON_STOP_S)):
        events += [(at, "stop " + what, rng.uniform(0.05, STOP_MAX_S), rng.random()) for at in each(rng, seconds, period)]
    return sorted(events)


class Faults:
    """Carries the schedule out, and writes down what was done to whom and when."""

    def __init__(self, cluster, tell):
        self.cluster, self.tell = cluster, tell
        self.kills = []  # (kind, ns, pids)
        self.outages = []  # of a node: (from, to)
        self.stopped = []  # (until, pid, start time)

    def signal(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def workers(self):
        return [pid for name in ("raylet0", "raylet1") for pid in sorted(self.cluster.below(name)[1])]

    def resume(self, all_of_them=False):
        left = []
        for until, pid, start in self.stopped:
            stat = stat_of(pid)
            if not all_of_them and until > time.monotonic():
                left.append((until, pid, start))
            elif stat and stat[2] == start:
                self.signal(pid, signal.SIGCONT)
        self.stopped = left

    def pick(self, what, draw):
        if what == "worker":
            pids = self.workers()
        elif what == "zygote":
            pids = self.cluster.below("raylet0")[0] + self.cluster.below("raylet1")[0]
        else:
            pids = [self.cluster.daemons["head" if what == "head" else f"raylet{int(draw * 2)}"].pid]
        return pids[int(draw * len(pids))] if pids else None

    def do(self, what, length, draw):
        if what.startswith("stop "):
            pid = self.pick(what[5:], draw)
            stat = stat_of(pid) if pid else None
            if stat:
                self.signal(pid, signal.SIGSTOP)
                self.stopped.append((time.monotonic() + length, pid, stat[2]))
                self.tell(f"{what} {pid} for {length:.1f} s")
        elif what in ("worker", "zygote"):
            pid = self.pick(what, draw)
            if pid:
                children = [child for child, parent in processes().items() if parent == pid]
                self.kills.append((what, now_ns(), [pid, *children]))
                self.signal(pid, signal.SIGKILL)
                self.tell(f"kill {what} {pid}")
        else:
            self.kill_daemon("head" if what == "head" else "raylet1", what)

    def kill_daemon(self, name, what):
        pids = self.cluster.below(name)[1] if what == "raylet" else []
        since = now_ns()
        self.kills.append((what, since, pids))
        self.cluster.kill(name)
        self.cluster.start(name, self.resume)
        if what == "raylet":
            self.outages.append((since, now_ns() + 3_000_000_000))
        self.tell(f"kill {name}, back after {(now_ns() - since) / 1e6:.0f} ms")


def load_start(cluster, path, seconds, seed):
    command = [cluster.build / "tests/chaos/chaos_load", cluster.folder / "n0", path, seconds, seed]
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL)


def load_wait(process, limit_s, said):
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        said.append("the driver did not end")
        return
    if status not in (0, 1):  # 1: a call without outcome; the ledger says which
        said.append(f"the driver ended with status {status}")


def run_faults(cluster, folder, args, said):
    faults = Faults(cluster, (lambda text: print(f"  {time.monotonic() - begin:6.2f} {text}", flush=True))
                    if args.verbose else lambda text: None)
    path = folder / "ledger"
    process = load_start(cluster, path, args.seconds, args.seed)
    begin = time.monotonic()
    for at, what, length, draw in (storm if args.storm else schedule)(random.Random(args.seed), args.seconds):
        while time.monotonic() - begin < at and process.poll() is None:
            faults.resume()
            time.sleep(min(0.02, max(0, at - (time.monotonic() - begin))))
        if process.poll() is not None:
            break
        faults.do(what, length, draw)
    while faults.stopped:
        faults.resume()
        time.sleep(0.02)
    load_wait(process, args.seconds + 90, said)
    return faults, ledger.calls_of(ledger.read(path))


def shared_memory():
    """But for what servers of tests/redis keep there: another run on this machine may have some."""
    return {f"shared memory {path}" for path in pathlib.Path("/dev/shm").glob("*manta*") if not path.name.startswith("manta-redis-")}


def left_over(cluster, before):
    """Descriptors of daemons after the load, then, after their end, processes and files, and shared memory that was not there before."""
    left, until = [], time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        grown = {name: cluster.fds_of(name) - before for name, before in cluster.fds.items()}
        if all(more.total() <= LINKS_MAX for more in grown.values()):
            break
        time.sleep(0.2)
    left += [f"{more.total()} descriptors of {name}: {dict(more)}" for name, more in grown.items() if more.total() > LINKS_MAX]
    left += cluster.stop()
    for pid in processes_left():
        try:
            left.append(f"process {pid}: {pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().decode(errors='replace')}")
            os.kill(pid, signal.SIGKILL)
        except OSError:
            left.append(f"process {pid}, which has ended meanwhile")
    kept = {"daemons.log", "ledger", "quiet", "head", "n0", "n1", "head/state", "head/token"}
    for path in sorted(cluster.folder.rglob("*")):
        name = path.relative_to(cluster.folder).as_posix()
        if name not in kept and not name.startswith("head/state/"):
            left.append(f"file {name}")
    return left + sorted(shared_memory() - before)


def processes_of_ours():
    """What is left below us; as subreaper we have inherited it."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    return [pid for pid, parent in processes().items() if parent == os.getpid()]


def processes_left():
    """Those of ours that do not end: what the daemons have started may go on for a moment after them."""
    until = time.monotonic() + SETTLE_S
    while (below := processes_of_ours()) and time.monotonic() < until:
        time.sleep(0.05)
    return below


def goodput(calls):
    times = [c.outcome.time for c in calls.values() if c.outcome and c.outcome.code == 0]
    return len(times) / max(1e-9, (max(times) - min(times)) / 1e9) if len(times) > 1 else 0


def longest_gap(calls):
    """Milliseconds in which no call was done, between two that were."""
    times = sorted(c.outcome.time for c in calls.values() if c.outcome and c.outcome.code == 0)
    return max((to - since for since, to in zip(times, times[1:])), default=0) / 1e6


def report(args, quiet, calls, faults, left):
    judge = ledger.Judge(calls, [time for kind, time, _ in faults.kills for _ in range(1 if kind != "raylet" else 4)],
                         faults.outages)
    accepted = [c for c in calls.values() if c.submit]
    completed = [c for c in accepted if c.outcome and c.outcome.code == 0]
    print(f"seed {args.seed}, {args.seconds} s: accepted {len(accepted)}, completed {len(completed)}, lost {len(judge.lost)}, "
          f"duplicated {len(judge.duplicated)}, wrong {len(judge.wrong)}, left over {len(left)}")
    counts = {kind: sum(k[0] == kind for k in faults.kills) for kind in ("worker", "zygote", "raylet", "head")}
    print("kills: " + ", ".join(f"{kind} {count}" for kind, count in counts.items()))
    for kind, values in sorted(ledger.recoveries(calls, faults.kills).items()):
        print(f"recovery after {kind}: p50 {ledger.percentile(values, 0.5):.1f} ms, p99 "
              f"{ledger.percentile(values, 0.99):.1f} ms ({len(values)} interrupted)")
    print(f"goodput {goodput(calls):.0f}/s, quiet {goodput(quiet):.0f}/s: {goodput(calls) / max(1, goodput(quiet)):.2f}; "
          f"longest gap {longest_gap(calls):.0f} ms, quiet {longest_gap(quiet):.0f} ms")
    if judge.errors:
        print("typed errors: " + ", ".join(f"{text} ({count})" for text, count in sorted(judge.errors.items())))
    for title, found in (("lost", judge.lost), ("duplicated", judge.duplicated), ("wrong", judge.wrong)):
        for call, why in found[:10]:
            print(f"{title}: {ledger.KINDS.get(call.kind, call.kind)} {call.key:x}: {why}")
    for text in left:
        print(f"left over: {text}")
    return 1 if judge.lost or judge.duplicated or judge.wrong or left else 0


def main():
    parser = argparse.ArgumentParser(prog="chaos.sh")
    parser.add_argument("--seconds", type=int, help="300, with --storm 150")
    parser.add_argument("--storm", action="store_true", help="kills alone: a worker each second, a raylet every 20 s, the head every 45 s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=pathlib.Path(__file__).resolve().parents[2] / "build/release")
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("--verbose", action="store_true", help="tell each fault")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and ledger")
    args = parser.parse_args()
    args.seconds = args.seconds or (150 if args.storm else 300)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mchaos."))
    os.environ.pop("MANTA_ADDRESS", None)
    left, status, before = [], 1, shared_memory()
    try:
        cluster = Cluster(args.build, folder, args.cpus)
        quiet_s = max(3, args.seconds // 10)
        load_wait(load_start(cluster, folder / "quiet", quiet_s, args.seed), quiet_s + 90, left)
        quiet = ledger.calls_of(ledger.read(folder / "quiet"))
        faults, calls = run_faults(cluster, folder, args, left)
        left += left_over(cluster, before)
        status = report(args, quiet, calls, faults, left)
    finally:
        for pid in processes_of_ours():
            os.kill(pid, signal.SIGKILL)
        if args.keep or status:
            print(f"logs and ledger: {folder}")
        else:
            shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main())
