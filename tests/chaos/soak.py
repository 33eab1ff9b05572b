#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# soak.py - the chaos load without faults, for long: the memory of head and raylets after the warm-up and at the end.
#
# Memory is the proportional set size, the least of the samples of a tenth of the time: what a burst holds for a moment is no
# growth. Exit status 1 when what a daemon holds for itself has grown by 1 MB or more. Not counted in that, but shown:
#
#   files           programs and libraries: how much of them is ours depends on who else runs them
#   manta-events    what workers have run, kept on purpose: at most 2 MiB a worker, 32 MiB of workers that have ended
#   manta-segment   values, and pages kept warm for the next ones: at most 16 MiB more than at the warm-up
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

GROWTH_MAX_KIB, WARM_MAX_KIB, SAMPLE_S, WARM_UP = 1024, 16 * 1024, 2, 0.2
APART = ("files", "manta-events", "manta-segment")
NAMED = "9"  # CHAOS_NAMED of load.h


def main():
    parser = argparse.ArgumentParser(prog="soak.sh")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=pathlib.Path(__file__).resolve().parents[2] / "build/release")
    parser.add_argument("--cpus", type=int, default=4, help="of each node")
    parser.add_argument("--clerks", type=int, default=0, help="drivers more that only make, find and end named actors: they "
                        "fill the head's tables sooner")
    args = parser.parse_args()
    folder, seconds = pathlib.Path(tempfile.mkdtemp(prefix="msoak.")), int(args.minutes * 60)
    os.environ.pop("MANTA_ADDRESS", None)
    cluster = Cluster(args.build, folder, args.cpus)

    def load_start(seed, environment):
        return subprocess.Popen([str(w) for w in (cluster.build / "tests/chaos/chaos_load", folder / "n0", "/dev/null", seconds,
                                                  seed)], stdin=subprocess.DEVNULL, env=os.environ | environment)
    loads = [load_start(args.seed + i, {"CHAOS_ONLY": NAMED} if i else {}) for i in range(1 + args.clerks)]
    samples = {name: [] for name in cluster.daemons}
    begin = time.monotonic()
    while any(load.poll() is None for load in loads) and time.monotonic() - begin < seconds + 60:
        for name, daemon in cluster.daemons.items():
            samples[name].append((time.monotonic() - begin, pss_kib(daemon.pid)))
        time.sleep(SAMPLE_S)
    statuses = [load.poll() for load in loads]
    for load in loads:
        if load.poll() is None:
            load.kill()
            load.wait()
    grown = False
    for name, all_of_it in samples.items():
        def least(kinds, since, to):
            return min(sum(kib[k] for k in kinds) for at, kib in all_of_it if since * seconds <= at <= to * seconds)

        def growth(kinds):
            return least(kinds, 0.9, 1) - least(kinds, WARM_UP, WARM_UP + 0.1)
        kinds = sorted(set().union(*(kib for _, kib in all_of_it)))
        own = [kind for kind in kinds if kind not in APART]
        grown |= growth(own) >= GROWTH_MAX_KIB or growth(["manta-segment"]) >= WARM_MAX_KIB
        print(f"{name}: {least(own, WARM_UP, WARM_UP + 0.1)} KiB after the warm-up, {growth(own):+d} KiB in "
              f"{seconds * 0.7 / 60:.1f} minutes; with {', '.join(APART)}: {least(kinds, 0.9, 1)} KiB")
        for kind in kinds:
            print(f"  {kind:18}" + " ".join(f"{least([kind], i / 10, (i + 1) / 10):6}" for i in range(10)))
    bad = cluster.stop()
    print("load: exit status " + ", ".join(map(str, statuses)) + "".join(f"; {text}" for text in bad))
    shutil.rmtree(folder)
    return 1 if grown or any(status != 0 for status in statuses) or bad else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
