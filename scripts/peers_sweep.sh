#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# peers_sweep.sh - Manta's no-op trials and TPE suggestions beside Optuna's and Ray Tune's, on this machine, in one run; `peers.sh
# --sweep` calls it. Optuna and Ray come from PyPI, in build/peers/venv-sweep; PEERS_PYTHON names a python that has them already.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/peers/venv-sweep
python=${PEERS_PYTHON:-$venv/bin/python}
scripts/build.sh release manta-head manta-raylet manta manta-bench-sweep sweep_quality >&2
if ! "$python" -c 'import optuna, ray.tune' 2>/dev/null && [ -z "${PEERS_PYTHON:-}" ]; then
    echo "peers_sweep.sh: installing Optuna and Ray Tune into $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-input optuna "ray[tune]"
fi
run_dir=$(mktemp -d /tmp/manta-peers.XXXXXX)
trap 'rm -rf "$run_dir"' EXIT
mkdir -m 0700 "$run_dir/run"
export XDG_RUNTIME_DIR="$run_dir/run"
{
    build/release/bin/manta-bench-sweep -o json trials
    build/release/tests/bench/sweep_quality --suggest
} | "$python" scripts/peers_sweep.py
