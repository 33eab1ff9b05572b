#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# elastic.py BIN LOAD [chaos|idle|sweep|merge] [--seconds N] [--trials N] [--rounds N] [--seed S] [-o json] - a cluster that grows and shrinks by
# itself, with nodes of the provider "command": under sleeping tasks while a fifth of the launches fail, in rounds, or under a sweep.
#
#   chaos   a node is taken each 20 s (every second time with a notice of 2 s), the head is killed each 60 s (at least once). Judged by
#           the ledger (ledger.py); and the seconds that tasks which ended well have slept, as a part of the CPU seconds of the nodes that
#           were there, from the start of each node's process to its end
#   sweep   trials of a second each over 1, then up to 8, then 2 nodes with a CPU each: how often each has run to its end, and which part of
#           the CPU seconds of the nodes no trial ran, as long as some had not begun
#   merge   two nodes of which a quarter each is used by tasks become one, while these go on
#   idle    in each round values are made on nodes that then go back because they are idle; then they are read
#
# Exit status 1 where something was lost, done twice, wrong, or is left over.
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time

arguments = argparse.ArgumentParser()
arguments.add_argument("bin")
arguments.add_argument("load", type=pathlib.Path)
arguments.add_argument("what", nargs="?", choices=["chaos", "idle", "sweep", "merge"], default="chaos")
arguments.add_argument("--seconds", type=int, default=60)
arguments.add_argument("--rounds", type=int, default=100)
arguments.add_argument("--trials", type=int, default=1000)
arguments.add_argument("--seed", type=int, default=1)
arguments.add_argument("--preempt-s", type=float, default=20)
arguments.add_argument("--head-s", type=float, default=60)
arguments.add_argument("--verbose", action="store_true")
arguments.add_argument("-o", dest="output", choices=["table", "json"], default="table")
ARGS = arguments.parse_args()

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "integration/cli")]
sys.argv[1:] = [ARGS.bin]
import ledger  # noqa: E402
from cli_test import BIN, check, run_case, wait_until  # noqa: E402

CPUS, NODES = {"sweep": (1, 8), "merge": (4, 2)}.get(ARGS.what, (2, 4))
NAP_MS, FAIL_SHARE, NOTICE_S = 200, 0.2, 2

# What the provider "command" calls: a process of its own for each machine, and the files of those that are there.
MACHINES = """\
    import os, pathlib, random, signal, subprocess, sys
    at = pathlib.Path("{root}/machines")
    at.mkdir(exist_ok=True)
    here = os.environ.get("MANTA_ID", "")
    if sys.argv[1] == "launch" and not (at / (here + ".pid")).exists():
        if random.random() < {fail}:
            sys.exit("no quota is left")
        log = open(at / "nodes.log", "a")
        it = subprocess.Popen(["{bin}/manta-raylet", "--dir", str(at / here[-6:]), "--num-cpus", "{cpus}", "--store-memory", "67108864",
                               "--head-file", os.environ["MANTA_HEAD_FILE"], "--labels", os.environ["MANTA_LABELS"]],
                              stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        (at / (here + ".new")).write_text(str(it.pid))
        (at / (here + ".new")).rename(at / (here + ".pid"))
        print(it.pid)
    for file in at.glob("*.pid"):
        pid = int(file.read_text())
        try:
            state = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            state = "Z"
        if state == "Z":
            file.unlink()
        elif sys.argv[1] == "list":
            print(file.stem, pid)
        elif sys.argv[1] == "terminate" and file.stem == here:
            os.kill(pid, signal.SIGINT)
    """


def cluster_file(p, nodes=NODES):
    script = p.root / "machines.py"
    fail = FAIL_SHARE if ARGS.what == "chaos" else 0
    script.write_text(textwrap.dedent(MACHINES).format(root=p.root, bin=BIN, cpus=CPUS, fail=fail))
    words = f"exec {sys.executable} {script}"
    file = p.root / "cluster.yaml"
    file.write_text(textwrap.dedent(f"""\
        provider:
          kind: command
          list: {words} list
          launch: {words} launch
          terminate: {words} terminate
        head: {{cpus: 0}}
        consolidate_s: {1 if ARGS.what == "merge" else 600}
        types:
          any: {{resources: {{CPU: {CPUS}}}, max: {nodes}, idle_s: 0.2, boot_s: 20}}
        """))
    return file


class Machines:
    """Those that are there, and the CPU seconds of all that were."""

    def __init__(self, p):
        self.at, self.seen, self.seconds, self.taken = p.root / "machines", {}, 0, set()

    def look(self):
        now, here = time.monotonic(), {}
        for file in self.at.glob("*.pid"):
            try:
                pid = int(file.read_text())
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, ValueError):
                continue
            if fields[0] != "Z":
                here[file.stem, pid] = self.seen.get((file.stem, pid), now)
        for key in self.seen:
            if key in here and key not in self.taken:
                self.seconds += (now - self.last) * CPUS
        self.seen, self.last = here, now
        return here

    def take(self, rng, notice):
        """One of them is gone without a word, or is told that it will be."""
        fit = sorted(key for key in self.look() if key not in self.taken)
        if not fit:
            return None
        key = rng.choice(fit)
        if not kill(key[1], signal.SIGTERM if notice else signal.SIGKILL):
            return None
        if notice:
            self.taken.add(key)
        return key


