#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# chaos_sweep.sh [ROUNDS] [SEED] [BUILD] - kills a sweep's driver, workers, raylet, head or all of them at random moments, and resumes it
# until it is done, ROUNDS times (100); fails where a trial is lost, is recorded twice, begins again though its end was noted, or the
# sweep differs from an unkilled one. Says how many functions were killed between their last line and the note of it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${3:-$root/build/release}
exec python3 "$root/tests/integration/sweep/resume_test.py" "$build/bin" "$build/tests/integration/sweep/sweep_load" "${1:-100}" ${2:+"$2"}
