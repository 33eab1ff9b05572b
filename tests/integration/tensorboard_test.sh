#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test written in Python in a virtual environment that has the package tensorboard; makes it if it is missing. Exits with 77
# where it can't be installed.
#   tensorboard_test.sh VENV SCRIPT [ARGUMENTS]
set -eu
venv=$1
shift
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
if ! "$venv/bin/python" -c 'import tensorboard' 2>/dev/null; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'tensorboard==2.17.1' 'setuptools<81' ||
        { echo "the package tensorboard can't be installed here"; exit 77; }
fi
exec 9>&-
exec "$venv/bin/python" "$@"
