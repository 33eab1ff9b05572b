#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manta_train_test.py BIN CASE - `manta train` as its users type it, on a small data set of its own.

files          trains; the same weights with more workers; CSV and TensorBoard files hold what was told
models         each built-in operator; the example's file is a right one
devices        a worker of two CPUs, calm and killed: the weights of one with one; CPUs that can't be
timeline       a Chrome trace of a run whose worker is killed: whole, nested, with the recovery's phases; a later run goes on in it
tracking       parameters, metrics and artifacts of a run whose driver is killed; of one that fails; of a detached one
bad_files      unknown sections and keys, wrong types, and what the operator refuses: file, line and key are named
tensorboard    the event file, read back by the tensorboard package (run by tensorboard_test.sh, which has it)
"""

import csv
import fcntl
import json
import os
import pathlib
import random
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


def train(folder, *words):
    run = subprocess.run([BIN / "manta", "train", *words], capture_output=True, text=True, timeout=CALL_S, cwd=folder)
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


def files(folder):
    data_make(folder)
    job = folder / "job.yaml"
    job.write_text(job_text(folder))
    code, out, err = train(folder, "job.yaml", "--check")
    assert (code, out, err) == (0, "", ""), (code, out, err)
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
        assert [s["args"]["virtual rank"] for s in named(work, "forward and backward")] == list(range(4 * rank, 4 * rank + 4)), work
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
    resumed = int(out.split("resumed from a checkpoint at step=")[1].split()[0])  # what the dead driver had not read is missing
    steps = [row["step"] for row in rows if "train/loss" in row]
    assert steps[-(3000 // 5 - resumed // 5) :] == list(range(resumed // 5 * 5 + 5, 3001, 5)) or resumed == 3000, (resumed, steps)
    assert 5 in steps and 3000 in [row["step"] for row in rows if "validate/accuracy" in row], rows[-3:]
    assert (artifacts / "checkpoint" / "manifest.json").exists() and "traceEvents" in (artifacts / "timeline").read_text()
    with (folder / "tracks/one/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = train(folder, "job.yaml", "--set", f"run.storage={folder}/elsewhere")
    assert code == 1 and "run.tracking" in err and "another driver" in err, err
    code, _, err = train(folder, "job.yaml", "--set", "run.name=bad", "--set", "optimizer.max_norm=1e-9")
    assert code == 1, err
    status = json.loads((folder / "tracks/bad/status.json").read_text())
    assert status["status"] == "failed" and "more than 1e-09" in status["error"], status
    tracking_detached(folder)


def tracking_detached(folder):
    """It is written where the run is driven: its driver's death costs nothing."""
    words = ("job.yaml", "--set", "run.name=far", "--set", "run.detached=true")
    started = subprocess.run([BIN / "manta", "start", "--head", "--num-cpus", "2"], check=True, capture_output=True, text=True,
                             timeout=CALL_S, cwd=folder)
    try:
        os.environ["MANTA_ADDRESS"] = next(w for w in started.stdout.split() if w.startswith("MANTA_ADDRESS=")).split("=")[1]
        with begin(folder, *words) as run:
            read_until(run, "step=10 ")
            run.kill()
        code, _, err = train(folder, *words)
        assert code == 0, err
    finally:
        os.environ.pop("MANTA_ADDRESS", None)
        subprocess.run([BIN / "manta", "stop"], check=True, capture_output=True, timeout=CALL_S, cwd=folder)
    status, _, rows, _ = tracked(folder, "far")
    assert status["status"] == "finished" and [row["step"] for row in rows if "train/loss" in row] == list(range(5, 3001, 5)), status


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
            code, out, err = train(folder, "job.yaml", "--quiet", "--set", f"scaling.max_workers={workers}")
            assert code == 0, (name, err)
            weights.add(weights_of(out))
        assert len(weights) == 1, (name, weights)
        options = ("--set", "scaling.max_workers=2", "--set", "optimizer.zero=1")
        code, out, err = train(folder, "job.yaml", "--quiet", *options)
        assert code == 0 and weights_of(out) in weights and "MB of optimizer state in a worker" in out, (name, out, err)
        code, out, err = train(folder, "job.yaml", "--quiet", *options, "--set", "model.precision=bf16")
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
    (folder / "job.yaml").write_text(job_text(folder) + "scaling: {max_workers: 1, cpus: 1}\nfailure: {max_failures: -1}\n")
    cpus = min(2, len(os.sched_getaffinity(0)))
    for epochs in (60, 600, 6000):
        killed = devices_killed(folder, epochs, cpus)
        if killed:
            break
    weights = {killed}
    for each in (1, cpus):
        code, out, err = train(folder, "job.yaml", "--quiet", "--set", f"run.epochs={epochs}", "--set", f"scaling.cpus={each}")
        assert code == 0, err
        weights.add(weights_of(out))
    assert len(weights) == 1, weights
    code, _, err = train(folder, "job.yaml", "--set", "run.timeline=devices.json", "--set", f"scaling.cpus={cpus}")
    assert code == 0, err
    tracks = slices_check(json.loads((folder / "devices.json").read_text())["traceEvents"])
    for device in range(cpus):  # each has every other of the virtual ranks
        slices = tracks[f"rank 0: device {device}" if device else "rank 0"]
        assert {s["args"]["virtual rank"] % cpus for s in named(slices, "forward and backward")} == {device}, slices[:20]
    (folder / "bad.yaml").write_text(job_text(folder) + "scaling: {cpus: 1}\n")
    for value, word in (("-1", "scaling.cpus"), ("two", "not a number"), ("100000", "scaling.cpus is 100000")):
        status, _, err = train(folder, "bad.yaml", "--set", f"scaling.cpus={value}")
        assert status != 0 and word in err, (value, err)
    told(folder, "CPU", "--set", "scaling.cpus=1000")


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
        read_until(first, "step=2 ")
        told(folder, "another driver", *storage)
    finally:
        first.kill()
        first.communicate()
    status, _, err = train(folder, "bad.yaml", *storage, "--set", "run.name=two")
    assert status == 0, err
    told(folder, "of another model", *storage, "--set", "run.name=two", "--set", "model.hidden=24")


