#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# soak.py - the chaos load without faults, for long: the memory of head and raylets after the warm-up and at the end.
#
# Memory is the proportional set size, the least of the samples of a tenth of the time: what a burst holds for a moment is no
# growth. Exit status 1 when one of them has grown by 1 MB or more.
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import Cluster, pss_kib

GROWTH_MAX_KIB, SAMPLE_S, WARM_UP = 1024, 2, 0.2


def main():
    parser = argparse.ArgumentParser(prog="soak.sh")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=pathlib.Path(__file__).resolve().parents[2] / "build/release")
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    args = parser.parse_args()
    folder, seconds = pathlib.Path(tempfile.mkdtemp(prefix="msoak.")), int(args.minutes * 60)
    os.environ.pop("MANTA_ADDRESS", None)
    cluster = Cluster(args.build, folder, args.cpus)
    load = subprocess.Popen([str(w) for w in (cluster.build / "tests/chaos/chaos_load", folder / "n0", "/dev/null", seconds,
                                              args.seed)], stdin=subprocess.DEVNULL)
    samples = {name: [] for name in cluster.daemons}
    begin = time.monotonic()
    while load.poll() is None and time.monotonic() - begin < seconds + 60:
        for name, daemon in cluster.daemons.items():
            samples[name].append((time.monotonic() - begin, pss_kib(daemon.pid)))
        time.sleep(SAMPLE_S)
    status = load.poll()
    if status is None:
        load.kill()
    grown = False
    for name, all_of_it in samples.items():
        def least(since, to):
            return min(kib for at, kib in all_of_it if since * seconds <= at <= to * seconds)
        first, last = least(WARM_UP, WARM_UP + 0.1), least(0.9, 1)
        grown |= last - first >= GROWTH_MAX_KIB
        print(f"{name}: {first} KiB after the warm-up, {last} KiB at the end: {last - first:+d} KiB in "
              f"{seconds * 0.7 / 60:.1f} minutes")
        print("  " + " ".join(str(least(i / 10, (i + 1) / 10)) for i in range(10)))
    bad = cluster.stop()
    print(f"load: exit status {status}" + "".join(f"; {text}" for text in bad))
    shutil.rmtree(folder)
    return 1 if grown or status or bad else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
