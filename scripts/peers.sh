#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# peers.sh [--quick] [--filter TEXT] [--write | --no-write] - Manta beside Ray, on this machine, in one run.
#
#   (no option)     Ray's own microbenchmark case by case, each followed at once by the same case of `manta bench`; then
#                   Manta's other rows with their floors; writes the tables of docs/performance.md. Under 15 minutes.
#   --quick         shorter windows; prints, and writes only with --write. Under 6 minutes.
#   --train [--quick]  all-reduce beside Open MPI and torch's gloo instead: see peers_train.sh
#   --sweep [--quick]  trials and suggestions beside Optuna and Ray Tune instead: see peers_sweep.sh
#   --scale         a node that is started for what wants it (scale_local) beside Ray's autoscaler instead: see peers_scale.py
#   --metg          task graphs of fine grain (METG) beside Open MPI's point-to-point calls instead: see peers_metg.sh
#   --filter TEXT   only Ray's cases whose name has TEXT in it; writes nothing
#   --no-write      leaves docs/performance.md as it is
#
# Builds what it needs; the first run makes a virtual environment in build/peers and installs Ray from PyPI (RAY_VERSION
# names another than the newest). Whatever it started is stopped at its end, by the mark that it carries.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1:-}" != --train ] || exec scripts/peers_train.sh "${@:2}"
[ "${1:-}" != --metg ] || exec scripts/peers_metg.sh "${@:2}"
[ "${1:-}" != --sweep ] || exec scripts/peers_sweep.sh "${@:2}"

venv=build/peers/venv
python=$venv/bin/python
scripts/build.sh release manta-head manta-raylet manta manta-bench manta-bench-grpc manta-bench-cluster

if ! "$python" -c 'import ray, numpy, aiohttp' 2>/dev/null; then
    echo "peers.sh: installing Ray into $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-input "ray[default]${RAY_VERSION:+==$RAY_VERSION}" numpy
fi

# Short: unix sockets lie in it.
run_dir=$(mktemp -d /tmp/manta-peers.XXXXXX)
mkdir -m 0700 "$run_dir/run"
export MANTA_PEERS_RUN="$run_dir" # marks our processes: children inherit it
export XDG_RUNTIME_DIR="$run_dir/run" RAY_TMPDIR="$run_dir" RAY_USAGE_STATS_ENABLED=0 PYTHONUNBUFFERED=1
RAY_AUTH_TOKEN=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n') # else Ray writes one into the home folder
export RAY_AUTH_TOKEN

# stop_all: ends what carries our mark and is not this shell or above it.
stop_all() {
    local signal pid left
    for signal in TERM KILL; do
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            left=
            for pid in $(grep -lsz "^MANTA_PEERS_RUN=$run_dir\$" /proc/[0-9]*/environ | cut -d/ -f3); do
                if [ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] && kill "-$signal" "$pid" 2>/dev/null; then
                    left=yes
                fi
            done
            [ -n "$left" ] || return 0
            sleep 0.2
        done
    done
}
trap 'stop_all; rm -rf "$run_dir"' EXIT
trap 'exit 130' INT TERM

script=(scripts/peers.py "$@")
if [ "${1:-}" = --scale ]; then
    build/release/bin/manta-bench-cluster -c scale_local -o json
    script=(scripts/peers_scale.py "${@:2}")
fi
"$python" "${script[@]}" &  # in the background, so that a signal is served at once
wait $!
