#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manta_train_test.py BIN CASE - `manta train` as its users type it, on a small data set of its own.

files          trains; the same weights with more workers; CSV and TensorBoard files hold what was told
models         each built-in operator; the example's file is a right one
bad_files      unknown sections and keys, wrong types, and what the operator refuses: file, line and key are named
tensorboard    the event file, read back by the tensorboard package (run by tensorboard_test.sh, which has it)
"""

import csv
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1])
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
    run = subprocess.run([BIN / "manta", "train", *words], capture_output=True, text=True, timeout=60, cwd=folder)
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


def refused(folder, text, *words, code=2, options=()):
    (folder / "bad.yaml").write_text(text)
    status, out, err = train(folder, "bad.yaml", *options)
    assert status == code and not out, (status, out, err)
    for word in words:
        assert word in err, (word, err)


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
    case = {"files": files, "models": models, "bad_files": bad_files, "tensorboard": tensorboard}[sys.argv[2]]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        os.environ.pop("MANTA_ADDRESS", None)
        case(pathlib.Path(folder))


main()
