#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_elastic.py [--kills N] [--limit SECONDS] - how soon torchrun's elastic training goes on after a SIGKILL, phase by phase.
#
# Two CPU workers over gloo train the perceptron of `manta bench --train` (784-256-10, 64 samples a step) under torchrun: c10d
# rendezvous on loopback, a checkpoint every 50 steps. One of the two is killed at a random moment, N times; time runs from just
# before kill(2) until both have completed a step again. Nothing is waited for longer than the limit: then the whole group is ended,
# counted as hung, and another is started. Prints one JSON object a row, as `manta bench -o json` does. Run by the python of an
# environment that has torch and numpy; the same file is the worker (`peers_elastic.py --worker FOLDER`).
import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WORKERS, BATCH, EVERY = 2, 64, 50
PHASES = ["up", "imported", "grouped", "loaded", "stepped"]  # what a worker notes, in this order
NAMES = ["new_process", "import", "group", "load", "step"]


# ---- the worker ----


def note(folder, what, step=0):
    line = json.dumps({"what": what, "pid": os.getpid(), "rank": int(os.environ["RANK"]), "step": step, "at": time.monotonic(),
                       "restart": int(os.environ["TORCHELASTIC_RESTART_COUNT"])})
    with open(f"{folder}/notes", "a") as file:
        file.write(line + "\n")


def worker(folder):
    note(folder, "up")
    import torch
    from torch import nn

    note(folder, "imported")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    note(folder, "grouped")
    inputs, labels = torch.randn(6000, 784), torch.randint(10, (6000,))  # as if it were read at once
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    step, saved = 0, f"{folder}/checkpoint"
    if os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    note(folder, "loaded", step)
    begun = step
    while True:
        picked = torch.randint(6000, (BATCH // WORKERS,))
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(inputs[picked]), labels[picked]).backward()
        optimizer.step()
        step += 1
        if step == begun + 1 or step % EVERY == 0:
            note(folder, "stepped", step)
        if step % EVERY == 0 and rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, saved + ".new")
            os.replace(saved + ".new", saved)


# ---- the one who kills ----


class Group:
    """One torchrun with its workers, in a session of its own."""

    def __init__(self, folder, restarts):
        self.folder, self.offset, self.notes = folder, 0, []
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={WORKERS}", f"--max-restarts={restarts}",
                 "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=manta", "--local-addr=127.0.0.1",
                 os.path.abspath(__file__), "--worker", folder]
        env = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        with open(f"{folder}/log", "w") as log:
            self.process = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)

    def read(self):
        try:
            with open(f"{self.folder}/notes") as file:
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind("\n") + 1]
        self.offset += len(whole)
        self.notes += [json.loads(line) for line in whole.splitlines()]

    def stepped(self, after, above):
        """The restart behind `above` in which every rank has completed a step since `after`; None: not yet."""
        self.read()
        new = [n for n in self.notes if n["at"] > after and n["restart"] > above]
        for restart in sorted({n["restart"] for n in new}):
            ranks = {n["rank"] for n in new if n["restart"] == restart and n["what"] == "stepped"}
            if len(ranks) == WORKERS:
                return restart
        return None

    def wait(self, after, limit, above=-1):
        until = time.monotonic() + limit
        while time.monotonic() < until and self.process.poll() is None:
            restart = self.stepped(after, above)
            if restart is not None:
                return restart
            time.sleep(0.002)
        return None

    def first(self, after, restart, what):
        """When the last rank noted it first."""
        times = {}
        for n in self.notes:
            if n["at"] > after and n["restart"] == restart and n["what"] == what:
                times.setdefault(n["rank"], n["at"])
        return max(times.values())

    def pid(self, rank):
        return [n["pid"] for n in self.notes if n["rank"] == rank][-1]

    def end(self):
        for pid in {n["pid"] for n in self.notes}:  # workers have sessions of their own
            if self.process.poll() is None and parent_of(pid) == self.process.pid:
                os.kill(pid, signal.SIGKILL)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError):
        return 0


def kill_once(group, limit):
    """One kill's phases in milliseconds; None: it did not go on."""
    before = group.notes[-1]["restart"]
    time.sleep(random.uniform(0.3, 0.6))
    at = time.monotonic()
    os.kill(group.pid(random.randrange(WORKERS)), signal.SIGKILL)
    restart = group.wait(at, limit, before)
    if restart is None:
        return None
    times = [at] + [group.first(at, restart, what) for what in PHASES]
    phases = {name: (b - a) * 1e3 for name, a, b in zip(NAMES, times, times[1:])}
    return {"total": (times[-1] - at) * 1e3, "restarts": restart - before} | phases


def row(name, values, unit="ms"):
    print(json.dumps({"case": name, "value": statistics.median(values), "unit": unit, "n": len(values), "min": min(values),
                      "max": max(values), "floor": ""}), flush=True)


def measure(kills, limit):
    results, hung = [], 0
    until = time.monotonic() + limit * (kills + 1)
    while len(results) + hung < kills and time.monotonic() < until:
        with tempfile.TemporaryDirectory(prefix="manta-elastic-") as folder:
            group = Group(folder, 3 * kills)
            try:
                if group.wait(0, 2 * limit) is None:
                    with open(f"{folder}/log") as log:
                        sys.exit(f"peers_elastic.py: torchrun makes no step: {log.read()[-2000:]}")
                while len(results) + hung < kills:
                    result = kill_once(group, limit)
                    if result is None:
                        hung += 1
                        break
                    results.append(result)
            finally:
                group.end()
    if results:
        row("torchrun_recover", [r["total"] for r in results])
        for name in NAMES:
            row(f"torchrun_recover.{name}", [r[name] for r in results])
        row("torchrun_recover.restarts", [r["restarts"] for r in results], "count")
    row("torchrun_recover.hung", [hung], "count")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--limit", type=float, default=30, help="seconds to wait for the next step")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # by way of every `finally`: nothing is left behind
    measure(args.kills, args.limit)


main()
