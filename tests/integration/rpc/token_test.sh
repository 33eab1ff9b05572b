#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs token_test.py in a virtual environment with an independent gRPC client; makes the environment if it is missing.
#   token_test.sh VENV TEST_SERVER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$1 server=$2
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9 # two builds of one tree may test at a time
if ! "$venv/bin/python" -c 'import grpc, grpc_tools' 2>/dev/null; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi
exec 9>&-
exec "$venv/bin/python" "$here/token_test.py" "$server"
