#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# gang_speed.py BUILD_FOLDER [--runs N] [--only ROW] - `manta run` beside torchrun, in turn, with a program of torch over gloo (gang_rank.py).
#
#   gang_start    from the command until the first collective is done in both ranks, less the time that they take to import torch
#   gang_recover  a rank is killed until both have done the next step, less the time that the new ones take to import torch. torchrun gives
#                 its ranks the store of its own rendezvous, where a new attempt may read the last one's addresses: then it hangs or
#                 ends with 1. So it is told to give them a new one each time. Where it fails even so it is run again, and that is said
#   gang_elastic  --nodes 1:4 while nodes come, leave, are drained and are killed, under a program that saves after each step: samples that are
#                 missing or counted twice in the end. Its sizes and restarts are said too
#
# Prints one JSON object a row; the floor is torchrun's of the same run. MANTA_TORCH_PYTHON: a python that has torch, as for the tests.
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TREE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TREE / "tests" / "integration" / "torch"))
import where  # noqa: E402

LIMIT_S, RUN_S = 240, 90  # RUN_S: of one run of recover or start; torchrun has hung
RANK = str(TREE / "scripts" / "gang_rank.py")


class Machine:
    """A cluster of its own: the head with a node without CPUs, and what `node` adds."""

    def __init__(self, build, cpus):
        self.bin, self.base = pathlib.Path(build).resolve() / "bin", pathlib.Path(tempfile.mkdtemp(prefix="mgs."))
        self.head = self.base / "head"
        self.env = {**os.environ, "MANTA_ADDRESS": str(self.head), "OMP_NUM_THREADS": "1",
                    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.nodes = []
        self.manta("start", "--head", "--dir", self.head, "--num-cpus", cpus)

    def manta(self, *words):
        subprocess.run([self.bin / "manta", *map(str, words)], env=self.env, check=True, timeout=60, stdout=subprocess.DEVNULL)

    def node(self):
        name = f"n{len(self.nodes)}"
        self.manta("start", "--address", self.head, "--dir", self.base / name, "--node-name", name, "--num-cpus", 1)
        self.nodes.append(name)
        return name

    def kill(self, name):
        """As if its machine were gone: the keeper first, so that nobody starts the raylet again."""
        for which in ("keeper", "daemon"):
            for record in (self.base / name / "daemons").iterdir():
                words = dict(line.split(" ", 1) for line in record.read_text().splitlines())
                os.kill(int(words[which].split()[0]), signal.SIGKILL)

    def close(self):
        for name in [*self.nodes, "head"]:
            subprocess.run([self.bin / "manta", "stop", "--dir", self.base / name, "--purge"], env=self.env, check=False, timeout=60,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.base, ignore_errors=True)


def read(folder):
    with open(os.path.join(folder, "said"), encoding="ascii") as file:
        return file.read()


def timed(machine, command, mode):
    """Seconds of one run, less the import. None: it hung, or did not end with 0."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.time()
        run = subprocess.Popen([*map(str, command), RANK, folder, mode], env=machine.env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        try:
            words = run.communicate(timeout=RUN_S)[1]
        except subprocess.TimeoutExpired:
            run.terminate()
            words = run.communicate(timeout=LIMIT_S)[1]
        if run.returncode != 0:
            print(f"gang_speed.py: {command[0]} ended with {run.returncode}: {words[-400:]}", file=sys.stderr)
            return None
        said = read(folder)
    loads = re.findall(r"^[\d.]+ loaded ([\d.]+)", said, re.M)
    steps = {(int(rank), int(number)): float(at) for at, rank, number in re.findall(r"^([\d.]+) step (\d) (\d+)", said, re.M)}
    if mode == "recover":
        begun = float(re.search(r"^([\d.]+) kill", said, re.M)[1])
        return max(steps[0, 6], steps[1, 6]) - begun - max(map(float, loads[2:]))
    return max(steps[0, 0], steps[1, 0]) - begun - max(map(float, loads))


def beside_torchrun(machine, python, runs, mode):
    ours = [machine.bin / "manta", "run", "-n", 2, "--cpus", 0, "--as", "torch", "--max-restarts", 1, "--", python]
    theirs = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", 1]
    took, failed = {"ours": [], "theirs": []}, {"ours": 0, "theirs": 0}
    while min(map(len, took.values())) < runs and max(failed.values()) <= runs:
        for side, command in (("ours", ours), ("theirs", theirs)):  # in turn
            seconds = timed(machine, command, mode) if len(took[side]) < runs else None
            if seconds is not None:
                took[side].append(seconds)
            elif len(took[side]) < runs:
                failed[side] += 1
    if min(map(len, took.values())) < runs:
        sys.exit(f"gang_{mode}: too many runs failed: {failed}")
    mine, floor = (statistics.median(took[side]) for side in ("ours", "theirs"))
    row = {"median": mine, "least": min(took["ours"]), "most": max(took["ours"]), "floor": floor, "ratio": mine / floor}
    row = {name: round(value, 3) for name, value in row.items()}
    print(json.dumps({"id": f"gang_{mode}", "unit": "s", "n": runs, **row, "failed": failed}), flush=True)


def wait_for(folder, pattern, what):
    until = time.monotonic() + LIMIT_S
    while not re.search(pattern, read(folder) if os.path.exists(f"{folder}/said") else "", re.M):
        if time.monotonic() > until:
            sys.exit(f"gang_elastic: {what} did not happen: {read(folder)}")
        time.sleep(0.1)


def elastic(machine, python):
    with tempfile.TemporaryDirectory() as folder:
        nodes = [machine.node()]
        command = [machine.bin / "manta", "run", "--nodes", "1:4", "--per-node", 1, "--as", "torch", "--max-restarts", -1, "--kill-after", 2,
                   "--", python, RANK, folder, "elastic"]
        run = subprocess.Popen([*map(str, command)], env=machine.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(folder, r"begin 0 1 ", "a start on one node")
            nodes += [machine.node(), machine.node(), machine.node()]
            wait_for(folder, r"begin 0 4 ", "growth to four nodes")
            time.sleep(2)
            machine.kill(nodes[3])  # with its rank
            wait_for(folder, r"begin 0 3 ", "going on with three nodes")
            time.sleep(2)
            machine.manta("drain", nodes[0])  # where rank 0 may be
            wait_for(folder, r"begin 0 2 ", "going on with two nodes")
            said = run.communicate(timeout=LIMIT_S)[1]
        finally:
            run.kill()
            run.wait()
        counts = collections.Counter(json.load(open(f"{folder}/saved", encoding="ascii")))
        lost, twice = 2400 - len(counts), sum(n - 1 for n in counts.values())
        sizes = [int(size) for size in re.findall(r"begin 0 (\d) ", read(folder))]
    row = {"finishes": run.returncode == 0, "lost": lost, "twice": twice, "sizes": sizes, "begun_again": said.count("begins again")}
    print(json.dumps({"id": "gang_elastic", **row}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("start", "recover", "elastic"))
    args = parser.parse_args()
    python = where.python_with_torch()
    for mode in [args.only] if args.only else ["start", "recover", "elastic"]:
        machine = Machine(args.build, 0 if mode == "elastic" else 2)
        try:
            if mode == "elastic":
                elastic(machine, python)
            else:
                beside_torchrun(machine, python, args.runs, mode)
        finally:
            machine.close()


if __name__ == "__main__":
    main()
