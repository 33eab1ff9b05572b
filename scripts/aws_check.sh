#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# aws_check.sh [CASE...] - deploy/aws by the real AWS CLI against the EC2 of moto: installs both from PyPI into build/venv-aws, once, builds
# what they need, and runs tests/integration/aws. Exit status 77 where PyPI can't be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
[ -x "$build/bin/manta-provider" ] || scripts/build.sh release manta manta-head manta-raylet manta-provider
[ $# -gt 0 ] || set -- grows spot refused no_credentials
tests/integration/in_venv.sh build/venv-aws "awscli, moto.server, boto3" tests/integration/aws/requirements.txt -c '' || exit 77
exec build/venv-aws/bin/python tests/integration/aws/aws_test.py "$build/bin" "$@"
