#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# install_deps.sh - installs the Debian packages that scripts/packages.txt lists, if any is missing.
#
# Needs root or sudo only when something is missing. Asks nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}
while read -r package others; do
    [ -n "$package" ] || continue
    for name in "$package" ${others//|/ }; do
        ! is_installed "$name" || continue 2
    done
    missing+=("$package")
done < <(sed 's/#.*//' scripts/packages.txt)
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "install_deps: this needs Debian 12 (no apt-get here); missing: ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install_deps: become root, or install sudo, and run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n) # nobody is there to type a password
fi

echo "install_deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null

# Tests start servers of their own. What Debian has started with a package that was not there before is nobody's wish.
declare -A services=([openssh-server]=ssh [redis-server]=redis-server [munge]=munge [slurm-wlm]="slurmctld slurmd")
for package in "${missing[@]}"; do
    [ -d /run/systemd/system ] || break
    # shellcheck disable=SC2086 # several names
    [ -z "${services[$package]:-}" ] || "${as_root[@]}" systemctl disable --now ${services[$package]} </dev/null || true
done
