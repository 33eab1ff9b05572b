#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# jobs.py [--jobs N] [--seconds N] [--seed S] [--build DIR] [-o json] - a queue of jobs, alone, in arrays and after each other, while head and
# raylets are killed and nodes are drained.
#
# Each job is a shell that writes a line when it begins and one when it ends, to one file: the order of its lines is the order in which
# things happened, so no clock is asked. Some fail, as is planned; what must become of those that wait for them is known.
#
#   lost    a job whose submit was acknowledged, and that has not ended as is planned, or ended well and never wrote so
#   twice   one attempt began twice; two attempts ran at a time; one began after the cluster had said that the job has succeeded, or
#           after an earlier one had run to its end. But where the raylet that ran it was killed after that end: nobody may have heard
#           of it, above all where no head was there. Those are counted apart (.unheard)
#   early   one began before all that it waits for had ended, or was to wait for a failure that was none
#
# Exit status 1 where one of the three is not 0, or something is left over.
import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from cluster import Cluster, processes
from conduct import PR_SET_CHILD_SUBREAPER, processes_left, processes_of_ours
from gone import wait_gone

SLOWER = int(os.environ.get("TEST_SLOWER", 1))
CALL_S, LEAVE_S, END_S = 60 * SLOWER, 60 * SLOWER, 120 * SLOWER
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")

# KEY NAP CODE LEDGER. Its parent is the raylet. From the line of its end on a drain's SIGTERM changes nothing.
WORK = 'echo "begin $0 ${MANTA_ARRAY_INDEX:-0} $MANTA_JOB_ATTEMPT $PPID" >> $3; sleep $1; trap "" TERM; ' \
       'echo "end $0 ${MANTA_ARRAY_INDEX:-0} $MANTA_JOB_ATTEMPT $PPID" >> $3; exit $2'


class Plan:
    """One submission: how many jobs, whom they wait for, and what must become of them."""

    def __init__(self, key, count, fails, after, priority):
        self.key, self.count, self.fails, self.after, self.priority = key, count, fails, after, priority
        self.id = None  # once it was acknowledged

    def ids(self):
        return [self.id] if self.count == 1 else [f"{self.id}.{i}" for i in range(self.count)]

    def runs(self):
        """Whether what it waits for comes. (An array is never waited for by its failure: that may come before its end.)"""
        return all(of.succeeds() == (kind == "afterok") for kind, of in self.after if kind != "afterany")

    def succeeds(self):
        return self.runs() and not self.fails


def plans_make(rng, jobs):
    plans, left = [], jobs
    while left:
        count = min(left, rng.choice((1, 1, 1, 2, 5, 20)))
        earlier = plans[-20:]
        after = [(rng.choice(("afterok", "afterok", "afterany", "afternotok")), of)
                 for of in rng.sample(earlier, min(len(earlier), rng.choice((0, 1, 1, 2))))]
        after = [(kind if of.count == 1 or kind != "afternotok" else "afterany", of) for kind, of in after]
        plan = Plan(f"k{len(plans)}", count, False, after, rng.choice((0, 0, -1)))
        if not plan.runs() and rng.random() < 0.8:  # most run
            plan.after = []
        plan.fails = rng.random() < 0.15
        plans.append(plan)
        left -= count
    return plans


