#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# flood.py - connections without a token at every port of a cluster, and what is left of its work.
#
# Two raylets and a head; a driver at one node gets values from the other as fast as they come. By turns a quiet round and one in
# which 200 connections a second come to each TCP port of the three daemons and say nothing: from a foreign address (127.0.0.2),
# then from the nodes' own. Each is told beside the quiet round before it. Exit status 1: less than --gate of the tasks a second
# is left, a node was declared dead, or a task failed.
import argparse
import collections
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

from cluster import Cluster

OPEN_MAX = 2000  # of ours at a time: the oldest is closed then


def ports_of(pid):
    """The TCP ports on which a process listens."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass  # closed meanwhile
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                found.add(int(words[1].rsplit(":", 1)[1], 16))
    return found


class Flood:
    """Opens so many connections a second to each port, from an address, and holds them."""

    def __init__(self, ports, rate, source):
        self.ports, self.rate, self.source = sorted(ports), rate, source
        self.held, self.made, self.is_over = collections.deque(), 0, False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        since, turn = time.monotonic(), 0
        while not self.is_over:
            for port in self.ports:
                self.connect(port)
            turn += 1
            time.sleep(max(0, since + turn / self.rate - time.monotonic()))

    def connect(self, port):
        s = socket.socket()
        s.setblocking(False)
        try:
            s.bind((self.source, 0))
            s.connect_ex(("127.0.0.1", port))
            self.made += 1
        except OSError:
            pass  # out of ports for a moment
        self.held.append(s)
        if len(self.held) > OPEN_MAX:
            self.held.popleft().close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        for s in self.held:
            s.close()


def round_of(load):
    words = load.stdout.readline().split()
    if len(words) != 4:
        raise SystemExit(f"flood: the driver ended with status {load.wait()}")
    return int(words[1]) / float(words[3])


def rounds(cluster, folder, options):
    """Quiet and flooded ones by turns; what is bad about them."""
    bad = []
    ports = {daemon: ports_of(process.pid) for daemon, process in cluster.daemons.items()}
    print("ports", {daemon: len(found) for daemon, found in ports.items()}, flush=True)
    floods = ["127.0.0.2", "127.0.0.1"]
    load = subprocess.Popen([f"{options.build}/tests/chaos/flood_load", str(folder / "n0"), str(options.seconds),
                             str(2 * len(floods))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    for source in floods:
        quiet = round_of(load)
        with Flood(set().union(*ports.values()), options.rate, source) as flood:
            load.stdin.write("\n")
            flooded = round_of(load)
        load.stdin.write("\n")
        print(f"from {source}: {flooded:.0f} tasks/s beside {quiet:.0f} quiet: {flooded / quiet:.2f}x, "
              f"{flood.made} connections", flush=True)
        if flooded < options.gate * quiet:
            bad.append(f"from {source} {flooded / quiet:.2f}x of the work is left")
    load.stdin.close()
    if load.wait(60):
        bad.append(f"the driver ended with status {load.returncode}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seconds", type=float, default=8, help="of each round")
    parser.add_argument("--rate", type=float, default=200, help="connections a second at each port")
    parser.add_argument("--gate", type=float, default=0.7, help="share of the quiet round's tasks a second; 0: only told")
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory(prefix="flood-") as name:
        folder = pathlib.Path(name)
        (folder / "head").mkdir(mode=0o700)
        cluster = Cluster(options.build, folder, 1)
        try:
            bad += rounds(cluster, folder, options)
        finally:
            bad += cluster.stop()
        dead = (folder / "daemons.log").read_text().count("node_dead")
        print(f"nodes declared dead: {dead}")
        if dead:
            bad.append(f"{dead} nodes declared dead")
    for line in bad:
        print("flood:", line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