def load_start(p, *words, book="ledger"):
    return subprocess.Popen([ARGS.load, p.folder, p.root / book, *map(str, words)], env=p.env, stdin=subprocess.DEVNULL)


def chaos(p):
    rng, told = random.Random(ARGS.seed), []
    p.manta("up", cluster_file(p), "--state", p.root / "state")
    machines, load = Machines(p), load_start(p, "naps", ARGS.seconds, NAP_MS, 2 * CPUS * NODES)
    begun = time.monotonic()
    events = [(at, "node") for at in each(ARGS.preempt_s)] + [(at, "head") for at in each(ARGS.head_s)]
    kills, due, count = collections.Counter(), [], 0
    for at, what in sorted(events):
        while time.monotonic() - begun < at and load.poll() is None:
            machines.look()
            for end, key in [one for one in due if one[0] <= time.monotonic()]:
                due.remove((end, key))
                kill(key[1])
            time.sleep(0.02)
        if what == "head":
            kill(p.daemons()["head"])
        else:
            count += 1
            key = machines.take(rng, count % 2 == 0)
            if key and count % 2 == 0:
                due.append((time.monotonic() + NOTICE_S, key))
            what = what if key else "nothing"
        kills[what] += 1
        if ARGS.verbose:
            print(f"{time.monotonic() - begun:7.2f} {what} {count}", file=sys.stderr, flush=True)
    while load.poll() is None and time.monotonic() - begun < ARGS.seconds + 90:
        machines.look()
        for _, key in due:
            kill(key[1])
        due.clear()
        time.sleep(0.02)
    seconds = machines.seconds
    status = load.poll()
    told += [] if status == 0 else [f"the driver ended with {status}"]
    finish(p, told, kills, seconds)


def each(period):
    """Once in each period, at its middle; at least once."""
    count = max(1, round(ARGS.seconds / period))
    return [(i + 0.5) * ARGS.seconds / count for i in range(count)]


