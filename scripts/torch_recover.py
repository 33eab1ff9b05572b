#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# torch_recover.py BUILD_FOLDER [--kills N] - DDP over `manta`: from the kill of a rank until all ranks have done the next step.
#
# Runs tests/integration/torch/survivor.py in three ranks: once undisturbed, once with a replacement that is started, once with a warm
# spare for each kill. Takes off the time that the replacement needs to load torch. Compares the weights. Prints one JSON object a row;
# the floor is an undisturbed step of the same run. MANTA_TORCH_PYTHON: a python that has torch, as for the tests.
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parent.parent
TESTS = TREE / "tests" / "integration" / "torch"
sys.path.insert(0, str(TESTS))
import where  # noqa: E402

RANKS = 3


def run(python, build, folder, kills, spares):
    os.mkdir(folder)
    options = ["--nproc", str(RANKS), "--spares", str(spares)]
    command = [python, "-m", "manta_torch", *options, str(TESTS / "survivor.py"), folder, kills, str(RANKS + spares)]
    subprocess.run(command, env=where.environment(build), check=True, timeout=300)
    with open(os.path.join(folder, "events"), encoding="ascii") as file:
        return file.read()


def recoveries(events, is_cold):
    """Seconds of each kill, and of an undisturbed step."""
    took, steps = [], {}
    for at, rank, number in re.findall(r"([\d.]+) step (\d) (\d+) ", events):
        steps.setdefault(int(number), []).append(float(at))
    done = {number: max(times) for number, times in steps.items()}
    kills = [(float(at), int(number)) for at, number in re.findall(r"([\d.]+) kill \d (\d+)", events)]
    for at, number in kills:
        loaded = [float(load) for when, load in re.findall(r"([\d.]+) loaded \d+ ([\d.]+)", events) if float(when) > at]
        following = number + (number % 3 == 2)  # killed behind the optimizer: that step is done
        took.append(done[following] - at - (loaded[0] if is_cold else 0))
    calm = [done[n + 1] - done[n] for n in done if n + 1 in done and not {n, n + 1} & {k for _, k in kills}]
    return took, statistics.median(calm)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--kills", type=int, default=4, help="of each run, at most 8")
    args = parser.parse_args()
    python = where.python_with_torch()
    kills = ",".join(f"{1 + i % 2}@{3 + 3 * i + i % 3}" for i in range(args.kills))
    with tempfile.TemporaryDirectory() as folder:
        run(python, args.build, f"{folder}/calm", "", 0)
        for name, spares in (("started", 0), ("spare", args.kills)):
            took, step = recoveries(run(python, args.build, f"{folder}/{name}", kills, spares), spares == 0)
            calm, killed = (pathlib.Path(folder, which, "0.weights").read_text() for which in ("calm", name))
            row = {"median": statistics.median(took), "least": min(took), "most": max(took), "floor_step": step}
            row = {key: round(value * 1000, 1) for key, value in row.items()}
            print(json.dumps({"id": f"torch_recover_{name}", "unit": "ms", **row, "weights_equal": calm == killed}), flush=True)


if __name__ == "__main__":
    main()
