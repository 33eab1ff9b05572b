#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos.sh [--storm] [--seconds N] [--seed S] [--verbose] [--keep] [--build FOLDER] - hard treatment of a real cluster: a mixed load
# while workers, a raylet and the head are killed and stopped by a schedule drawn from the seed, judged by a ledger that
# the engine does not know of (tests/chaos). Exit status 1 when anything was lost, duplicated, wrong or left over.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x build/release/tests/chaos/chaos_load ] || [[ " $* " == *" --build "* ]] || scripts/build.sh release chaos_load manta-head manta-raylet
exec python3 tests/chaos/conduct.py "$@"
