#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_default.py MANTA [--rounds N] [--threads N] [SECTION.KEY=VALUE...] - `manta train` of the MLP with its default settings beside torch
# with one process of two threads: 784-256-10 on Fashion-MNIST, 64 samples a step, SGD with momentum 0.9 and a rate that falls from 0.02
# as half a cosine, float32, one epoch, three rounds in turn. Run by peers_train.sh, by a python that has torch and numpy.
#
# Ours: the command as a user gives it, with a cluster of its own; samples per second from its log (the first 50 steps are its warm-up).
# SECTION.KEY=VALUE: a setting that is not the default, to see what it does. Prints one JSON object: the row, and both sides' rounds.
import argparse
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

DATA = "/usr/share/datasets/fashion-mnist"
HERE = pathlib.Path(__file__).resolve().parent


def ours(args, folder):
    job, log = folder / "job.yaml", folder / "log.csv"
    job.write_text(f"model: {{name: mlp}}\ndata: {{path: {DATA}}}\nlog: {{csv: {log}}}\n")
    log.unlink(missing_ok=True)
    words = [args.manta, "train", str(job), "--quiet"] + [word for setting in args.settings for word in ("--set", setting)]
    text = subprocess.run(words, capture_output=True, text=True, check=True, timeout=100).stdout
    with open(log) as file:
        rates = [float(row["samples_per_s"]) for row in csv.DictReader(file) if row["what"] == "train"][1:]
    return len(rates) / sum(1 / rate for rate in rates), float(re.search(r"accuracy=([\d.]+)", text)[1])


def torchs(args, _):
    words = [sys.executable, str(HERE / "peers_torch.py"), "--workers", "1", "--threads", str(args.threads), "mlp"]
    row = json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=100).stdout)
    return row["value"], row["accuracy"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("manta")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("settings", nargs="*", metavar="SECTION.KEY=VALUE")
    args = parser.parse_args()
    rates, accuracies = {ours: [], torchs: []}, {}
    with tempfile.TemporaryDirectory(prefix="manta-peers-") as folder:
        for _ in range(args.rounds):
            for side in rates:
                rate, accuracies[side] = side(args, pathlib.Path(folder))
                rates[side].append(round(rate))
    value, peer = (statistics.median(rates[side]) for side in rates)
    print(json.dumps({"id": "mlp_default", "value": value, "unit": "samples/s", "torch": peer, "times": round(value / peer, 2),
                      "rounds": rates[ours], "torch_rounds": rates[torchs], "accuracy": accuracies[ours],
                      "torch_accuracy": round(accuracies[torchs], 4), "settings": args.settings}))


main()
