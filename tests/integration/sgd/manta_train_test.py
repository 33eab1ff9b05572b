#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manta_train_test.py BIN CASE - `manta train` as its users type it, on a small data set of its own.

files          trains; the same weights with more workers; CSV and TensorBoard files hold what was told
models         each built-in operator; the example's file is a right one
shards         many virtual ranks: the same weights with any number of workers and CPUs, in the memory of a few gradients
devices        a worker of two CPUs, calm and killed: the weights of one with one; CPUs that can't be
tables         the same pictures as IDX, CSV and arrays of NumPy
bad_tables     what is wrong in such files is named by file, line and column, and by the job's line and key
timeline       a Chrome trace of a run whose worker is killed: whole, nested, with the recovery's phases; a later run goes on in it
tracking       parameters, metrics and artifacts of a run whose driver is killed; of one that fails; of a detached one
full_disk      a disk that is full before a checkpoint, or in the middle of one: the older one stays, and a later run goes on from it
bad_files      unknown sections and keys, wrong types, and what the operator refuses: file, line and key are named
waits          for room in this machine's cluster, and says so; a node that joins brings it
interrupted    SIGTERM leaves a checkpoint; after it and after SIGKILL the same command goes on, and no step is logged twice
emulated       a job that asks for a GPU, on the emulated one (tests/gpu/CMakeLists.txt names it in the environment)
tensorboard    the event file, read back by the tensorboard package (run by tensorboard_test.sh, which has it)
"""

import contextlib
import csv
import fcntl
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1])
CALL_S = 60 * int(os.environ.get("TEST_SLOWER", 1))  # longest life of one command
SIDE = 28
SOURCE = pathlib.Path(__file__).resolve().parents[3]


def idx_write(path, dims, data):
    path.write_bytes(struct.pack(">BBBB", 0, 0, 8, len(dims)) + struct.pack(f">{len(dims)}I", *dims) + data)


def set_write(folder, prefix, count, seed):
    """Ten classes of pictures: a bright stripe whose place is the class, in noise."""
    source = random.Random(seed)
    images, labels = bytearray(), bytearray()
    for _ in range(count):
        label = source.randrange(10)
        picture = bytearray(source.randbytes(SIDE * SIDE))
        for i in range(SIDE * SIDE):
            picture[i] = picture[i] // 2 + (80 if i // SIDE // 3 == label else 0)
        labels.append(label)
        images += picture
    idx_write(folder / f"{prefix}-images-idx3-ubyte.gz", (count, SIDE, SIDE), bytes(images))
    idx_write(folder / f"{prefix}-labels-idx1-ubyte.gz", (count,), bytes(labels))


def data_make(folder):
    set_write(folder, "train", 640, 1)
    set_write(folder, "t10k", 160, 2)


RUNS = []  # what each run said: a case that fails tells it all


def manta(folder, *words):
    subprocess.run([BIN / "manta", *words], check=True, capture_output=True, timeout=CALL_S, cwd=folder)


def train(folder, *words):
    RUNS.append(f"---- manta train {' '.join(map(str, words))}")
    run = subprocess.run([BIN / "manta", "train", *words], capture_output=True, text=True, timeout=CALL_S, cwd=folder)
    RUNS.append(f"{run.stdout}{run.stderr}---- exit {run.returncode}")
    return run.returncode, run.stdout, run.stderr


def job_text(folder):
    return f"""# a small run
model:
  name: mlp
  hidden: [32, 16]
data: {{path: {folder}}}
run:
  epochs: 4
  batch: 64
  log_steps: 5
