#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# flood.py - connections without a token at every port of a cluster, and what is left of its work.
#
# Two raylets and a head; a driver at one node gets values from the other as fast as they come. By turns a quiet round and one in
# which 200 connections a second come to each TCP port of the three daemons and say nothing: from a foreign address (127.0.0.2),
# then from the nodes' own. Each is told beside the mean of the quiet rounds around it. The floor is the same flood at as many ports of a process
# that only accepts and closes: what the flood costs a machine of few cores by itself. In each round a peer with the token connects
# anew to a data port, PEER_A_S times a second: how long until it has its answer. Exit status 1: less than --gate of the tasks
# a second is left, a node was declared dead, or a task failed.
import argparse
import multiprocessing
import os
import pathlib
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

from cluster import Cluster

PEER_A_S = 20


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

    def __init__(self, program, ports, rate, source):
        self.words = [program, source, str(rate), *map(str, sorted(ports))]

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.made = int(self.process.communicate(timeout=20)[0])


class Peer:
    """Asks a data port for an object that there is not, over a new connection each time; keeps how long each answer took."""

    def __init__(self, ports, token):
        words = struct.pack("<IHH4I", 0x6A626F6D, 2, 0, 0, 0, 0, 0) + token  # struct os_wire_hello, then os_wire_request
        self.words = words + struct.pack("<II56xQQ", 0x6A626F6D, 0, 0, 0)
        self.took_ms, self.failed, self.is_over = [], 0, False
        self.port, until = None, time.monotonic() + 60
        while self.port is None and time.monotonic() < until:  # beside a flood on a crowded machine an answer may take a second and more
            self.port = next((port for port in ports if self.ask(port) is not None), None)
        if self.port is None:
            raise SystemExit("flood: no data port answers")
        self.took_ms, self.failed = [], 0
        self.thread = threading.Thread(target=self.run)

    def ask(self, port):
        since = time.monotonic()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
                s.sendall(self.words)
                if len(s.recv(64)) == 48:
                    self.took_ms.append((time.monotonic() - since) * 1000)
                    return self.took_ms[-1]
        except OSError:
            pass
        self.failed += 1
        return None

    def run(self):
        while not self.is_over:
            self.ask(self.port)
            time.sleep(1 / PEER_A_S)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()

    def __str__(self):
        took = sorted(self.took_ms) or [0]
        return f"a peer's new connection {took[len(took) // 2]:.1f} ms, {took[len(took) * 99 // 100]:.1f} (99 %), {took[-1]:.1f} at most, {self.failed} failed"


def sink(ports_to, count):
    """Listens on so many ports, tells them, and closes whatever comes."""
    poll, listeners = select.epoll(), {}
    for _ in range(count):
        s = socket.create_server(("127.0.0.1", 0), backlog=4096)
        listeners[s.fileno()] = s
        poll.register(s, select.EPOLLIN)
    ports_to.send([s.getsockname()[1] for s in listeners.values()])
    while True:
        for fd, _ in poll.poll():
            listeners[fd].accept()[0].close()


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
    daemons = set().union(*ports.values())
    told, ports_to = multiprocessing.Pipe(False)
    floor = multiprocessing.Process(target=sink, args=(ports_to, len(daemons)), daemon=True)
    floor.start()
    floods = [("the floor", "127.0.0.2", told.recv()), ("a foreign address", "127.0.0.2", daemons), ("its own", "127.0.0.1", daemons)]
    load = subprocess.Popen([f"{options.build}/tests/chaos/flood_load", str(folder / "n0"), str(options.seconds),
                             str(2 * len(floods) * options.repeat + 1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    token = (folder / "head/token").read_bytes()[:64]
    before, left = round_of(load), {name: [] for name, _, _ in floods}
    for name, source, at in floods * options.repeat:
        with Flood(f"{options.build}/tests/chaos/flood_source", at, options.rate, source) as flood, Peer(ports["raylet1"], token) as peer:
            load.stdin.write("\n")
            flooded = round_of(load)
        load.stdin.write("\n")
        after = round_of(load)
        quiet, before = (before + after) / 2, after
        left[name].append(flooded / quiet)
        print(f"{name}: {flooded:.0f} tasks/s beside {quiet:.0f} quiet: {flooded / quiet:.2f}x, "
              f"{flood.made} connections; {peer}", flush=True)
    for name, _, at in floods:
        share = statistics.median(left[name])
        print(f"{name}: {share:.2f}x, the median of {options.repeat}")
        if at is daemons and share < options.gate:
            bad.append(f"{name}: {share:.2f}x of the work is left")
    floor.terminate()
    load.stdin.close()
    if load.wait(60):
        bad.append(f"the driver ended with status {load.returncode}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seconds", type=float, default=8, help="of each round")
    parser.add_argument("--repeat", type=int, default=1, help="each kind of flood so often, by turns")
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
