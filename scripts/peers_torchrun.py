#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers_torchrun.py [KILLS] - how soon torch trains again after a SIGKILL of one of two workers under torchrun elastic.

The same perceptron and batch as `manta bench --train`: DDP over gloo, one thread a worker, a checkpoint every 100 steps. Each
worker notes when it began, had imported torch, had its group, its state, and each step; the time of the kill is this script's.
Prints one JSON object a line: the median of all kills, and of each phase, in ms. Needs torch; run by peers_train.sh.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PHASES = ["start", "import", "group", "load", "step"]


def worker(folder):
    begun = time.monotonic()
    import torch
    import torch.distributed as dist

    imported = time.monotonic()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    grouped = time.monotonic()
    saved, step = folder / "checkpoint", 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    loaded = time.monotonic()
    data, labels = torch.rand(32, 784), torch.randint(0, 10, (32,))
    log = open(folder / f"log-{rank}-{os.getpid()}", "w", buffering=1)
    first = True
    while not (folder / "stop").exists():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
        step += 1
        if rank == 0 and step % 100 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, folder / "new")
            os.replace(folder / "new", saved)
        if first or step % 20 == 0:
            times = [begun, imported, grouped, loaded, time.monotonic()]
            print(json.dumps({"pid": os.getpid(), "step": step, "times": times, "first": first}), file=log)
        first = False
    os._exit(0)


def line_of(folder, rank, seen, first):
    """A line of a worker of this rank that is not in `seen` (pids): its first one, or a later one."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        for path in folder.glob(f"log-{rank}-*"):
            for text in path.read_text().splitlines():
                line = json.loads(text) if text.endswith("}") else None
                if line and line["pid"] not in seen and line["first"] == first:
                    return line
        time.sleep(0.02)
    said = (folder / "said").read_text()[-2000:]
    sys.exit(f"peers_torchrun.py: torchrun's workers did not come back within 60 s; it said last:\n{said}")


def measure(kills):
    totals, phases = [], {name: [] for name in PHASES}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", str(kills + 1),
                   "--standalone", "--monitor-interval", "0.1", __file__, "--worker", name]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(folder / "said", "w"),
                               env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            seen = set()
            for _ in range(kills):
                old = [line_of(folder, rank, seen, False)["pid"] for rank in (0, 1)]
                seen.update(old)
                killed = mark = time.monotonic()
                os.kill(old[1], signal.SIGKILL)
                times = line_of(folder, 0, seen, True)["times"]
                totals.append(times[-1] - killed)
                for phase, at in zip(PHASES, times):
                    phases[phase].append(at - mark)
                    mark = at
            (folder / "stop").touch()
            run.wait(60)
        finally:
            run.kill()
            run.wait()
    print(json.dumps({"id": "torchrun_recover", "unit": "ms", "value": statistics.median(totals) * 1e3, "n": kills}))
    for phase in PHASES:
        print(json.dumps({"id": f"torchrun_recover.{phase}", "unit": "ms", "value": statistics.median(phases[phase]) * 1e3}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(pathlib.Path(sys.argv[2]))
    else:
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
