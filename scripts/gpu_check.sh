#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gpu_check.sh [PART...] - everything that needs a GPU, on a machine that has one: builds, tests, measures, and reports.
#
#   build      the preset gpu: kernels, models, tests/gpu; and all of the project where its packages are there
#   tests      ctest's label gpu, and the emulated kernels beside it
#   memcheck   the kernels' tests under compute-sanitizer (memcheck, racecheck), where it is installed
#   bench      floors, rows h200_kernels, h200_gpt2, and h200_gpt2_trainer (the same by the trainer)
#   peers      the same by torch (cuDNN attention, compiled GPT-2), where torch is installed
#   nccl       collectives over NCCL by several processes on one GPU, and row h200_recover
#
# Without a PART all of them, in this order. Each takes less than 10 minutes and goes on from what is built. Needs no network
# and no git: a copy of the tree will do. The report, with all figures beside gates and floors, is appended to
# ${OUT:-build/gpu}/gpu_report.txt. Exit status 1 where a part failed, 77 where there is no GPU.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
out=${OUT:-$root/build/gpu}
mkdir -p "$out"
report=$out/gpu_report.txt
build=$root/build/gpu
failed=0

say() { printf '%s\n' "$*" | tee -a "$report"; }

# Runs a command with a limit, its output into the report; says how it ended. 77 is "skipped".
try() {
    local name=$1 limit=$2 rc begun=$SECONDS
    shift 2
    say "--- $name"
    timeout -k 10 "$limit" "$@" > "$out/last.log" 2>&1
    rc=$?
    tail -n 200 "$out/last.log" >> "$report"
    grep -E '^(row|FAILED|skipped)' "$out/last.log"
    if [ $rc = 77 ]; then say "=== $name: skipped ($((SECONDS - begun)) s)"
    elif [ $rc != 0 ]; then
        failed=1
        tail -n 30 "$out/last.log"
        say "=== $name: FAILED, exit status $rc ($((SECONDS - begun)) s)"
    else say "=== $name: ok ($((SECONDS - begun)) s)"
    fi
    return $rc
}

# CUDA in its usual places, else as PyPI's packages have it.
cuda_find() {
    export PATH=$PATH:/usr/local/cuda/bin
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64:/usr/local/cuda/lib
    local site
    site=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2> /dev/null)
    if [ -n "$site" ]; then
        [ -d "$site/cu13/lib" ] && export MANTA_CUDA_LIBS=${MANTA_CUDA_LIBS:-$site/cu13/lib}
        [ -d "$site/nccl" ] && export MANTA_NCCL=${MANTA_NCCL:-$site/nccl}
    fi
}

machine() {
    say "# gpu_check $(date -u +%FT%TZ), $(nproc) processors, $(uname -sr), $(gcc --version | head -1)"
    say "# $(nvcc --version 2> /dev/null | grep release || echo 'no nvcc'), $(cmake --version | head -1)"
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv,noheader >> "$report" 2>&1 ||
        { say "skipped: nvidia-smi shows no GPU"; exit 77; }
    local missing=""
    while read -r package _; do
        case $package in ''|'#'*) continue ;; esac
        dpkg -s "$package" > /dev/null 2>&1 || missing="$missing $package"
    done < scripts/packages.txt
    say "# Debian packages that are missing:${missing:- none}"
}

part_build() {
    try "configure gpu" 120 cmake --preset gpu || return
    try "build gpu" 500 cmake --build --preset gpu -j "$(nproc)" || return
    if cmake --preset release -DMANTA_CUDA=ON -DMANTA_WERROR=OFF > "$out/release.log" 2>&1; then
        try "build everything" 560 cmake --build --preset release -j "$(nproc)"
    else
        say "=== build everything: not here: $(grep -m1 -A3 -E 'CMake Error' "$out/release.log" | tr '\n' ' ')"
    fi
}

part_tests() {
    try "gpu tests" 560 ctest --test-dir "$build" --output-on-failure --timeout 240
    if [ -f build/release/CTestTestfile.cmake ] && [ -x build/release/bin/manta-raylet ]; then
        try "gpu tests of the whole project" 300 ctest --test-dir build/release -L gpu --output-on-failure --timeout 240
    fi
}

part_memcheck() {
    local sanitizer
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null) ||
        { say "=== memcheck: skipped: no compute-sanitizer"; return; }
    export MANTA_CUDA_PLUGIN=$build/lib/libmanta_cuda.so
    try "memcheck" 280 "$sanitizer" --tool memcheck --error-exitcode 1 "$build/tests/gpu/gpu_kernels"
    try "racecheck" 280 "$sanitizer" --tool racecheck --error-exitcode 1 "$build/tests/gpu/gpu_kernels" half_attention \
        half_cross_entropy half_norm layernorm embedding half_embedding sums column_sums
}

part_bench() {
    export MANTA_CUDA_PLUGIN=$build/lib/libmanta_cuda.so
    try "h200_kernels" 280 "$build/tests/gpu/kernels_bench"
    try "h200_gpt2" 280 "$build/tests/gpu/gpt2_bench" 64 20
    if [ -x "$build/tests/gpu/gpt2_trainer_bench" ]; then
        try "h200_gpt2_trainer" 280 "$build/tests/gpu/gpt2_trainer_bench" 64 20
    else
        say "=== h200_gpt2_trainer: skipped: not built (no xxhash.h)"
    fi
}

part_peers() {
    python3 -c 'import torch' 2> /dev/null || { say "=== peers: skipped: no torch"; return; }
    try "torch attention" 120 python3 scripts/gpu_peers.py attention
    try "torch GPT-2" 460 python3 scripts/gpu_peers.py gpt2
}

part_nccl() {
    local bench=$build/tests/gpu/nccl_bench
    [ -x "$bench" ] || { say "=== nccl: skipped: not built (no nccl.h or library was found)"; return; }
    export MANTA_CUDA_PLUGIN=$build/lib/libmanta_cuda.so MANTA_NCCL_PLUGIN=$build/lib/libmanta_nccl.so
    try "h200_recover" 280 "$bench"
}

cuda_find
machine
parts=${*:-build tests memcheck bench peers nccl}
for part in $parts; do
    case $part in
    build|tests|memcheck|bench|peers|nccl) "part_$part" ;;
    *) echo "gpu_check.sh: no part \"$part\": build tests memcheck bench peers nccl" >&2; exit 2 ;;
    esac
done
rm -f "$out/last.log"
say "# rows of this report:"
grep -h '^row ' "$report" | sort -u
exit $failed
