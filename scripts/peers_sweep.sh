#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# peers_sweep.sh [--quick] - Manta's no-op trials and TPE suggestions beside Optuna's and Ray Tune's, on this machine, in one run, then
# importance of parameters beside Optuna's evaluators on the same trials (some minutes); `peers.sh --sweep` calls it. Optuna and Ray come from PyPI, in build/peers/venv-sweep; PEERS_PYTHON names a python that has them already.
# --quick: fewer trials of the peers.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# = 0 ] || [ "$*" = --quick ] || { echo "usage: peers.sh --sweep [--quick]" >&2 && exit 2; }
venv=build/peers/venv-sweep
python=${PEERS_PYTHON:-$venv/bin/python}
scripts/build.sh release manta-head manta-raylet manta manta-bench-sweep sweep_quality sweep_importance >&2
if ! "$python" -c 'import optuna, ray.tune, sklearn' 2>/dev/null && [ -z "${PEERS_PYTHON:-}" ]; then
    echo "peers_sweep.sh: installing Optuna and Ray Tune into $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-input optuna "ray[tune]" scikit-learn
fi
run_dir=$(mktemp -d /tmp/manta-peers.XXXXXX)
trap 'rm -rf "$run_dir"' EXIT
mkdir -m 0700 "$run_dir/run"
export XDG_RUNTIME_DIR="$run_dir/run"
{
    build/release/bin/manta-bench-sweep -o json trials
    build/release/tests/bench/sweep_quality --suggest
} | "$python" scripts/peers_sweep.py "$@"
"$python" scripts/peers_importance.py build/release/tests/bench/sweep_importance "$@"
