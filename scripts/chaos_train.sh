#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos_train.sh [BLOWS] [SEED] - training runs whose workers are killed and stopped at random moments (1000 blows unless
# told otherwise). Exit status 1 when one of them hangs, or ends with other weights than a calm one. Takes some 15 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/release/tests/integration/sgd/integration_sgd_chaos
[ -x $program ] || scripts/build.sh release integration_sgd_chaos manta-head manta-raylet
CHAOS_BLOWS=${1:-1000} CHAOS_SEED=${2:-1} TEST_BIN=build/release/bin exec $program chaos
