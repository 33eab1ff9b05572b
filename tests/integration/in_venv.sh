#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program in a virtual environment that has what it imports; makes the environment if it is missing.
#   in_venv.sh VENV MODULES REQUIREMENTS PROGRAM ARGUMENT...     MODULES: as after `import`; REQUIREMENTS: pip's file of them
set -eu
venv=$1 modules=$2 requirements=$3
shift 3
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9 # two builds of one tree may test at a time
if ! "$venv/bin/python" -c "import $modules" 2>/dev/null; then
    # One whose making was interrupted has no pip.
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
fi
exec 9>&-
exec "$venv/bin/python" "$@"
