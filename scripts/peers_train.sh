#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# peers_train.sh [--quick] - all-reduce of Manta beside Open MPI's and torch's gloo, its models beside torch's, `manta train` as it comes
# beside torch in one process, and its recovery beside torchrun's, on this machine, in one run; `peers.sh --train` calls it.
#
# Open MPI comes from Debian (openmpi-bin, libopenmpi-dev; installed here where we are root), torch from PyPI (with 4 GB of
# CUDA), in build/peers/train; PEERS_PYTHON names a python that has torch and numpy already. A peer that can't be had is named
# and left out. Two processes each, one a core. --quick: every step once and short, without the CNN; its figures are rough.
set -euo pipefail
cd "$(dirname "$0")/.."

models=() seconds=10 peer_seconds=8 kills=30 peer_kills=6 rounds=3
case ${1:-} in
    '') ;;
    --quick) models=(mlp gpt) seconds=2 peer_seconds=2 kills=4 peer_kills=2 rounds=1 ;;
    *) echo "usage: peers.sh --train [--quick]" >&2 && exit 2 ;;
esac

venv=build/peers/train
python=${PEERS_PYTHON:-$venv/bin/python}
scripts/build.sh release manta-head manta-raylet manta manta-bench-train >&2
run_dir=$(mktemp -d /tmp/manta-peers.XXXXXX)
trap 'rm -rf "$run_dir"' EXIT
mkdir -m 0700 "$run_dir/run"
export XDG_RUNTIME_DIR="$run_dir/run"

missing() {
    echo "peers_train.sh: not measured: $1" >&2
}

have_mpi() {
    command -v mpicc >/dev/null && command -v mpirun >/dev/null && return 0
    [ "$(id -u)" = 0 ] && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openmpi-bin libopenmpi-dev >/dev/null 2>&1
}

have_torch() {
    "$python" -c 'import numpy, torch.distributed' 2>/dev/null && return 0
    [ -z "${PEERS_PYTHON:-}" ] && python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --no-input torch numpy
}

{
    if have_mpi && mpicc -O2 -o "$run_dir/peers_mpi" scripts/peers_mpi.c; then
        root=
        [ "$(id -u)" != 0 ] || root=--allow-run-as-root
        mpirun $root --bind-to core -np 2 "$run_dir/peers_mpi" || missing "Open MPI (its run failed)"
    else
        missing "Open MPI (not installed, and could not be)"
    fi
    if have_torch >&2; then
        port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        "$python" scripts/peers_gloo.py "$port" || missing "torch gloo (its run failed)"
    else
        missing "torch gloo (torch could not be installed from PyPI)"
    fi
    build/release/bin/manta-bench-train -c -o json
} | python3 scripts/peers_train.py

# The models: our rows, then torch's, one JSON object a line. GPT-2 reads the sources of this tree as its text.
echo "models:"
scripts/build.sh release manta-bench-models >&2
find . -path ./build -prune -o -name '*.[ch]' -print | sort | xargs cat >"$run_dir/text"
build/release/bin/manta-bench-models -o json -s "$seconds" -t "$run_dir/text" "${models[@]}"
if have_torch >&2; then
    "$python" scripts/peers_torch.py --seconds "$peer_seconds" --text "$run_dir/text" "${models[@]}" || missing "torch's models (their run failed)"
    echo "mlp_default: manta train with its defaults, torch with one process of two threads, in turn"
    scripts/build.sh release manta-train >&2
    "$python" scripts/peers_default.py build/release/bin/manta --rounds "$rounds" || missing "mlp_default (a run failed)"
    echo "vs_torchrun: from the SIGKILL of one of two workers until the next step"
    {
        "$python" scripts/peers_elastic.py --kills "$peer_kills" || missing "torchrun (its run failed)"
        build/release/bin/manta-bench-train -r -n "$kills" -o json
    } | python3 scripts/peers_train.py --recovery
else
    missing "torch's models and torchrun (torch or numpy could not be installed from PyPI)"
fi