class Run:
    def __init__(self, args, folder):
        self.args, self.folder, self.rng = args, folder, random.Random(args.seed)
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.cluster = Cluster(args.build, folder, args.cpus)
        self.env = dict(os.environ, MANTA_ADDRESS=str(folder / "head"))
        self.blows, self.bad, self.seen = collections.Counter(), [], {}
        self.kills = {}  # pid of a raylet -> lines of the ledger when it had been killed
        self.is_submitted = threading.Event()

    def manta(self, *words):
        """Its status and what it printed."""
        done = subprocess.run([self.args.build / "bin/manta", *map(str, words)], env=self.env, capture_output=True, text=True,
                              timeout=CALL_S, check=False)
        return done.returncode, done.stdout, done.stderr

    def tell(self, text):
        if self.args.verbose:
            print(f"{time.monotonic() - self.begun:7.2f} {text}", file=sys.stderr, flush=True)

    def submit_all(self, plans):
        """As scripts do it: who gets no answer does not know, and is not waited for."""
        rng, pace = random.Random(self.args.seed + 1), self.args.seconds * 0.8 / len(plans)
        for plan in plans:
            if any(of.id is None for _, of in plan.after):
                continue
            words = ["--num-cpus", rng.choice((1, 1, 2)), "--priority", plan.priority, "--retries", 0 if plan.fails else 50]
            words += ["--array", plan.count] if plan.count > 1 else []
            if plan.after:
                words += ["--dependency", ",".join(f"{kind}:{of.id}" for kind, of in plan.after)]
            nap = f"{rng.random() * self.args.nap_s:.3f}"
            code, out, errors = self.manta("submit", *words, "--", "/bin/sh", "-c", WORK, plan.key, nap, int(plan.fails), self.ledger)
            if code == 0:
                plan.id = out.strip()
            else:
                self.tell(f"submit: {errors.strip()}")
            time.sleep(pace * rng.random())
        self.is_submitted.set()

    # ---- blows ----

    def lines(self):
        return self.ledger.read_bytes().count(b"\n")

    def states(self):
        """Of all jobs, as the cluster says now: what has succeeded never begins again."""
        code, out, _ = self.manta("job", "list", "-o", "json")
        rows, lines = {row["id"]: row for row in json.loads(out)} if code == 0 else {}, self.lines()
        for job, row in rows.items():
            if row["state"] == "SUCCEEDED":
                self.seen.setdefault(job, lines)
        return rows

    def kill_raylet(self, node):
        """Its jobs may outlive it for a moment, and write that they have ended: the reaper ends them."""
        raylet = self.cluster.daemons[f"raylet{node}"]
        raylet.send_signal(signal.SIGSTOP)  # it starts no further one
        jobs = [pid for pid, parent in processes().items() if parent == raylet.pid]
        self.cluster.kill(f"raylet{node}")
        self.bad += [f"process {pid} of a raylet that was killed" for pid in wait_gone(jobs, END_S)]
        self.kills[raylet.pid] = self.lines()
        self.cluster.start(f"raylet{node}")

    def kill_head(self):
        self.cluster.kill("head")
        time.sleep(self.rng.choice((0, 0, 0.5)))
        self.cluster.start("head")

    def number_of(self, node):
        """The last that has the name: those before it are dead, or are still hoped for."""
        _, out, _ = self.manta("list", "nodes", "-o", "json")
        return max((row["node"] for row in json.loads(out or "[]") if row["name"] == f"n{node}"), default=0)

    def drain(self, node):
        process = self.cluster.daemons[f"raylet{node}"]
        number = self.number_of(node)
        code, _, errors = self.manta("drain", number, "--deadline", self.rng.choice((0, 1)))
        if code:
            self.tell(f"drain: {errors.strip()}")
            return
        if self.rng.random() < 0.3:
            self.kill_head()
        try:
            if process.wait(LEAVE_S):
                self.bad.append(f"raylet{node} was drained, and ended with status {process.returncode}")
        except subprocess.TimeoutExpired:
            self.bad.append(f"raylet{node} was drained, and is there after {LEAVE_S} s")
            process.kill()
            process.wait()
        self.cluster.start(f"raylet{node}")

    def blow(self, what):
        node = self.rng.randrange(2)
        self.tell(f"{what} {node if what != 'head' else ''}")
        self.states()
        {"head": self.kill_head, "raylet": lambda: self.kill_raylet(node), "drain": lambda: self.drain(node)}[what]()
        self.blows[what] += 1

    def go(self, plans):
        self.begun = time.monotonic()
        submitter = threading.Thread(target=self.submit_all, args=(plans,))
        submitter.start()
        whats = ["raylet", "head", "drain"]
        while not self.is_submitted.is_set() or time.monotonic() - self.begun < self.args.seconds:
            self.blow(whats[sum(self.blows.values()) % 3] if sum(self.blows.values()) < 3 else self.rng.choice(whats))
            time.sleep(self.rng.random() * self.args.pause_s * 2)
        submitter.join()
        until, wanted = time.monotonic() + END_S, {job for plan in plans if plan.id for job in plan.ids()}
        while True:
            rows = self.states()
            if rows and all(rows[job]["state"] in ENDED for job in wanted if job in rows):
                return rows
            if time.monotonic() > until:
                self.bad.append(f"jobs that have not ended after {END_S} s")
                return rows
            time.sleep(0.1)


# ---- what is judged ----

class Job:
    def __init__(self):
        self.begins, self.ends = {}, {}  # attempt -> its line
        self.raylets = {}  # attempt -> pid of the raylet that ran it
        self.again = []  # attempts that began twice

    def last_line(self):
        return max([*self.begins.values(), *self.ends.values()], default=-1)


