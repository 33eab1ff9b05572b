#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program of this folder in a virtual environment with the real schemas; makes the environment if it is missing.
#   kubernetes_test.sh VENV PROGRAM ARGUMENT...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$1 program=$2
shift 2
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9 # two builds of one tree may test at a time
if ! "$venv/bin/python" -c 'import kubernetes_validate, yaml' 2>/dev/null; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi
exec 9>&-
exec "$venv/bin/python" "$here/$program" "$@"
