#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos_elastic.sh [chaos|idle|sweep|merge] [--seconds N] [--rounds N] [--trials N] [--seed S] [-o json] [--verbose] - a cluster that grows and shrinks while nodes are
# taken from it, launches fail and its head is killed (tests/chaos/elastic.py): 600 s of it, --seconds 60 is the short form. With `idle`: values
# outlive nodes that are given back, 100 rounds. Exit status 1 when anything was lost, done twice, wrong or left over.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
[ -x "$build/tests/chaos/elastic_load" ] || scripts/build.sh release elastic_load manta manta-head manta-raylet manta-provider
case "${1:-}" in chaos | idle | sweep | merge) what=$1; shift ;; *) what=chaos ;; esac
exec python3 tests/chaos/elastic.py "$build/bin" "$build/tests/chaos/elastic_load" "$what" --seconds 600 "$@"
