#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh [--bin FOLDER] [--epochs N] - the main job, from nothing: a cluster, a training job submitted to it from C, a
# worker killed in the middle.
#
# Trains twice with the same seed: once undisturbed, once with a worker that gets SIGKILL. Succeeds when both runs end
# with the same weights, bit for bit, and nothing is left over. Uses a private runtime folder, so a cluster of the user's
# own is left alone. --bin takes programs that are built already; then nothing is installed or built.
set -euo pipefail
cd "$(dirname "$0")/.."

bin= epochs=5
while [ $# -gt 0 ]; do
    case $1 in
    --bin) bin=$(realpath "$2") && shift 2 ;;
    --epochs) epochs=$2 && shift 2 ;;
    *) echo "usage: scripts/demo.sh [--bin FOLDER] [--epochs N]" >&2 && exit 2 ;;
    esac
done
if [ -z "$bin" ]; then
    scripts/install_deps.sh
    echo "demo: building (the first time takes a few minutes)"
    scripts/build.sh release manta manta-head manta-raylet submit_training train_fashion_mnist
    bin=$PWD/build/release/bin
fi

run_dir=$(mktemp -d "${TMPDIR:-/tmp}/mdemo.XXXXXX") # short: it holds unix sockets
mkdir -m 0700 "$run_dir/run"
export XDG_RUNTIME_DIR="$run_dir/run"
unset MANTA_ADDRESS MANTA_CONFIG MANTA_TOKEN_FILE
killer=
finish() {
    [ -z "$killer" ] || kill "$killer" 2>/dev/null || true
    "$bin/manta" stop >/dev/null 2>&1 || true
    rm -rf "$run_dir"
}
trap finish EXIT
fail() {
    echo "demo: FAILED: $1" >&2
    exit 1
}

# value LOG NAME: the last NAME=VALUE of the log. The trainer says "worker rank=R pid=P" for each worker that gets a rank,
# "step=S ..." as it goes, and "test accuracy=A ... weights=HASH" at the end.
value() {
    sed -n "s/.*\\<$2=\\([^ ]*\\).*/\\1/p" "$1" | tail -1
}

# kill_one_worker LOG STEP: waits until training has reached the step, then kills the process of rank 1.
kill_one_worker() {
    local log=$1 step pid deadline=$((SECONDS + 120))
    until step=$(value "$log" step) pid=$(sed -n 's/.*rank=1 pid=\([0-9]*\).*/\1/p' "$log" | tail -1) &&
        [ -n "$pid" ] && [ "${step:-0}" -ge "$2" ]; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.02
    done
    case $(readlink "/proc/$pid/exe") in
    */train_fashion_mnist) ;;
    *) return 1 ;; # it has ended
    esac
    kill -KILL "$pid"
    echo "demo: >>> kill -9 $pid (the worker of rank 1) <<<"
}

# train LOG: submits the training, shows its output and keeps it.
train() {
    "$bin/submit_training" --workers 2 --epochs "$epochs" 2>&1 | tee "$1" || fail "the training failed"
}

echo "demo: 1. a cluster on this machine"
"$bin/manta" start --head
echo
echo "demo: 2. a C program submits a training job (2 worker processes) and follows it: undisturbed"
train "$run_dir/calm.log"
echo
echo "demo: 3. the same again, and a worker is killed in the middle"
# On a machine that has little time for us the training may be over before the killer has seen its step: then once more.
for try in 1 2 3 4 5; do
    : >"$run_dir/killed.log"
    kill_one_worker "$run_dir/killed.log" $((epochs * 100)) &
    killer=$!
    train "$run_dir/killed.log"
    if wait "$killer" && grep -q '^1 restarts' "$run_dir/killed.log"; then
        break
    fi
    killer=
    [ "$try" -lt 5 ] || fail "no worker could be killed before the training ended"
    echo "demo: the training was over before the blow: once more"
done
killer=
echo
echo "demo: 4. the end of the cluster"
"$bin/manta" job list
"$bin/manta" stop --purge || fail "something is left over"
left=$(find "$XDG_RUNTIME_DIR" -mindepth 1)
[ -z "$left" ] || fail "files are left over: $left"

row() { printf '  %-16s %-18s %s\n' "$@"; }
summary_of() {
    accuracy=$(value "$1" accuracy) weights=$(value "$1" weights)
    restarts=$(sed -n 's/^\([0-9]*\) restarts.*/\1/p' "$1")
    seconds=$(sed -n 's/.* ms, \([0-9.]*\) s in all.*/\1/p' "$1")
    slowest=$(sed -n 's/.*slowest \([0-9.]*\) ms.*/\1/p' "$1")
}
summary_of "$run_dir/calm.log"
calm=("$accuracy" "$weights" "$restarts" "$seconds")
summary_of "$run_dir/killed.log"
echo
echo "demo: what happened"
row "" undisturbed "one worker killed"
row "final weights" "${calm[1]}" "$weights"
row "test accuracy" "${calm[0]}" "$accuracy"
row "restarts" "${calm[2]}" "$restarts"
row "seconds" "${calm[3]}" "$seconds"
[ -n "$weights" ] || fail "the training told no weights"
[ "$restarts" = 1 ] || fail "one restart was expected"
[ "${calm[1]}" = "$weights" ] || fail "the weights differ"
echo "demo: done. The killed worker was replaced, training went on ${slowest} ms later, and the final weights are equal"
echo "      bit for bit (the hash covers all of them). Nothing of the cluster is left."
