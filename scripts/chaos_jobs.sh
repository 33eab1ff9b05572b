#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos_jobs.sh [--jobs N] [--seconds N] [--seed S] [-o json] [--verbose] [--keep] - 1,000 jobs, alone, in arrays and after each other, while
# head and raylets are killed and nodes are drained (tests/chaos/jobs.py). Exit status 1 when one was lost, ran twice to its end, or began before
# what it waits for.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
[ -x "$build/bin/manta" ] || scripts/build.sh release manta manta-head manta-raylet
exec python3 tests/chaos/jobs.py --build "$PWD/$build" "$@"
