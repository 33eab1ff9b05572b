#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fresh_check.sh [--fast] [--no-demo] [--keep] [--user] - test.sh and demo.sh on a bare Debian 12, made for the purpose.
#
#   --fast      scripts/test.sh --fast: the unit tests only
#   --no-demo   without scripts/demo.sh
#   --user      as a user who has sudo and the soft limit of 1,024 descriptors that Debian gives; default: as root
#   --keep      leaves the system in its folder (default: it is deleted, whatever happens)
#
# Makes a minimal system by debootstrap in a private folder below ${TMPDIR:-/var/tmp}, clones HEAD into it and runs the
# two commands inside, in namespaces of its own for mounts and processes: all of both ends with the run. Takes the
# mirror, proxy and certificates from this machine. Needs root, 4 GB and a Debian mirror.
set -euo pipefail
cd "$(dirname "$0")/.."

test_options=() demo=yes keep=no by=()
for option in "$@"; do
    case $option in
    --fast) test_options+=(--fast) ;;
    --no-demo) demo=no ;;
    --keep) keep=yes ;;
    --user) by=(bash -c 'ulimit -Sn 1024; exec runuser -u newcomer -- env HOME=/home/newcomer "$@"' by) ;;
    *)
        echo "usage: scripts/fresh_check.sh [--fast] [--no-demo] [--keep] [--user]" >&2
        exit 2
        ;;
    esac
done
if [ "$(id -u)" -ne 0 ]; then
    echo "fresh_check: needs root, for debootstrap and chroot" >&2
    exit 1
fi
command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap </dev/null

suite=bookworm
private=$(mktemp -d "${TMPDIR:-/var/tmp}/manta-fresh.XXXXXX")
root=$private/root # every user in there may enter it, nobody else's out here
mkdir -m 0755 "$root"
finish() {
    if [ $keep = yes ]; then
        echo "fresh_check: kept $root"
    else
        rm -rf --one-file-system "$private"
    fi
}
trap finish EXIT

# The mirror that this machine gets its own packages from.
find_mirror() {
    {
        sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
        sed -n 's/^deb  *\(\[[^]]*\] *\)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
    } 2>/dev/null | grep '/debian/*$' | head -1
}
mirror=$(find_mirror || true)
mirror=${mirror:-http://deb.debian.org/debian}

echo "fresh_check: Debian $suite from $mirror in $root"
debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" >"$private/log" 2>&1 || {
    tail -20 "$private/log" >&2
    exit 1
}

# How this machine reaches the network: proxy, certificates, names; nothing else of it.
apt-config dump | grep -E '^Acquire::(http|https)::' >"$root/etc/apt/apt.conf.d/99host" || true
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir -p "$root/usr/local/share/ca-certificates" "$root/root"
cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
for file in /etc/pip.conf /root/.config/pip/pip.conf /root/.pip/pip.conf; do
    [ ! -f "$file" ] || install -D -m 0644 "$file" "$root$file"
done
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_CERT MANTA_BUILD_JOBS; do
    [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done

git clone -q --no-hardlinks "$PWD" "$root/manta"
git -C "$root/manta" checkout -q --detach "$(git rev-parse HEAD)"

# inside COMMAND...: runs it in the new system. Mounts and processes belong to its namespaces and end with them.
inside() {
    unshare --mount --pid --fork --kill-child bash -c '
        root=$1; shift
        mount --bind "$root" "$root" # as on a machine, "/" is a mount of its own there
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        mkdir -p "$root/before"
        cd "$root"
        pivot_root . before # not chroot: tests enter namespaces that they have made, and come out at the real root
        umount -l before
        exec /usr/bin/env -i -C /manta "$@"
    ' inside "$root" "${environment[@]}" "$@" </dev/null
}

status=0
inside update-ca-certificates >/dev/null 2>&1
if [ ${#by[@]} -gt 0 ]; then
    inside bash -c 'apt-get update -q && apt-get install -q -y --no-install-recommends sudo && useradd -m -s /bin/bash newcomer &&
        echo "newcomer ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/newcomer && chown -R newcomer /manta' >"$private/log" 2>&1 || {
        tail -20 "$private/log" >&2
        exit 1
    }
fi
began=$SECONDS
inside "${by[@]}" scripts/test.sh "${test_options[@]}" || status=1
echo "fresh_check: test.sh took $((SECONDS - began)) s"
if [ $demo = yes ]; then
    began=$SECONDS
    inside "${by[@]}" scripts/demo.sh || status=1
    echo "fresh_check: demo.sh took $((SECONDS - began)) s"
fi
if [ $status -eq 0 ]; then
    echo "fresh_check: passed"
else
    echo "fresh_check: FAILED"
fi
exit $status