def jobs_of(ledger):
    jobs = collections.defaultdict(Job)
    for number, line in enumerate(ledger.read_text().splitlines(), 1):
        what, key, index, attempt, raylet = line.split()
        job, attempt = jobs[key, int(index)], int(attempt)
        if what == "begin" and attempt in job.begins:
            job.again.append(attempt)
        job.raylets.setdefault(attempt, int(raylet))
        (job.begins if what == "begin" else job.ends).setdefault(attempt, number)
    return jobs


def lost_of(plan, rows, jobs):
    for index, job in enumerate(plan.ids()):
        row, did = rows.get(job), jobs[plan.key, index]
        want = "SUCCEEDED" if plan.succeeds() else "FAILED"
        if not row:
            yield f"{job} is not there any more"
        elif row["state"] != want:
            yield f"{job} is {row['state']}, not {want}: {row.get('reason', '')}"
        elif want == "SUCCEEDED" and not did.ends:
            yield f"{job} has succeeded, and never ended"


def twice_of(name, job, kills, seen):
    """("twice" or "unheard", why) of one job."""
    for attempt in job.again:
        yield "twice", f"{name}: attempt {attempt} began twice"
    for attempt, begin in job.begins.items():
        if seen is not None and begin > seen:
            yield "twice", f"{name}: attempt {attempt} began after the job was shown as succeeded"
        for earlier, end in job.ends.items():
            if earlier >= attempt:
                continue
            if end > begin:
                yield "twice", f"{name}: attempt {attempt} began while attempt {earlier} ran"
            elif end <= kills.get(job.raylets[earlier], 0):
                yield "unheard", f"{name}: attempt {earlier} ended when its raylet was killed"
            else:
                yield "twice", f"{name}: attempt {attempt} began after attempt {earlier} had ended"


def early_of(plan, jobs):
    begins = [line for index in range(plan.count) for line in jobs[plan.key, index].begins.values()]
    if begins and not plan.runs():
        yield f"{plan.key} has run, and what it waits for has not come"
    for kind, of in plan.after:
        for index in range(of.count):
            did = jobs[of.key, index]
            if begins and (did.last_line() > min(begins) or (kind == "afterok" and not did.ends)):
                yield f"{plan.key} began before {of.key}.{index} had ended ({kind})"


def judge(run, plans, rows):
    jobs, found = jobs_of(run.ledger), collections.defaultdict(list)
    for plan in plans:
        found["early"] += early_of(plan, jobs)
        if not plan.id:
            continue
        found["lost"] += lost_of(plan, rows, jobs)
        for index, name in enumerate(plan.ids()):
            for what, why in twice_of(name, jobs[plan.key, index], run.kills, run.seen.get(name)):
                found[what].append(why)
    return jobs, found


def report(run, plans, rows):
    jobs, found = judge(run, plans, rows)
    bad = {what: len(found[what]) for what in ("lost", "twice", "early")}
    values = {"": sum(bad.values()), **{f".{what}": count for what, count in bad.items()},
              ".jobs": sum(plan.count for plan in plans if plan.id), ".unanswered": sum(not plan.id for plan in plans),
              ".attempts": sum(len(job.begins) for job in jobs.values()), ".unheard": len(found["unheard"]),
              **{f".{what}": count for what, count in run.blows.items()}}
    for suffix, value in values.items():
        print(json.dumps({"id": "jobs_chaos" + suffix, "value": value}) if run.args.output == "json" else f"jobs_chaos{suffix:20} {value}",
              flush=True)
    for what in ("lost", "twice", "early"):
        for why in found[what][:20]:
            print(f"{what}: {why}", file=sys.stderr)
    return sum(bad.values())


def main():
    parser = argparse.ArgumentParser(prog="chaos_jobs.sh")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--pause-s", type=float, default=1.0, help="between two blows, on average")
    parser.add_argument("--nap-s", type=float, default=1.0, help="the longest that a job sleeps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build/release")
    parser.add_argument("--verbose", action="store_true", help="tell each blow")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and ledger")
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    args = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder, status = pathlib.Path(tempfile.mkdtemp(prefix="mjobs.")), 1
    try:
        run = Run(args, folder)
        plans = plans_make(run.rng, args.jobs)
        status = report(run, plans, run.go(plans)) != 0
        run.bad += run.cluster.stop()
        run.bad += [f"process {pid}" for pid in processes_left()]
        for text in run.bad:
            print(f"left over: {text}", file=sys.stderr)
        status = int(status or bool(run.bad))
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
