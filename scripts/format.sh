#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# format.sh - lays all C and CUDA out as .clang-format says; clang-format 14, since others differ in details.
set -eu
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14 || command -v clang-format)
git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.hpp' '*.cc' '*.cpp' '*.cu' '*.cuh' ':!abi' | xargs -P "$(nproc)" -n 50 "$format" -i
