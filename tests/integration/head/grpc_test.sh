#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs grpc_test.py in the virtual environment that the tests share; makes it if it is missing.
#   grpc_test.sh VENV MANTA_HEAD
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$1 head=$2
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9 # two builds of one tree may test at a time
if ! "$venv/bin/python" -c 'import grpc, grpc_tools' 2>/dev/null; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/../rpc/requirements.txt"
fi
exec 9>&-
exec "$venv/bin/python" "$here/grpc_test.py" "$head"
