# SPDX-License-Identifier: Apache-2.0
#
# where.py - a Python that has torch: MANTA_TORCH_PYTHON, else the environment of scripts/torch_check.sh, else the one that runs this.
# Without one the test exits with 77.
import os
import pathlib
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[3]


def python_with_torch():
    named = os.environ.get("MANTA_TORCH_PYTHON")
    for python in [named] if named else [TREE / "build" / "venv-torch" / "bin" / "python", sys.executable]:
        probe = [str(python), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"]
        try:
            if subprocess.run(probe, check=False, timeout=60).returncode == 0:
                return str(python)
        except OSError:
            pass
    if named:
        sys.exit(f"MANTA_TORCH_PYTHON={named} has no torch")
    print("torch is not installed here: scripts/torch_check.sh does that")
    sys.exit(77)


def environment(build):
    """What a program with manta_torch needs where nothing is installed."""
    here = {"MANTA_HOME": str(build), "PYTHONPATH": str(TREE / "clients" / "python")}
    return {**os.environ, **here, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
