#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutate.sh [--seed S] [--count N] [--only PREFIX] [--work FOLDER] [--all] [--report] - changes single places of the sources that hold
# promises, one after another, and runs the tests that should notice: which do not? Goes on where it was ended; hours for 200
# (mutate.py says the rest).
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 scripts/mutate.py "$@"
