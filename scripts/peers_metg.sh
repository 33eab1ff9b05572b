#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# peers_metg.sh [options of manta bench --metg] - METG of Open MPI's point-to-point calls, then Manta's, on this machine, in one
# run; `peers.sh --metg` calls it. Open MPI comes from Debian (openmpi-bin, libopenmpi-dev; installed here where we are root).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh release manta-head manta-raylet manta manta-bench-metg >&2
run_dir=$(mktemp -d /tmp/manta-peers.XXXXXX)
trap 'rm -rf "$run_dir"' EXIT
mkdir -m 0700 "$run_dir/run"
export XDG_RUNTIME_DIR="$run_dir/run"

if ! command -v mpicc >/dev/null && [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openmpi-bin libopenmpi-dev >/dev/null 2>&1 || true
fi
root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
if mpicc -O2 -I. -o "$run_dir/peers_metg" scripts/peers_metg.c -lm; then
    mpirun $root --bind-to core -np 2 "$run_dir/peers_metg"
else
    echo "peers_metg.sh: not measured: Open MPI (not installed, and could not be)" >&2
fi
build/release/bin/manta-bench-metg "$@"
