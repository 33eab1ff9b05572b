#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# chaos_sweep.sh [ROUNDS] [SEED] [BUILD] [FORM...] - kills a sweep's driver, workers, raylet, head, commands or all of them at random
# moments, and resumes it until it is done, ROUNDS times (100) for each FORM of trials: steps (functions), job (training jobs), command,
# done (commands that say so themselves); all of them by default. Fails where a trial is lost, is recorded twice, begins again though
# its end was noted, or the sweep differs from an unkilled one; with done, where a program comes to its last line twice. Of the others
# it says how many did, killed between that line and the note of it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-100} seed=${2:-0} build=${3:-$root/build/release}
[ $# -le 3 ] && set -- "$rounds" "$seed" "$build" steps job command done
shift 3
for form; do
  python3 "$root/tests/integration/sweep/resume_test.py" "$build/bin" "$build/tests/integration/sweep/sweep_load" "$rounds" "$seed" "$form"
done