def bad_files(folder):
    data_make(folder)
    good = job_text(folder)
    refused(folder, good.replace("hidden:", "hiden:"), "bad.yaml:4: model.hiden:", "it asks for", "hidden", code=1)
    refused(folder, good.replace("32, 16", "32, x"), "bad.yaml:4: model.hidden:", "32,x", code=1)
    refused(folder, good.replace("name: mlp", "name: mpl"), "bad.yaml:3: model.name:", 'no operator "mpl"', code=1)
    refused(folder, good.replace("log_steps", "logsteps"), "bad.yaml:9: run.logsteps: unknown key; run has", "log_steps")
    refused(folder, good.replace("optimizer:", "optimiser:"), "bad.yaml:10: optimiser: unknown")
    refused(folder, good.replace("epochs: 4", "epochs: four"), "bad.yaml:7: run.epochs:", '"four" is not a whole number')
    refused(folder, good.replace("lr: 3e-3", "lr: fast"), "bad.yaml:10: optimizer.lr:", "not a number")
    refused(folder, good.replace("adamw", "adam"), "optimizer.kind:", "momentum adamw")
    refused(folder, good.replace("batch: 64", "batch: [64]"), "bad.yaml:8: run.batch:", "plain value")
    refused(folder, good + "seed: 6\n", "bad.yaml:13: seed: stands there twice")
    refused(folder, good + "scaling: {max_workers: 0}\n", "scaling.max_workers: 0: must be at least 1")
    refused(folder, good + "scaling: 2\n", "bad.yaml:13: scaling: must have keys")
    refused(folder, good + "run: [", "bad.yaml:")
    refused(folder, "", "bad.yaml:1:")
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
    refused(folder, good.replace("hidden: [32, 16]", "device: cuda"), "no GPU: ", code=1)
    (folder / "bad.yaml").write_text(good)
    told(folder, "not finite", "--set", "optimizer.kind=momentum", "--set", "optimizer.lr=1e30", "--set", "optimizer.clip_norm=0")
    (folder / "text").write_text("to be or not to be " * 200)
    gpt2 = f"model: {{name: gpt2, data: {folder}/text, layers: 1, width: 30, heads: 4, context: 32}}\nrun: {{batch: 64}}\n"
    refused(folder, gpt2, "width", "heads", code=1)
    refused(folder, gpt2.replace("width: 30", "width: 32").replace("text", "nothing"), "nothing", code=1)
    refused(folder, good.replace("name: mlp", "name: mlp\n  dropout: 0.5"), "bad.yaml:4: model.dropout:", "it asks for", code=1)
    refused(folder, good, "run.batch (60) must be a multiple of run.shards (8)", code=1, options=("--set", "run.batch=60"))
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


def main():
    cases = (files, models, devices, timeline, tracking, bad_files, tensorboard)
    case = {c.__name__: c for c in cases}[sys.argv[2]]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        os.environ.pop("MANTA_ADDRESS", None)
        case(pathlib.Path(folder))


main()
