#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs safetensors_check.py in a virtual environment with the reference implementation; makes it if it is missing.
#   safetensors_test.sh VENV TENSOR_TOOL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$1 tool=$2
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9 # two builds of one tree may test at a time
if ! "$venv/bin/python" -c 'import numpy, safetensors' 2>/dev/null; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi
exec 9>&-
exec "$venv/bin/python" "$here/safetensors_check.py" "$tool"
