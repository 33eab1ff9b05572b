#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# disk_test.py BIN CASE... - a disk of a few MiB that others fill while a training or a sweep writes there: its process goes on
# and says so, nothing that was accepted is lost, and with room again all goes on by itself.
import csv
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from cli_test import BIN, CALL_S, check, equal, fill, has, own_mounts, run_case, wait_until  # noqa: E402


class Disk:
    """A file system of its own."""

    def __init__(self, p, mib):
        if not own_mounts():
            sys.exit(77)
        self.path, self.private = p.root / "disk", p.folder
        self.path.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "none", self.path], check=True)

    def fill(self):
        fill(self.path / "filler")

    def empty(self):
        """Room again; from when on."""
        (self.path / "filler").unlink()
        return time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)
        self.path.rmdir()
        self.private.rmdir()  # which stays when private clusters have gone, and is empty


class Program:
    """`manta` in the background, and what it has said."""

    def __init__(self, p, *words):
        self.said = []
        self.process = subprocess.Popen([BIN / "manta", *map(str, words)], env=p.env, cwd=p.root, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=lambda: self.said.extend(iter(self.process.stdout.readline, "")))
        self.reader.start()

    def text(self):
        return "".join(self.said)

    def count(self, word):
        return self.text().count(word)

    def wait_for(self, word, more=0):
        """For `more` of it and one."""
        wait_until(lambda: self.count(word) > more or self.process.poll() is not None, f"it says {word!r}: {self.text()[-2000:]}")
        check(self.count(word) > more, f"it ended without saying {word!r}: {self.text()[-2000:]}")
        return time.monotonic()

    def end(self):
        code = self.process.wait(timeout=CALL_S)
        self.reader.join()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.end()


# Saves are far apart: one that is under way when the disk is filled gives its room back when it fails, and then the logs have some.
TRAINING = """
model: {name: mlp, hidden: [384, 384]}
data: {path: rows.csv, label: class}
run: {name: one, epochs: 100000, batch: 480, log_steps: 1, storage: disk/runs, timeline: disk/timeline.json, tracking: disk/track}
scaling: {max_workers: 2}
checkpoint: {every_steps: 100, keep: 1}
optimizer: {lr: 0.01}
log: {csv: disk/log.csv, tensorboard: disk/board}
"""


LOGS = "the CSV log", "TensorBoard's log"


