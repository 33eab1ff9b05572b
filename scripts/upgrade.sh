#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# upgrade.sh BUILD - clusters of this release and of others: under load to the next one and back, and beside the last release.
#
# BUILD is a built tree (build/release). The last release is the commit of the newest folder in abi/; it is built in a folder of its own,
# which takes minutes. Where the clone has no such commit, its part is skipped by name. MANTA_UPGRADE_S: seconds of load in each state (20).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:?usage: upgrade.sh BUILD}" && pwd)
test=("$here/tests/integration/upgrade/upgrade_test.py" "$build/bin" "$build/tests/integration/upgrade")
export MANTA_UPGRADE_S=${MANTA_UPGRADE_S:-20}
for case in under_load strangers store; do python3 "${test[@]}" $case; done

release=$(ls "$here/abi" | grep '^[0-9]' | sort -V | tail -1)
commit=$(cat "$here/abi/$release/COMMIT")
if ! git -C "$here" cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "skip before_ranges: this clone has not the commit of release $release ($commit)"
  exit 0
fi
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git -C "$here" archive "$commit" | tar -x -C "$old"
{ cmake -S "$old" -B "$old/b" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMANTA_CUDA=OFF &&
  cmake --build "$old/b" --target manta manta-head manta-raylet manta-keeper manta-reaper manta-so; } >"$old/log" 2>&1 ||
  { tail -20 "$old/log"; exit 1; }
python3 "${test[@]}" before_ranges "$old/b/bin"
