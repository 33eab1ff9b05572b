#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# soak.sh [--minutes N] [--seed S] [--clerks N] [--build FOLDER] - a mixed load on a real cluster of two raylets for a long
# time: the memory of head and raylets after the warm-up and at the end. Exit status 1 when one has grown by 1 MB. Clerks are
# drivers more that fill the head's bounded tables sooner (tests/chaos/soak.py).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x build/release/tests/chaos/chaos_load ] || [[ " $* " == *" --build "* ]] || scripts/build.sh release chaos_load manta-head manta-raylet
exec python3 tests/chaos/soak.py "$@"