def rows_make(path):
    source = random.Random(3)
    rows = [[source.random() + (i == r % 3) for i in range(6)] + [r % 3] for r in range(960)]
    path.write_text("a,b,c,d,e,f,class\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))


def records(path):
    """Of a file of events; it holds whole ones only."""
    data = path.read_bytes()
    while data:
        size = int.from_bytes(data[:8], "little")
        check(len(data) >= size + 16, "a record is torn")
        yield data[12:12 + size]
        data = data[size + 16:]


def checkpoints(p):
    """A training whose checkpoints, logs, timeline and tracking are on the disk that is full for a while."""
    with Disk(p, 24) as disk:
        rows_make(p.root / "rows.csv")
        (p.root / "job.yaml").write_text(TRAINING)
        with Program(p, "train", "job.yaml") as run:
            run.wait_for("checkpoint saved")
            disk.fill()
            run.wait_for("checkpoint failed at step=")
            steps = run.count("step=")
            run.wait_for("checkpoint failed at step=", more=3)
            check(run.count("step=") > steps, f"no step is made while the disk is full: {run.text()[-3000:]}")
            failed, saved = run.count("checkpoint failed"), run.count("checkpoint saved")
            begun = disk.empty()
            took = run.wait_for("checkpoint saved", more=saved) - begun
            print(f"disk_full: checkpoints on again {took:.2f} s after relief, {failed} had failed", flush=True)
            wait_until(lambda: all(run.count(f"{log}: there is room again") == run.count(f"{log}: the disk is full") for log in LOGS),
                       "the logs go on")
            run.process.send_signal(signal.SIGTERM)
            equal(run.end(), 143, run.text()[-2000:])
        last = int(run.text().split("paused at step=")[1].split()[0])
        logged = [int(row["step"]) for row in csv.DictReader((disk.path / "log.csv").open()) if row["what"] == "train"]
        equal(logged, list(range(1, len(logged) + 1)), "steps in the CSV log")
        equal(len(logged), last, "steps in the CSV log")
        tracked = [json.loads(line)["step"] for line in (disk.path / "track/one/metrics.jsonl").read_text().splitlines()]
        equal(sorted(set(tracked)), logged, "steps that are tracked")
        json.loads((disk.path / "timeline.json").read_text())
        equal(json.loads((disk.path / "track/one/status.json").read_text())["status"], "stopped")
        equal(sum(b"train/lr" in record for record in records(next((disk.path / "board").iterdir()))), last, "in TensorBoard's log")
        for log in LOGS:  # more than once where a save that failed has given its room back
            full = run.count(f"{log}: the disk is full")
            check(full > 0, f"{log} was never full")
            equal(run.count(f"{log}: there is room again"), full, log)


def sweep_text(trials, command):
    return f"""
name: one
metric: loss
trials: {trials}
concurrency: 2
storage: disk/sweeps
trial: {{command: [sh, -c, '{command}', name, "{{file}}"]}}
space:
  x: {{type: uniform, low: 0, high: 1}}
"""


def ended(p):
    line = next(line for line in p.manta("sweep", "list", "--storage", p.root / "disk/sweeps").splitlines() if line.startswith("one "))
    return int(line.split()[3])


# The later ones wait until the disk is full: the sweep is not through before.
RUN = ("cat $1 > /dev/null; [ $MANTA_TRIAL -lt 50 ] || while [ ! -e ROOT/full ]; do sleep 0.02; done; sleep 0.02; "
       "echo $MANTA_TRIAL >> ROOT/ran; echo loss=1")


def sweep_begin(p, disk, trials):
    (p.root / "job.yaml").write_text(sweep_text(trials, RUN.replace("ROOT", str(p.root))))
    run = Program(p, "sweep", "job.yaml")
    wait_until(lambda: (p.root / "ran").exists() and ended(p) >= 5, "trials end")
    disk.fill()
    (p.root / "full").touch()
    run.wait_for("the disk is full: make room")
    return run


def sweep(p):
    """Its journal is on the disk: trials that run end, none is begun, each runs once, none fails."""
    with Disk(p, 24) as disk, sweep_begin(p, disk, 400) as run:
        before = ended(p)
        time.sleep(1)
        check(run.process.poll() is None, f"it has ended: {run.text()}")
        equal(ended(p), before, "trials that ended in a full journal")
        begun = disk.empty()
        wait_until(lambda: ended(p) > before, "it goes on")
        print(f"disk_full: a sweep on again {time.monotonic() - begun:.2f} s after relief, {before} trials had ended", flush=True)
        run.wait_for("there is room again")
        equal(run.end(), 0, run.text())
        has("400 trials, 400 completed, 0 stopped early, 0 failed", run.text())
        equal(sorted(map(int, (p.root / "ran").read_text().split())), list(range(400)), "trials that ran")


def sweep_stopped(p):
    """Who stops it does not wait for room; what it had accepted is there when it is resumed."""
    with Disk(p, 24) as disk:
        with sweep_begin(p, disk, 200) as run:
            before = ended(p)
            run.process.send_signal(signal.SIGTERM)
            equal(run.end(), 1, run.text())
            has("make room and resume", run.text())
        with Program(p, "sweep", "resume", "one", "--storage", "disk/sweeps") as run:
            equal(run.end(), 1, run.text())  # who starts it on a full disk hears of it at once
            has("full", run.text())
        disk.empty()
        equal(ended(p), before)
        with Program(p, "sweep", "resume", "one", "--storage", "disk/sweeps") as run:
            equal(run.end(), 0, run.text())
        has("200 trials, 200 completed, 0 stopped early, 0 failed", run.text())


if __name__ == "__main__":
    results = [run_case(name, globals()) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