def kill(pid, number=signal.SIGKILL):
    """Whether it was there: a node may have gone by itself meanwhile."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def idle(p):
    p.manta("up", cluster_file(p))
    load = load_start(p, "idle", ARGS.rounds, 15000, 2 * NODES)
    machines, gone, before = Machines(p), set(), set()
    while load.poll() is None:
        here = set(machines.look())
        gone |= before - here
        before = here
        time.sleep(0.02)
    told = [] if load.returncode == 0 else [f"the driver ended with {load.returncode}"]
    told += [] if len(gone) >= ARGS.rounds else [f"{len(gone)} nodes were given back in {ARGS.rounds} rounds"]
    finish(p, told, {"nodes given back": len(gone)}, 0)


def merge(p):
    """Two drivers use a quarter of a node each, on two nodes: the one is drained, its tasks end there, and the next ones run on the other."""
    p.manta("up", cluster_file(p))
    for attempt in range(10):  # a driver that was slow between two tasks has let its lease go, and both may be on one node
        stay = merge_spread(p, attempt)
        wait_until(lambda: any(words in p.manta("scale", "history") for words in ("its work fits on others", "idle for")), "one is given back")
        if "idle for" not in p.manta("scale", "history"):
            break
        end(stay)
        p.manta("down")
        p.manta("up", cluster_file(p))
    else:
        check(False, "both drivers came to be on one node, ten times")
    wait_until(lambda: len(free_cpus(p)) == 1, "all runs on the other")
    for node in range(NODES):
        (p.root / f"stay{attempt}.{node}.stop").touch()
    told = [f"a driver ended with {load.wait(60)}" for load in stay if load.wait(60) != 0]
    books = [ledger.calls_of(ledger.read(p.root / f"stay{attempt}.{node}")) for node in range(NODES)]
    judges = [ledger.Judge(calls, [0], []) for calls in books]
    p.manta("down")
    p.manta("stop")
    rows = [("calls", sum(map(len, books))), ("again", sum(c.outcome.attempt > 0 for calls in books for c in calls.values() if c.outcome))]
    rows += [(bad, sum(len(getattr(judge, bad)) for judge in judges)) for bad in ("lost", "duplicated", "wrong")]
    for name, value in rows:
        say(f"merge.{name}", value)
    told += [f"{value} {name}" for name, value in rows[1:] if value]
    check(not told, "; ".join(told))


def free_cpus(p):
    return sorted(row["free"]["CPU"] for row in p.json("list", "nodes") if row["state"] == "ALIVE" and row["total"].get("CPU"))


def end(loads):
    for load in loads:
        load.kill()
        load.wait()


def merge_spread(p, attempt):
    """A driver on each of two nodes: others held all CPUs of these but one, until there was nowhere else to be. These come first: while
    one waits for its node, leases of the other node are asked back, and a driver that had one would look for the next anywhere."""
    stay, fill = [], []
    for node in range(NODES):
        fill.append(load_start(p, "naps", 1, 3600000, 1, CPUS - 1, book=f"fill{attempt}.{node}"))
        wait_until(lambda: free_cpus(p) == [1] * (node + 1), "all CPUs of each node but one are held")
    for node in range(NODES):
        stay.append(load_start(p, "naps", 3600, NAP_MS, 1, book=f"stay{attempt}.{node}"))
        wait_until(lambda: sum(free_cpus(p)) == NODES - 1 - node, "one CPU more is held")
    end(fill)
    return stay


def trials_write(p):
    script = p.root / "trial.sh"
    script.write_text(textwrap.dedent(f"""\
        echo "begin $MANTA_TRIAL $(date +%s%N)" >> {p.root}/runs
        sleep 1
        echo "end $MANTA_TRIAL $(date +%s%N)" >> {p.root}/runs
        echo "loss=$MANTA_TRIAL"
        """))
    file = p.root / "sweep.yaml"
    file.write_text(textwrap.dedent(f"""\
        name: elastic
        metric: loss
        trials: {ARGS.trials}
        storage: {p.root}/sweeps
        trial: {{command: [sh, {script}]}}
        space: {{x: {{type: uniform, low: 0, high: 1}}}}
        sampler: random
        """))
    (p.root / "runs").touch()
    return file


def sweep(p):
    p.manta("up", cluster_file(p, 1))
    job = p.manta("submit", "--", BIN / "manta", "sweep", trials_write(p)).strip()
    machines, runs, phase, waiting = Machines(p), p.root / "runs", 0, 0
    while p.json("job", "status", job)["state"] in ("PENDING", "RUNNING"):
        until = time.monotonic() + 1
        while time.monotonic() < until:
            machines.look()
            time.sleep(0.02)
        begun = runs.read_text().count("begin")
        if phase == 0 and begun >= ARGS.trials // 100:
            phase = 1
            p.manta("up", cluster_file(p, NODES))
        if phase == 1 and begun >= ARGS.trials * 7 // 10:
            phase = 2
            p.manta("up", cluster_file(p, 2))
            for key in sorted(machines.look())[2:]:
                node = next(n["node"] for n in p.json("list", "nodes") if key[0] in n["labels"])
                p.manta("drain", node, "--deadline", "60")
        if begun < ARGS.trials:
            waiting, waited_at = machines.seconds, time.time_ns()
    times = {word: collections.defaultdict(list) for word in ("begin", "end")}
    for word, trial, at in (line.split() for line in runs.read_text().splitlines()):
        times[word][int(trial)].append(int(at))
    ran = sum(max(0, min(end[-1], waited_at) - times["begin"][trial][-1]) for trial, end in times["end"].items()) / 1e9
    lost = [trial for trial in range(ARGS.trials) if len(times["end"][trial]) != 1]
    state = p.json("job", "status", job)["state"]
    p.manta("down")
    p.manta("stop")
    rows = [("", len(lost)), (".idle", 1 - ran / waiting), (".again", sum(len(b) - 1 for b in times["begin"].values())),
            (".cpu_s", waiting)]
    for suffix, value in rows:
        say("sweep_elastic" + suffix, value)
    check(state == "SUCCEEDED" and not lost, f"{state}; ended not once: {lost[:20]}")


def say(name, value):
    print(json.dumps({"id": name, "value": round(value, 4)}) if ARGS.output == "json" else f"{name:28} {value:.4g}", flush=True)


def finish(p, told, kills, seconds):
    calls = ledger.calls_of(ledger.read(p.root / "ledger"))
    judge = ledger.Judge(calls, [0], [])
    slept = sum(NAP_MS / 1000 for c in calls.values() if c.outcome and c.outcome.code == 0)
    p.manta("down")
    p.manta("stop")
    bad = {"lost": len(judge.lost), "duplicated": len(judge.duplicated), "wrong": len(judge.wrong)}
    rows = [(f"{ARGS.what}_elastic" if ARGS.what == "chaos" else "idle_safe", "", sum(bad.values()))]
    rows += [(rows[0][0], f".{name}", value) for name, value in bad.items()]
    if seconds:
        rows.append((rows[0][0], ".work", slept / seconds))
    rows += [(rows[0][0], f".{name.replace(' ', '_')}", value) for name, value in kills.items()]
    rows.append((rows[0][0], ".calls", len(calls)))
    for name, suffix, value in rows:
        say(name + suffix, value)
    for call, why in (judge.lost + judge.duplicated + judge.wrong)[:20]:
        told.append(f"{call.key:x}: {why}")
    check(not told, "; ".join(told))


if __name__ == "__main__":
    sys.exit(0 if run_case(ARGS.what, {"chaos": chaos, "idle": idle, "sweep": sweep, "merge": merge}) else 1)
