#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh PRESET [TARGET...] - configures build/PRESET and builds the targets (default: all).
#
# Uses ccache where it is installed, and every core, but at most MANTA_BUILD_JOBS.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
launcher=$(command -v ccache || true)
cmake --preset "$preset" -DCMAKE_C_COMPILER_LAUNCHER="$launcher" >/dev/null
cmake --build "build/$preset" -j "${MANTA_BUILD_JOBS:-$(nproc)}" ${1:+--target "$@"}
