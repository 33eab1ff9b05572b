#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh - the main job, from nothing: a cluster, a training job submitted to it from C, a worker killed in the middle.
#
# Trains twice with the same seed: once undisturbed, once with a worker that gets SIGKILL. Succeeds when both runs end
# with the same weights, bit for bit. Uses a private runtime folder, so a cluster of the user's own is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh
scripts/build.sh release
bin=$PWD/build/release/bin

run_dir=$(mktemp -d /tmp/manta-demo.XXXXXX) # short: it holds unix sockets
mkdir -m 0700 "$run_dir/run"
export XDG_RUNTIME_DIR="$run_dir/run"
killer=
finish() {
    [ -z "$killer" ] || kill "$killer" 2>/dev/null || true
    "$bin/manta" stop >/dev/null 2>&1 || true
    rm -rf "$run_dir"
}
trap finish EXIT

# The job's log says "... rank=R pid=P" for each worker that starts, "step=S ..." as it goes, and "weights=HASH" at the end.
weights_of() {
    sed -n 's/.*weights=\([0-9a-f]*\).*/\1/p' "$1" | tail -1
}

# kill_one_worker LOG: waits for training to be on its way, then kills rank 1.
kill_one_worker() {
    local log=$1 pid deadline=$((SECONDS + 300))
    until grep -q 'step=[1-9][0-9][0-9]' "$log" 2>/dev/null; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.05
    done
    pid=$(sed -n 's/.*rank=1 pid=\([0-9]*\).*/\1/p' "$log" | tail -1)
    echo "demo: kill -9 $pid (rank 1)"
    kill -9 "$pid"
}

"$bin/manta" start --head
echo "demo: training, undisturbed"
"$bin/submit_training" | tee "$run_dir/calm.log"

echo "demo: training again, and a worker dies"
kill_one_worker "$run_dir/killed.log" &
killer=$!
"$bin/submit_training" | tee "$run_dir/killed.log"
if ! wait "$killer"; then
    killer=
    echo "demo: FAILED, no worker was killed" >&2
    exit 1
fi
killer=
"$bin/manta" stop

calm=$(weights_of "$run_dir/calm.log")
killed=$(weights_of "$run_dir/killed.log")
echo "demo: weights $calm undisturbed, $killed after the kill"
if [ -z "$calm" ] || [ "$calm" != "$killed" ]; then
    echo "demo: FAILED, the weights differ" >&2
    exit 1
fi
echo "demo: done, the same weights bit for bit"
