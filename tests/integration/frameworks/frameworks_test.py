#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# frameworks_test.py BIN CASE... - real programs of real frameworks under `manta run` (programs/): undisturbed, and again with a rank that
# is killed in the middle. They learn, all ranks have the same weights, and the death changes not a bit of them. Skipped where the
# framework is missing: scripts/gang_check.sh installs it.
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "cli"))
from cli_test import check, equal, has, run_case  # noqa: E402

RANKS, LIMIT_S = 2, 200


def python_with(venv, module):
    python = TREE / "build" / f"venv-{venv}" / "bin" / "python"
    probe = [python, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"]
    if not python.exists() or subprocess.run(probe, check=False, timeout=60).returncode:
        print(f"{module} is not installed here: scripts/gang_check.sh does that")
        sys.exit(77)
    return python


class Result:
    def __init__(self, out, ranks):
        """`ranks`: how many say something."""

        def of(word):
            return {int(rank): text for rank, text in re.findall(rf"^\[(\d+)\] {word} (.*)$", out, re.M)}

        self.sums, self.begun = of("sum"), {rank: int(text) for rank, text in of("begun").items()}
        self.losses = {rank: [float(x) for x in text.split()] for rank, text in of("loss").items()}
        equal((len(self.sums), len(set(self.sums.values()))), (ranks, 1), f"ranks, weights: {out}")


def trained(p, options, python, program, folder, dies, ranks):
    """`folder`: of its checkpoints."""
    folder.mkdir()
    env = p.env | {"MANTA_ADDRESS": "", "TORCH_EXTENSIONS_DIR": str(python.parents[1] / "extensions"), "OMP_NUM_THREADS": "1"}
    words = [*options, "--cpus", 0, "--max-restarts", 1, "--env", f"TEST_DIES={dies}", "--", python, HERE / "programs" / program]
    done = subprocess.run([sys.argv[1] + "/manta", "run", *map(str, words), str(folder)], env=env, timeout=LIMIT_S, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True)
    equal(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
    p.errors = done.stderr
    return Result(done.stdout, ranks)


def learns_and_survives(p, kind, venv, module, program, more=("-n", RANKS), ranks=RANKS, victim=1):
    python, options = python_with(venv, module), ["--as", kind, *more]
    calm = trained(p, options, python, program, p.root / "calm", "", ranks)
    check("begins again" not in p.errors, p.errors)
    equal(set(calm.begun.values()), {0})
    check(all(last < 0.6 * first for first, last in calm.losses.values()), calm.losses)
    hurt = trained(p, options, python, program, p.root / "hurt", "1", ranks)
    has(f"rank {victim} (pid ", p.errors)
    check(re.search(r"was killed by signal 9 \(Killed\).*; the gang begins again \(restart 1 of 1\)", p.errors), p.errors)
    check(set(hurt.begun.values()) <= {6, 7}, f"it has begun at {hurt.begun}")  # from a checkpoint
    equal(hurt.sums, calm.sums, "weights after the death of a rank")


def ddp(p):
    learns_and_survives(p, "torch", "torch", "torch", "ddp.py")


def fsdp(p):
    learns_and_survives(p, "torch", "torch", "torch", "fsdp.py")


def lightning(p):
    learns_and_survives(p, "torch", "torch", "lightning", "lightning_fit.py")


def horovod(p):
    learns_and_survives(p, "horovod", "torch", "horovod", "horovod_fit.py")


def deepspeed(p):
    learns_and_survives(p, "torch", "torch", "deepspeed", "zero.py")


def mpi4py(p):
    learns_and_survives(p, "pmi1", "mpi", "mpi4py", "mpi.py")


def tensorflow(p):
    learns_and_survives(p, "tf", "tf", "tensorflow", "mirrored.py")


def tensorflow_servers(p):
    """The chief alone says something; the worker and the parameter server are ended when it has ended."""
    learns_and_survives(p, "tf", "tf", "tensorflow", "server.py", ["-n", 3, "--roles", "chief:1,ps:1"], ranks=1, victim=0)


def tidied(case):
    """A private cluster leaves the empty folder in which its own was."""

    def run(p):
        case(p)
        if p.folder.is_dir() and not os.listdir(p.folder):
            p.folder.rmdir()

    return run


if __name__ == "__main__":
    results = [run_case(name, {name: tidied(globals()[name])}) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
