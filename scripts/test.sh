#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# test.sh [--fast] [--no-sanitizers] [--long] - installs what is missing, builds, and runs the tests.
#
#   (no option)       release: all tests; then AddressSanitizer and ThreadSanitizer builds: unit and simulation tests, for the latter
#                     those with threads, and the integration tests that tests/integration/CMakeLists.txt names for it
#   --no-sanitizers   the release build only
#   --long            the sanitizers' builds run all integration tests
#   --fast            unit tests of the release build only
#
# Ends with one line, "N passed, N failed, N skipped". Exit status 0 only where nothing failed, each skipped test is
# named in tests/allowed_skips.txt, and no process, shared memory, socket or file of ours is left over.
set -uo pipefail
cd "$(dirname "$0")/.."
case $PWD in
*' '*)
    echo "test.sh: $PWD: a name with a space, which LD_PRELOAD can't carry, and some tests need that; clone it elsewhere" >&2
    exit 1
    ;;
esac

stages="release asan tsan"
kinds=all
sanitized="unit sim sanitized"
for option in "$@"; do
    case $option in
    --fast) stages=release kinds=unit ;;
    --no-sanitizers) stages=release ;;
    --long) sanitized="unit sim integration" ;;
    *)
        echo "usage: scripts/test.sh [--fast] [--no-sanitizers] [--long]" >&2
        exit 2
        ;;
    esac
done

scripts/install_deps.sh || exit 1

# All that the tests make belongs in here, so that what they forget is found. Short: it holds unix sockets.
run_dir=$(mktemp -d /tmp/manta-test.XXXXXX) || exit 1
trap 'rm -rf "$run_dir"' EXIT
mkdir -m 0700 "$run_dir/run" "$run_dir/tmp"
export MANTA_TEST_RUN="$run_dir" # marks our processes: children inherit it
unset PYTHONUNBUFFERED # programs of tests print as they do at any user's
places=$((2 * ($(nproc) + 1))) # a test takes two, one that mostly waits takes one (cmake/MantaLayers.cmake)
results=()

# run_stage PRESET KINDS: builds what the kinds need and runs them; a build that fails counts as one failed test.
run_stage() {
    local preset=$1 kinds=$2 targets=() select=() kind
    if [ "$kinds" != all ]; then
        for kind in $kinds; do
            targets+=("tests_$kind")
        done
        select=(-L "^(${kinds// /|})\$")
    fi
    echo "== $preset: build"
    if ! scripts/build.sh "$preset" "${targets[@]}"; then
        results+=(--failed "build.$preset")
        return
    fi
    echo "== $preset: test"
    rm -f "build/$preset/junit.xml"
    XDG_RUNTIME_DIR="$run_dir/run" TMPDIR="$run_dir/tmp" ctest --test-dir "build/$preset" -j "$places" "${select[@]}" \
        -LE '^bench$' --output-on-failure --no-tests=error --test-output-size-passed 200000 --output-junit "$PWD/build/$preset/junit.xml" </dev/null
    results+=("$preset=build/$preset/junit.xml")
}

python3 scripts/leftovers.py snapshot "$run_dir/before"
for stage in $stages; do
    if [ "$stage" = release ]; then
        run_stage release "$kinds"
    else
        run_stage "$stage" "$sanitized"
    fi
done
left=$(python3 scripts/leftovers.py check "$run_dir/before" "$run_dir/run" "$run_dir/tmp") ||
    { echo "$left"; results+=(--failed "leftovers"$'\n'"$(head -8 <<<"$left")"); }
python3 scripts/test_summary.py "${results[@]}"
