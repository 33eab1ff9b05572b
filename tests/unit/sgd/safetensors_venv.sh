#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes build/venv with the safetensors package from PyPI, for unit.sgd.safetensors_python.
set -eu
cd "$(dirname "$0")/../../.."
[ -x build/venv/bin/python ] || python3 -m venv build/venv
build/venv/bin/pip install --quiet safetensors numpy
