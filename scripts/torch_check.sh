#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# torch_check.sh [REGEX] - the tests of the bridge for torch with torch itself: installs it from PyPI into build/venv-torch (5 GB with the
# CUDA libraries that its wheel wants, once), builds what they need, and runs integration.torch.*, or those of them that match.
# MANTA_TORCH_PYTHON names a python that has torch already.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/venv-torch
if [ -z "${MANTA_TORCH_PYTHON:-}" ] && ! "$venv/bin/python" -c 'import torch, numpy' 2>/dev/null; then
    echo "torch_check.sh: installing torch into $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-input torch numpy
fi
scripts/build.sh release manta_sgd_shared
exec ctest --test-dir build/release --output-on-failure --no-tests=error -R "^integration\.torch\..*${1:-}"