optimizer: {{kind: adamw, lr: 3e-3, schedule: constant, clip_norm: 5}}
log: {{csv: {folder}/log.csv, tensorboard: {folder}/board}}
seed: 5
"""


def weights_of(output):
    return output.split("weights=")[1].split()[0]


def all_keys(folder):
    """Each key that --keys tells is one that a file may have, with a value of the type that it tells."""
    run = subprocess.run([BIN / "manta", "train", "--keys"], capture_output=True, text=True, timeout=CALL_S, check=True)
    values = {"whole number": "1", "whole number, M:N": "1:2", "number": "1", "true, false": "true", "text": "x"}
    options, operators = run.stdout.split("\nof the operators:\n")
    keys = {line.split()[0]: line[27:48].strip() for line in options.splitlines()}
    for name in ("mlp", "cnn", "gpt2"):  # each says what it asks for when it is given something else
        told = {line.split()[0].split(".")[1] for line in operators.splitlines() if name in line[27:48].split()}
        data = ("--set", f"data.path={SOURCE / 'LICENSE'}") if name == "gpt2" else ()
        _, _, err = train(folder, "job.yaml", "--check", "--set", f"model.name={name}", "--set", "model.hidden=8",
                          "--set", "model.nothing=1", *data)
        asked = set(err.split("it asks for")[1].replace(",", " ").replace(":", " ").split())
        assert {"data" if key == "path" else key for key in told} == asked & {*told, "data"} == asked, (name, told, err)
    assert {"seed", "model.name", "scaling.gpus", "run.epochs", "optimizer.kind", "log.csv"} <= keys.keys(), keys
    fitting = {"model.name": "mlp", "run.batch": "64", "run.shards": "2", "scaling.gpus": "-1", "checkpoint.score": "loss",
            "checkpoint.every_s": "0",
               "optimizer.zero": "1", "optimizer.momentum": "0.5", "optimizer.beta1": "0.5", "optimizer.beta2": "0.5"}
    sets = [word for key, kind in keys.items() for word in
            ("--set", f"{key}={fitting.get(key) or values.get(kind) or kind.split()[0]}")]
    assert train(folder, "job.yaml", "--check", *sets) == (0, "", "")


def files(folder):
    data_make(folder)
    job = folder / "job.yaml"
    job.write_text(job_text(folder))
    all_keys(folder)
    code, out, err = train(folder, "job.yaml", "--check", "--set", "run.storage=runs")
    assert (code, out, err) == (0, "", ""), (code, out, err)
    assert not (folder / "runs").exists()
    for wrong, told in (("model.hiden=3", "config hiden"), ("run.batch=63", "run.batch (63) must be a multiple of run.shards (8)"),
                        ("model.hidden=x", "hidden"), ("data.path=nothing", "nothing"), ("run.name=a/b", "run.name has")):
        code, out, err = train(folder, "job.yaml", "--check", "--set", wrong, "--set", "run.shards=8")
        assert code == 1 and not out and told in err, (wrong, code, out, err)
    code, out, err = train(folder, "job.yaml")
    assert code == 0, err
    assert "step=40 loss=" in out and "validated step=10" in out and "accuracy=" in out, out
    wanted = weights_of(out)
    code, out, err = train(folder, "job.yaml", "--quiet", "--set", "scaling.max_workers=2", "--set", "log.csv=other.csv")
    assert code == 0 and "step=5" not in out and weights_of(out) == wanted, (out, err)
    rows = list(csv.DictReader((folder / "log.csv").open()))
    assert [r["step"] for r in rows if r["what"] == "train"] == [str(s) for s in range(5, 41, 5)], rows
    assert [r["step"] for r in rows if r["what"] == "validate"] == ["10", "20", "30", "40"], rows
    assert all(float(r["loss"]) > 0 for r in rows)
    assert all(abs(float(r["lr"]) - 3e-3) < 1e-9 for r in rows if r["what"] == "train"), rows
    assert float(rows[-1]["accuracy"]) > 0.5, rows[-1]
    assert len(list((folder / "other.csv").open())) == len(rows) + 1
    stubborn = ("--set", "run.patience=1", "--set", "run.min_delta=1e9")  # no score is ever better by that much
    code, out, err = train(folder, "job.yaml", *stubborn)
    assert code == 0 and "validated step=20" in out and "validated step=30" not in out, (out, err)


def begin(folder, *words):
    """A run that goes on beside this test, with a pipe of what it says."""
    return subprocess.Popen([BIN / "manta", "train", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)


def read_until(run, *texts):
    """Lines up to the first that has one of the texts in it; the run must say one of them."""
    lines = []
    for line in run.stdout:
        lines.append(line)
        if any(text in line for text in texts):
            return lines
    raise AssertionError(f"the run has ended without {texts}: {lines}")


def pid_of(lines, rank):
    return int([line for line in lines if f"worker rank={rank} pid=" in line][-1].split("pid=")[1])


def shared_memory_of(pid):
    """Bytes of shared memory that a process has touched."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.split("RssShmem:")[1].split()[0])


def largest_worker(folder, words):
    """How much shared memory rank 0 has in the middle of a run; and the run's weights."""
    size = None
    while size is None:  # it may be through before we look
        run = begin(folder, *words)
        lines = read_until(run, "step=5 ")
        with contextlib.suppress(FileNotFoundError, IndexError):
            size = shared_memory_of(pid_of(lines, 0))
        out, _ = run.communicate(timeout=CALL_S)
        assert run.returncode == 0, out
    return size, weights_of(out)


def shards(folder):
    data_make(folder)
    (folder / "job.yaml").write_text(job_text(folder))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # so that 0 CPUs for one worker are two threads
    common = ("--set", "model.hidden=1024", "--set", "run.shards=64", "--set", "run.log_steps=1", "--set", "run.epochs=1")
    gradient = 4 * (SIDE * SIDE * 1024 + 1024 + 1024 * 10 + 10)
    weights = set()
    for cpus, workers, most in ((1, 1, 7), (0, 2, 12), (0, 3, 17), (2, 1, 12), (0, 1, 12)):
        size, sums = largest_worker(folder, ["job.yaml", *common, "--set", f"scaling.cpus={cpus}", "--set", f"scaling.max_workers={workers}",
                                             "--set", f"scaling.min_workers={workers}"])
        weights.add(sums)
        # The sum, and what all workers have on their stacks, are read by this one.
        assert size < (most + 1) * gradient + (8 << 20), (workers, size, gradient)
    assert len(weights) == 1, weights


def slices_check(events):
    """On each track slices lie beside or inside each other; returns them by name of the track."""
    tracks, names = {}, {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    for e in events:
        if e["ph"] == "X":
            tracks.setdefault(names[e["pid"], e["tid"]], []).append(e)
    for name, slices in tracks.items():
        inside = []
        for s in sorted(slices, key=lambda s: (s["ts"], -s["dur"])):
            end = s["ts"] + s["dur"]
            while inside and inside[-1] <= s["ts"] + 0.002:  # written to the nanosecond, two of them rounded
                inside.pop()
            assert not inside or end <= inside[-1] + 0.002, (name, s, inside)
            inside.append(end)
    return tracks


def named(slices, name):
    return [s for s in slices if s["name"] == name]


def within(outer, slices):
    return [s for s in slices if s["ts"] >= outer["ts"] - 0.002 and s["ts"] + s["dur"] <= outer["ts"] + outer["dur"] + 0.002]


def killed_run(folder, epochs):
    """A run of which rank 1 is killed in the middle; false: it has ended first, on a machine that has little time for us."""
    text = job_text(folder).replace("epochs: 4", f"epochs: {epochs}\n  storage: {folder}/runs-{epochs}\n  timeline: trace.json")
    (folder / "job.yaml").write_text(text + "scaling: {max_workers: 2}\nfailure: {max_failures: -1}\ncheckpoint: {every_steps: 100}\n")
    (folder / "trace.json").unlink(missing_ok=True)
    with begin(folder, "job.yaml") as run:
        lines = read_until(run, "step=10 ")
        try:
            os.kill(pid_of(lines, 1), signal.SIGKILL)
        except ProcessLookupError:
            pass
        lines += list(run.stdout)
    assert run.returncode == 0, lines
    return any("recovered in" in line for line in lines)


def timeline(folder):
    data_make(folder)
    epochs = next(epochs for epochs in (60, 600, 6000) if killed_run(folder, epochs))
    trace = json.loads((folder / "trace.json").read_text())
    tracks = slices_check(trace["traceEvents"])
    for rank in (0, 1):
        slices = tracks[f"rank {rank}"]
        steps = named(slices, "step")
        work = within(steps[-3], slices)  # of the newest none are lost, however late the driver reads them
        assert {"forward and backward", "all-reduce", "optimizer"} <= {s["name"] for s in work}, work
        assert [s["args"]["virtual rank"] for s in named(work, "forward and backward")] == [rank], work
        done = sorted(s["args"]["step"] for s in steps if s["cat"] == "train")
        assert done[-1] == 10 * epochs and named(slices, "validation"), done[-1]
    saves = named(tracks["rank 0: checkpoints"], "save")
    assert saves and all(s["args"]["step"] > 0 for s in saves), saves
    recovery = named(tracks["recoveries"], "recovery")
    assert len(recovery) == 1 and recovery[0]["args"]["workers lost"] == 1, recovery
    phases = within(recovery[0], [s for s in tracks["recoveries"] if s is not recovery[0]])
    assert [s["name"] for s in phases] == ["detect", "abort", "start", "load", "place", "sync", "first step"], phases
    assert phases[0]["dur"] > 0 and abs(sum(s["dur"] for s in phases) - recovery[0]["dur"]) < 1, (phases, recovery)
    code, _, err = train(folder, "job.yaml", "--quiet", "--set", f"run.epochs={epochs + 2}")  # a later driver goes on in the same file
    assert code == 0, err
    more = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert more[: len(trace["traceEvents"])] == trace["traceEvents"] and len(more) > len(trace["traceEvents"])
    assert max(s["args"]["step"] for s in named(slices_check(more)["rank 0"], "step")) == 10 * epochs + 20
    code, _, err = train(folder, "job.yaml", "--set", "run.timeline=no/folder/trace.json")
    assert code == 1 and "run.timeline" in err and "no/folder" in err, err


def tracked(folder, name):
    """The tracking of a run: each step of the file once, in order."""
    at = folder / "tracks" / name
    rows = [json.loads(line) for line in (at / "metrics.jsonl").read_text().splitlines()]
    for what in ("train/loss", "validate/loss"):
        steps = [row["step"] for row in rows if what in row]
        assert steps == sorted(set(steps)), (what, steps)
    return json.loads((at / "status.json").read_text()), json.loads((at / "params.json").read_text()), rows, at / "artifacts"


def tracking(folder):
    data_make(folder)
    text = job_text(folder).replace("epochs: 4", f"name: one\n  epochs: 300\n  storage: {folder}/runs\n  tracking: tracks")
    (folder / "job.yaml").write_text(text + "checkpoint: {every_steps: 40}\n")
    with begin(folder, "job.yaml") as run:
        read_until(run, "checkpoint saved")
        run.kill()
    (folder / "tracks/one/metrics.jsonl").open("a").write('{"step": 4')  # as a kill in the middle of a write leaves it
    code, out, err = train(folder, "job.yaml", "--set", "run.timeline=trace.json", "--set", "run.detached=false")
    assert code == 0 and "resumed" in out, (out, err)
    status, params, rows, artifacts = tracked(folder, "one")
    assert (status["run"], status["status"], status["step"], status["error"]) == ("one", "finished", 3000, None), status
    assert params["operator"] == "mlp" and params["config.hidden"] == "32,16" and params["run.epochs"] == "300", params
    told = {"run.shards": "2", "run.validate_epochs": "1", "run.log_steps": "5", "checkpoint.keep": "2", "checkpoint.score": "loss",
            "optimizer.kind": "adamw", "optimizer.lr": "0.003", "optimizer.schedule": "constant", "optimizer.beta2": "0.999",
            "optimizer.weight_decay": "0.01", "failure.backoff_s": "0.1", "scaling.max_workers": "1"}
    assert {name: params[name] for name in told} == told, params
    assert all(abs(row["train/lr"] - 3e-3) < 1e-9 for row in rows if "train/loss" in row), rows[:3]
    waits = [row["train/data_wait"] for row in rows if "train/data_wait" in row]  # shares of the time since the row before
    assert len(waits) > 100 and all(0 <= wait <= 1 for wait in waits) and any(waits), (max(waits), len(waits))
    resumed = int(out.split("resumed from a checkpoint at step=")[1].split()[0])  # what the dead driver had not read is missing
    steps = [row["step"] for row in rows if "train/loss" in row]
    assert steps[-(3000 // 5 - resumed // 5) :] == list(range(resumed // 5 * 5 + 5, 3001, 5)) or resumed == 3000, (resumed, steps)
    assert 5 in steps and 3000 in [row["step"] for row in rows if "validate/accuracy" in row], rows[-3:]
    assert (artifacts / "checkpoint" / "manifest.json").exists() and "traceEvents" in (artifacts / "timeline").read_text()
    with (folder / "tracks/one/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = train(folder, "job.yaml", "--set", f"run.storage={folder}/elsewhere")
    assert code == 1 and "run.tracking" in err and "another driver" in err, err
    code, _, err = train(folder, "job.yaml", "--set", "run.name=bad", "--set", "optimizer.max_norm=1e-9", "--set", "checkpoint.every_steps=0")
    assert code == 1, err
    status = json.loads((folder / "tracks/bad/status.json").read_text())
    assert status["status"] == "failed" and "more than 1e-09" in status["error"], status
    params = json.loads((folder / "tracks/bad/params.json").read_text())
    assert params["checkpoint.every_s"] == "30", params  # without a number of steps it is time that says when
    tracking_detached(folder)


def tracking_detached(folder):
    """It is written where the run is driven: its driver's death costs nothing."""
    words = ("job.yaml", "--set", "run.name=far", "--set", "run.detached=true")
    manta(folder, "start", "--head", "--num-cpus", "2")
    try:
        with begin(folder, *words) as run:
            read_until(run, "step=10 ")
            run.kill()
        code, _, err = train(folder, *words)
        assert code == 0, err
    finally:
        manta(folder, "stop")
    status, _, rows, _ = tracked(folder, "far")
    assert status["status"] == "finished" and [row["step"] for row in rows if "train/loss" in row] == list(range(5, 3001, 5)), status


def waits(folder):
    """It runs in this machine's cluster, says that a worker has no room there, and goes on when a node brings it."""
    data_make(folder)
    (folder / "job.yaml").write_text(job_text(folder) + "scaling: {min_workers: 2, max_workers: 2, cpus: 1, nodes: 2}\n")
    second = ("--dir", folder / "second")
    manta(folder, "start", "--head", "--num-cpus", "1")
    try:
        with begin(folder, "job.yaml") as run:
            read_until(run, "waits for workers: 1 of at least 2 are ready")
            manta(folder, "start", "--address", folder / "manta", "--num-cpus", "1", *second)
            read_until(run, "weights=")
            assert run.wait(timeout=CALL_S) == 0
    finally:
        manta(folder, "stop", *second)
        manta(folder, "stop")


def models(folder):
    """Each built-in operator, with one worker and with two: the same weights."""
    data_make(folder)
    (folder / "text").write_text("to be or not to be, that is the question. " * 400)
    jobs = {
        "cnn": f"model: {{name: cnn, data: {folder}, dense: 16, dropout: 0.2}}\nrun: {{batch: 64}}\n",
        "gpt2": f"model: {{name: gpt2, data: {folder}/text, layers: 1, width: 32, heads: 2, context: 32}}\n"
        "run: {batch: 64, epochs: 2}\noptimizer: {kind: adamw, lr: 1e-3}\n",
    }
    for name, text in jobs.items():
        (folder / "job.yaml").write_text(text)
        weights = set()
        for workers in (1, 2):
            code, out, err = train(folder, "job.yaml", "--set", f"scaling.max_workers={workers}")
            assert code == 0, (name, err)
            weights.add(weights_of(out))
        assert len(weights) == 1, (name, weights)
        options = ("--set", "scaling.max_workers=2", "--set", "optimizer.zero=1")
        code, out, err = train(folder, "job.yaml", *options)
        assert code == 0 and weights_of(out) in weights and "MB of optimizer state in a worker" in out, (name, out, err)
        code, out, err = train(folder, "job.yaml", *options, "--set", "model.precision=bf16")
        assert code == 0 and weights_of(out) not in weights, (name, out, err)
    code, out, err = train(folder, SOURCE / "examples/train_fashion_mnist.yaml", "--check")
    assert code == 0, err


def devices_killed(folder, epochs, cpus):
    """The weights of a run whose worker is killed in the middle; None: it has ended first."""
    with begin(folder, "job.yaml", "--set", f"run.epochs={epochs}", "--set", f"scaling.cpus={cpus}") as run:
        lines = read_until(run, "step=10 ")
        try:
            os.kill(pid_of(lines, 0), signal.SIGKILL)
        except ProcessLookupError:
            pass
        lines += list(run.stdout)
    assert run.returncode == 0, lines
    return weights_of("".join(lines)) if any("recovered in" in line for line in lines) else None


def devices(folder):
    data_make(folder)
    text = job_text(folder).replace("log_steps: 5", "log_steps: 5\n  shards: 8")
    (folder / "job.yaml").write_text(text + "scaling: {max_workers: 1, cpus: 1}\nfailure: {max_failures: -1}\n")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # 8 shards in two, wherever this runs
    cpus = len(os.sched_getaffinity(0))
    for epochs in (60, 600, 6000):
        killed = devices_killed(folder, epochs, cpus)
        if killed:
            break
    weights = {killed}
    for each in (1, cpus, 0):
        code, out, err = train(folder, "job.yaml", "--quiet", "--set", f"run.epochs={epochs}", "--set", f"scaling.cpus={each}")
        assert code == 0, err
        weights.add(weights_of(out))
    assert len(weights) == 1, weights
    for asked in (cpus, 0):  # 0: none are reserved, those of the node are shared
        timeline_file = folder / f"devices-{asked}.json"
        code, _, err = train(folder, "job.yaml", "--set", f"run.timeline={timeline_file}", "--set", f"scaling.cpus={asked}")
        assert code == 0, err
        tracks = slices_check(json.loads(timeline_file.read_text())["traceEvents"])
        for device in range(cpus):  # each has a part of the virtual ranks
            slices = tracks[f"rank 0: device {device}" if device else "rank 0"]
            assert {s["args"]["virtual rank"] * cpus // 8 for s in named(slices, "forward and backward")} == {device}, slices[:20]
    (folder / "bad.yaml").write_text(job_text(folder) + "scaling: {cpus: 1}\n")
    for value, word in (("-1", "scaling.cpus"), ("two", "not a number"), ("100000", "scaling.cpus is 100000")):
        status, _, err = train(folder, "bad.yaml", "--set", f"scaling.cpus={value}")
        assert status != 0 and word in err, (value, err)
    told(folder, "CPU", "--set", "scaling.cpus=1000")


def npy_write(path, descr, shape, data, order="False"):
    head = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + data)


def csv_write(path, head, pictures, labels):
    rows = [",".join(map(str, list(picture[:3]) + [label] + list(picture[3:]))) for picture, label in zip(pictures, labels)]
    path.write_text("\n".join(head + rows) + "\n")


PIXELS = 64  # of a picture of tables


def tables_make(folder):
    """Pictures of 8 x 8 in four classes: IDX; CSV with the label as column 4, named "kind"; arrays of several types."""
    for prefix, count, seed in (("train", 320, 3), ("t10k", 80, 4)):
        source = random.Random(seed)
        labels = [source.randrange(4) for _ in range(count)]
        pictures = [bytes(source.randrange(128) + (100 if i // 16 == label else 0) for i in range(PIXELS)) for label in labels]
        idx_write(folder / f"{prefix}-images-idx3-ubyte.gz", (count, 8, 8), b"".join(pictures))
        idx_write(folder / f"{prefix}-labels-idx1-ubyte.gz", (count,), bytes(labels))
        names = [f"p{i}" for i in range(PIXELS)]
        csv_write(folder / f"{prefix}.csv", [",".join(names[:3] + ["kind"] + names[3:])], pictures, labels)
        npy_write(folder / f"{prefix}-u1.npy", "|u1", (count, 8, 8), b"".join(pictures))
        npy_write(folder / f"{prefix}-f8.npy", "<f8", (count, PIXELS), struct.pack(f"<{count * PIXELS}d", *b"".join(pictures)))
        npy_write(folder / f"{prefix}-i4.npy", "<i4", (count, 8, 8), struct.pack(f"<{count * PIXELS}i", *b"".join(pictures)))
        npy_write(folder / f"{prefix}-y.npy", "<i8", f"({count},)", struct.pack(f"<{count}q", *labels))


def table_text(data, model="mlp, hidden: [16]"):
    return f"model: {{name: {model}}}\ndata:\n{data}run: {{epochs: 4, batch: 64}}\nseed: 3\n"


def npy_text(kind, *more):
    lines = [f"path: train-{kind}.npy", "labels: train-y.npy", f"validate: t10k-{kind}.npy", "validate_labels: t10k-y.npy", *more]
    return "".join(f"  {line}\n" for line in lines)


CSV_TEXT = "  path: train.csv\n  label: kind\n  validate: t10k.csv\n"
SCALE = ("mean: 80", "deviation: 50")


def tables(folder):
    tables_make(folder)
    scaled = CSV_TEXT + "".join(f"  {line}\n" for line in SCALE)
    alike = {  # each of these lists ends with the same weights
        "bytes": [f"  path: {folder}\n", npy_text("u1"), f"  path: {folder}\n  format: idx\n  classes: 4\n"],
        "numbers": [scaled, scaled.replace("kind", "4"), npy_text("f8", *SCALE), npy_text("i4", *SCALE)],
        "pictures": [scaled, npy_text("f8", *SCALE)],
    }
    for name, texts in alike.items():
        weights = set()
        for i, text in enumerate(texts):
            job = table_text(text, "cnn, dense: 16" if name == "pictures" else "mlp, hidden: [16]")
            (folder / "job.yaml").write_text(job)
            code, out, err = train(folder, "job.yaml", "--quiet", "--set", f"scaling.max_workers={1 + i % 2}")
            assert code == 0, (name, text, err)
            assert float(out.split("accuracy=")[1].split()[0]) > 0.7, (name, text, out)
            weights.add(weights_of(out))
        assert len(weights) == 1, (name, weights)
    (folder / "plain.data").write_bytes((folder / "train.csv").read_bytes())
    (folder / "job.yaml").write_text(table_text("  path: plain.data\n  format: csv\n  label: kind\n"))
    code, out, err = train(folder, "job.yaml", "--quiet", "--set", "optimizer.lr=1e-4")  # no data to validate with
    assert code == 0, err
    code, out, err = train(folder, SOURCE / "examples/train_table.yaml", "--quiet", "--set", "data.label=kind")
    assert code == 0, err


def bad_tables(folder):
    tables_make(folder)
    (folder / "plain.data").write_bytes((folder / "train.csv").read_bytes())

    def csv_bad(line, change, *words):
        lines = (folder / "train.csv").read_text().splitlines()
        lines[line - 1] = change(lines[line - 1])
        (folder / "bad.csv").write_text("\n".join(lines) + "\n")
        refused(folder, table_text(CSV_TEXT.replace("train.csv", "bad.csv")), "bad.yaml:3: data.path: ", "bad.csv, ", *words, code=1)

    csv_bad(7, lambda row: row.rsplit(",", 1)[0], "line 7, column 64 (p62)", "fewer columns")
    csv_bad(300, lambda row: "x" + row, "line 300, column 1 (p0)", "no number")
    csv_bad(9, lambda row: ",".join(row.split(",")[:3] + ["256"] + row.split(",")[4:]), "line 9, column 4 (kind)", "out of range")
    csv_bad(1, lambda row: row + ",more", "line 2", "head")
    refused(folder, table_text(CSV_TEXT + "  classes: 3\n"), "bad.yaml:3: data.path: ", "train.csv, line ", "(kind)", "out of range", code=1)
    refused(folder, table_text(CSV_TEXT.replace("kind", "sort")), "bad.yaml:4: data.label: ", "sort", "no column of this name", code=1)
    refused(folder, table_text("  path: train.csv\n"), "bad.yaml: data.label: ", "config label is missing", "its name or its number", code=1)
    refused(folder, table_text(CSV_TEXT + "  labels: y.npy\n"), "bad.yaml:6: data.labels: ", "CSV data has none", code=1)
    refused(folder, table_text(CSV_TEXT + "  deviation: 0\n"), "bad.yaml:6: data.deviation: ", "more than 0", code=1)
    refused(folder, table_text(CSV_TEXT + "  format: tsv\n"), "bad.yaml:6: data.format: ", "idx, csv or npy", code=1)
    refused(folder, table_text("  path: plain.data\n"), "bad.yaml:3: data.path: ", "neither a folder", code=1)
    for place, key, value, words in (("--set data.path: ", "data.path", "plain.data", "neither a folder"),  # told by the key as it was written
                                     ("--set data.deviation: ", "data.deviation", "0", "more than 0"),
                                     ("--set model.name: ", "model.name", "nothing", "no operator")):
        refused(folder, table_text(CSV_TEXT), place, words, options=("--set", f"{key}={value}"), code=1)
    refused(folder, table_text(CSV_TEXT.replace("t10k.csv", "none.csv")), "bad.yaml:5: data.validate: ", "none.csv", "No such file", code=1)
    (folder / "narrow.csv").write_text("a,kind\n1,2\n")
    refused(folder, table_text(CSV_TEXT.replace("t10k.csv", "narrow.csv")), "bad.yaml:5: data.validate: ", "don't belong together", code=1)

    def npy_bad(data, *words, labels=None):
        descr, shape, order, size = data
        npy_write(folder / "train-bad.npy", descr, shape, bytes(size), order)
        text = npy_text("bad").replace("t10k-bad", "t10k-f8")
        text = text.replace("train-y", labels) if labels else text
        refused(folder, table_text(text), *words, code=1)

    path = "bad.yaml:3: data.path: "
    npy_bad(("<f8", (320, PIXELS), "True", 320 * PIXELS * 8), path, "train-bad.npy", "Fortran order")
    npy_bad((">f8", (320, PIXELS), "False", 320 * PIXELS * 8), path, "little-endian")
    npy_bad(("<f2", (320, PIXELS), "False", 320 * PIXELS * 2), path, "type f2")
    npy_bad(("<f8", (320, PIXELS), "False", 320 * PIXELS * 8 - 1), path, "train-bad.npy, byte ", "cut short")
    npy_bad(("<f8", (319, PIXELS), "False", 319 * PIXELS * 8), "bad.yaml:4: data.labels: ", "320 labels for 319 records")
    npy_bad(("<f8", (320, 60), "False", 320 * 60 * 8), "bad.yaml:5: data.validate: ", "don't belong together")
    npy_write(folder / "floats.npy", "<f4", "(320,)", bytes(1280))
    npy_write(folder / "far.npy", "<i8", "(320,)", bytes(8 * 319) + struct.pack("<q", 1 << 40))
    whole = ("<f8", (320, PIXELS), "False", 320 * PIXELS * 8)
    for labels, words in (("floats", "whole numbers"), ("far", "record 319, byte ")):
        npy_bad(whole, "bad.yaml:4: data.labels: ", f"{labels}.npy", words, labels=labels)


def refused(folder, text, *words, code=2, options=()):
    (folder / "bad.yaml").write_text(text)
    status, out, err = train(folder, "bad.yaml", *options)
    assert status == code and not out, (status, out, err)
    for word in words:
        assert word in err, (word, err)


def told(folder, word, *options):
    """A run of bad.yaml that had begun ends with this word."""
    status, _, err = train(folder, "bad.yaml", *options)
    assert status == 1 and word in err, (status, err)


def one_folder(folder, good):
    """Two runs with one name at a time, and a run that finds another model's checkpoints."""
    (folder / "store").mkdir()
    (folder / "bad.yaml").write_text(good)
    storage = ("--set", f"run.storage={folder}/store", "--set", "run.name=one")
    first = begin(folder, "bad.yaml", *storage, "--set", "run.epochs=100000", "--set", "run.log_steps=1")
    try:
        read_until(first, "step=")
        told(folder, "another driver", *storage)
    finally:
        first.kill()
        first.communicate()
    status, _, err = train(folder, "bad.yaml", *storage, "--set", "run.name=two")
    assert status == 0, err
    told(folder, "of another model", *storage, "--set", "run.name=two", "--set", "model.hidden=24")
    three = (*storage, "--set", "run.name=three")
    status, _, err = train(folder, "bad.yaml", *three, "--set", "model.hidden=32,10")
    assert status == 0, err
    told(folder, "it also has layers.2.", *three, "--set", "model.hidden=32")


def bad_files(folder):
    data_make(folder)
    good = job_text(folder)
    refused(folder, good.replace("hidden:", "hiden:"), "bad.yaml:4: model.hiden:", "it asks for", "hidden", code=1)
    refused(folder, good.replace("32, 16", "32, x"), "bad.yaml:4: model.hidden:", "32,x", code=1)
    refused(folder, good.replace("name: mlp", "name: mpl"), "bad.yaml:3: model.name:", 'no operator "mpl"', "mlp", "gpt2", code=1)
    refused(folder, good.replace("log_steps", "logsteps"), "bad.yaml:9: run.logsteps: unknown key; run has", "log_steps")
    refused(folder, good.replace("optimizer:", "optimiser:"), "bad.yaml:10: optimiser: unknown")
    refused(folder, good.replace("epochs: 4", "epochs: four"), "bad.yaml:7: run.epochs:", '"four" is not a whole number')
    refused(folder, good.replace("lr: 3e-3", "lr: fast"), "bad.yaml:10: optimizer.lr:", "not a number")
    refused(folder, good.replace("adamw", "adam"), "optimizer.kind:", "momentum adamw")
    refused(folder, good.replace("batch: 64", "batch: [64]"), "bad.yaml:8: run.batch:", "plain value")
    refused(folder, good + "seed: 6\n", "bad.yaml:13: seed: stands there twice")
    refused(folder, good.replace("data: {", "data: {hidden: 3, "), 'bad.yaml:5: data.hidden: is the operator\'s "hidden"', "in line 4")
    refused(folder, good + "scaling: {max_workers: 0}\n", "scaling.max_workers: 0: must be at least 1")
    refused(folder, good + "scaling: {nodes: 3:2}\n", "scaling.nodes: \"3:2\" is no range")
    refused(folder, good + "scaling: {nodes: 0:2}\n", "scaling.nodes: \"0:2\" is no range")
    refused(folder, good + "scaling: {nodes: two:3}\n", "scaling.nodes: \"two\" is not a whole number")
    refused(folder, good + "scaling: {nodes: 2:3, max_workers: 1}\n", "scaling.min_nodes is 2", code=1)
    refused(folder, good + "scaling: 2\n", "bad.yaml:13: scaling: must have keys")
    refused(folder, good + "run: [", "bad.yaml:")
    refused(folder, "", "bad.yaml:1:")
    refused(folder, good, "not understood: --chek\n", options=("--chek",))
    refused(folder, good, "--set lacks its value", options=("--set",))
    refused(folder, good, "this one is too much: other.yaml\n", options=("other.yaml",))
    refused(folder, good, '--set "--quiet" is not KEY=value', options=("--set", "--quiet"))
    status, out, err = train(folder, ".")
    assert status == 2 and not out and err == "manta train: .: Is a directory\n", (status, out, err)
    refused(folder, "run: {epochs: 1}\n", "model.name: is missing")
    refused(folder, good, "--set run.batches: unknown key", options=("--set", "run.batches=3"))
    refused(folder, good.replace(str(folder) + "}", str(folder) + "/nowhere}", 1), "nowhere", code=1)
    refused(folder, good.replace("clip_norm: 5", "zero: 2"), "bad.yaml:10: optimizer.zero:", "0 1")
    refused(folder, good.replace("clip_norm: 5", "zero_backup: true"), "bad.yaml:10: optimizer.zero_backup:", "needs optimizer.zero",
            code=1)
    refused(folder, good.replace("hidden: [32, 16]", "precision: fp8"), "bad.yaml:4: model.precision:", "float32, tf32 or bfloat16",
            code=1)
    refused(folder, good.replace("hidden: [32, 16]", "precision: tf32"), "bad.yaml:4: model.precision:", "device=cuda", code=1)
    refused(folder, good, "label 9 is out of range", code=1, options=("--set", "model.classes=5"))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    refused(folder, good.replace("hidden: [32, 16]", "device: cuda"), "bad.yaml:4: model.device: ", "no GPU: ", code=1)
    (folder / "bad.yaml").write_text(good)
    told(folder, "not finite", "--set", "optimizer.kind=momentum", "--set", "optimizer.lr=1e30", "--set", "optimizer.clip_norm=0")
    (folder / "text").write_text("to be or not to be " * 200)
    gpt2 = f"model: {{name: gpt2, data: {folder}/text, layers: 1, width: 30, heads: 4, context: 32}}\nrun: {{batch: 64}}\n"
    refused(folder, gpt2, "width", "heads", code=1)
    refused(folder, gpt2.replace("width: 30", "width: 32").replace("text", "nothing"), "nothing", code=1)
    refused(folder, good.replace("name: mlp", "name: mlp\n  dropout: 0.5"), "bad.yaml:4: model.dropout:", "it asks for", code=1)
    refused(folder, good, "run.batch (60) must be a multiple of run.shards (8)", code=1, options=("--set", "run.batch=60", "--set", "run.shards=8"))
    refused(folder, good, "scaling.min_workers: 0: must be at least 1", options=("--set", "scaling.min_workers=0"))
    wide = folder / "wide"
    wide.mkdir()
    for prefix in ("train", "t10k"):
        idx_write(wide / f"{prefix}-images-idx3-ubyte.gz", (64, 28, 20), bytes(64 * 28 * 20))
        idx_write(wide / f"{prefix}-labels-idx1-ubyte.gz", (64,), bytes(range(8)) * 8)
    refused(folder, f"model: {{name: cnn, data: {wide}}}\n", "not square", code=1)
    images = folder / "train-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    images.write_bytes(whole[: len(whole) // 2])
    refused(folder, good, "truncated", code=1)
    images.write_bytes(whole)
    one_folder(folder, good)
    status, _, err = train(folder, "missing.yaml")
    assert status == 2 and "missing.yaml" in err
    status, _, err = train(folder)
    assert status == 2 and "usage" in err


def checkpoints(folder):
    """The names in a run's folder but its lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def full_disk(folder):
    data_make(folder)
    text = job_text(folder).replace("epochs: 4", f"name: one\n  epochs: 2\n  storage: {folder}/runs")
    (folder / "job.yaml").write_text(text + "scaling: {max_workers: 2}\ncheckpoint: {every_steps: 5, keep: 1}\n")
    run_folder = folder / "runs/one"
    code, out, err = train(folder, "job.yaml", "--quiet", "--set", "run.epochs=4", "--set", "run.name=calm")
    assert code == 0, err
    wanted = weights_of(out)
    code, out, err = train(folder, "job.yaml", "--quiet")
    before = checkpoints(run_folder)
    assert code == 0 and len(before) == 1 and before[0].startswith("step-"), (before, err)
    files_before = {path: path.read_bytes() for path in (run_folder / before[0]).iterdir()}
    full = {"LD_PRELOAD": sys.argv[3], "FULL_FOLDER": str(run_folder.resolve())}
    for room in ("0", "20000"):  # before its first byte, and behind the first third of it
        os.environ.update(full, FULL_AFTER=room)
        code, out, err = train(folder, "job.yaml", "--set", "run.epochs=4")
        assert code == 1 and "No space left" in err and "Traceback" not in err, (out, err)
        assert "resumed from a checkpoint at step=20" in out and "checkpoint failed at step=" in out, out
        assert "checkpoint saved" not in out and "step=40 loss=" in out, out  # trained to its end without one
        assert checkpoints(run_folder) == before, checkpoints(run_folder)
        assert {path: path.read_bytes() for path in (run_folder / before[0]).iterdir()} == files_before
    for name in (*full, "FULL_AFTER"):
        del os.environ[name]
    code, out, err = train(folder, "job.yaml", "--set", "run.epochs=4")
    assert code == 0 and "resumed from a checkpoint at step=20" in out and weights_of(out) == wanted, (out, err)
    assert checkpoints(run_folder) != before


def emulated(folder):
    source = random.Random(3)
    rows = [[source.random() + (i == r % 3) for i in range(6)] + [r % 3] for r in range(96)]
    (folder / "small.csv").write_text("a,b,c,d,e,f,class\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    (folder / "job.yaml").write_text("""model: {name: mlp, hidden: [8], device: cuda}
data: {path: small.csv, label: class}
scaling: {gpus: -1} # this machine has none to reserve
run: {epochs: 4, batch: 48, storage: runs}
optimizer: {kind: adamw, lr: 0.03, clip_norm: 1}
""")
    weights = set()
    for name, workers in (("one", 1), ("two", 2)):
        code, out, err = train(folder, "job.yaml", "--set", f"run.name={name}", "--set", f"scaling.max_workers={workers}")
        assert code == 0 and "step=8" in out, (out, err)
        assert ("gradients of several GPUs go through the host: " in out) == (workers == 2), out
        weights.add(weights_of(out))
        manifests = list((folder / "runs" / name).glob("step-*/*.json"))
        assert manifests and any('"emulated ' in m.read_text() for m in manifests), manifests
    assert len(weights) == 1, weights
    code, _, err = train(folder, "job.yaml", "--set", "model.precision=bfloat16")
    assert code != 0 and "on a GPU only gpt2 has that" in err, err
    os.environ["MANTA_CUDA_PLUGIN"] = str(folder / "nothing.so")
    code, _, err = train(folder, "job.yaml")
    assert code != 0 and "no GPU: MANTA_CUDA_PLUGIN names" in err, err


def steps_of(folder, what="train"):
    return [int(r["step"]) for r in csv.DictReader((folder / "log.csv").open()) if r["what"] == what]


def newest_checkpoint(folder):
    return max((int(p.name[len("step-"):]) for p in folder.glob("step-*")), default=0)


def struck(folder, number, ready):
    """A run of job.yaml that gets this signal when it is ready: its status, 0 where it was through before, and what it said."""
    with begin(folder, "job.yaml") as run:
        lines = read_until(run, "samples/s=")
        while run.poll() is None and not ready():
            lines.append(run.stdout.readline())
        run.send_signal(number)
        lines += list(run.stdout)
    return run.returncode, "".join(lines)


def interrupted_for(folder, epochs):
    """False: a run was through, or had its next checkpoint, before its signal, on a machine that has little time for us."""
    text = job_text(folder).replace("epochs: 4", f"epochs: {epochs}\n  name: run-{epochs}\n  storage: {folder}/runs")
    (folder / "job.yaml").write_text(text + f"checkpoint: {{every_steps: {3 * epochs}}}\n")
    code, out, err = train(folder, "job.yaml", "--quiet", "--set", f"run.name=calm-{epochs}", "--set", "log.csv=calm.csv")
    assert code == 0, err
    wanted, saved = weights_of(out), folder / "runs" / f"run-{epochs}"
    # SIGTERM: the present step's checkpoint, and the same command goes on.
    code, out = struck(folder, signal.SIGTERM, lambda: True)
    if code == 0:
        return False
    step = newest_checkpoint(saved)
    assert code == 128 + signal.SIGTERM and f"paused at step={step} " in out and 10 <= step < 10 * epochs, (code, out, step)
    # SIGKILL: what was logged behind the last checkpoint is made, and logged, again. The next one is far away: what is reported
    # while it is written may be lost with the driver.
    seen = []
    code, out = struck(folder, signal.SIGKILL, lambda: seen.append(newest_checkpoint(saved)) or
                       (seen[-1] > step and steps_of(folder)[-1] > seen[-1]))
    if code == 0 or newest_checkpoint(saved) != seen[-1]:
        return False
    assert code == -signal.SIGKILL and f"resumed from a checkpoint at step={step}\n" in out, (code, out)
    with (folder / "log.csv").open("a") as log:
        log.write("1700000000,train,9")  # it died in the middle of a line
    code, out, err = train(folder, "job.yaml")
    assert code == 0 and weights_of(out) == wanted and "resumed from a checkpoint" in out, (out, err)
    assert steps_of(folder) == list(range(5, 10 * epochs + 1, 5)), steps_of(folder)
    assert steps_of(folder, "validate") == list(range(10, 10 * epochs + 1, 10)), steps_of(folder, "validate")
    assert (folder / "log.csv").read_text().count("time,what") == 1
    return True


def interrupted_run(folder):
    assert any(interrupted_for(folder, epochs) for epochs in (100, 1000, 10000))


def interrupted(folder):
    data_make(folder)
    interrupted_run(folder)
    # Another run, with the same log: what was there is put aside.
    before = (folder / "log.csv").read_text()
    code, out, err = train(folder, "job.yaml", "--quiet", "--set", "run.name=other", "--set", "run.epochs=1")
    assert code == 0 and (folder / "log.csv.old").read_text() == before and steps_of(folder) == [5, 10], err


def tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    data_make(folder)
    (folder / "job.yaml").write_text(job_text(folder))
    code, _, err = train(folder, "job.yaml", "--quiet")
    assert code == 0, err
    read = EventAccumulator(str(folder / "board"))
    read.Reload()
    rows = list(csv.DictReader((folder / "log.csv").open()))
    for what in ("train", "validate"):
        for metric in ("loss", "accuracy"):
            told = [(int(r["step"]), float(r[metric])) for r in rows if r["what"] == what]
            seen = [(e.step, e.value) for e in read.Scalars(f"{what}/{metric}")]
            assert len(told) == len(seen) > 0, (what, metric, told, seen)
            assert all(t[0] == s[0] and abs(t[1] - s[1]) < 1e-6 * max(1, abs(t[1])) for t, s in zip(told, seen)), (told, seen)
    # What comes later is read later, whatever the clock said before: readers go by the files' names.
    (first,) = (folder / "board").iterdir()
    head, second, rest = re.fullmatch(r"(events\.out\.tfevents\.)(\d+)(\..*)", first.name).groups()
    first.rename(first.with_name(f"{head}{int(second) + 3600}{rest}"))
    interrupted_run(folder)
    read = EventAccumulator(str(folder / "board"), size_guidance={"scalars": 0})
    read.Reload()
    assert [e.step for e in read.Scalars("train/loss")] == steps_of(folder), read.Scalars("train/loss")


def main():
    cases = (files, models, waits, shards, devices, tables, bad_tables, timeline, tracking, full_disk, bad_files, interrupted, emulated, tensorboard)
    case = {c.__name__: c for c in cases}[sys.argv[2]]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        os.environ.pop("MANTA_ADDRESS", None)
        try:
            case(pathlib.Path(folder))
        except BaseException:
            print("\n".join(RUNS))
            raise


main()
