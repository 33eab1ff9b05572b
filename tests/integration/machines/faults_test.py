#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faults_test.py BIN DRIVER [--long] CASE... - machines that fall silent and come back.

blackout   5 s without any packet for the head's machine and for one that works (--long: for each alone, too): no node is declared
           dead, no task and no call fails. Before it some seconds without datagrams alone, one way and the other: nobody is suspect
hung       all processes of a machine are stopped for 12 s (--long: 60 s), and go on: its task has begun elsewhere, and what wakes up
           has no effect any more. Meanwhile a stranger says with datagrams that it lives: those that were heard, and others
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import machines  # noqa: E402
from machines import wait_until  # noqa: E402

IS_LONG = "--long" in sys.argv
BLACKOUT_S, DATAGRAMS_S, HUNG_S, AFTER_S = 5, 3, 60 if IS_LONG else 12, 3
LATE_S = 8  # of a blackout that may have come too near to the 10 s after which a node is declared dead
TRIES = 5
HEARD, UNHEARD = "datagrams_heard", "datagrams_unheard"


class Driver:
    def __init__(self, machine, *words):
        self.process = machine.start(DRIVER, *words, env={"MANTA_ADDRESS": str(machine.folder)}, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def end(self):
        out, err = self.process.communicate(timeout=machines.CALL_S)
        assert self.process.returncode == 0, err
        print(out, end="")
        return {name: int(value) for name, value in re.findall(r"(\w+) (-?\d+)", out)}, err


def states(net):
    return {n["name"]: n["state"] for n in net[0].json("list", "nodes")}


def nodes(net):
    return {n["name"]: n["node"] for n in net[0].json("list", "nodes") if n["state"] == "ALIVE"}


def start(net, cpus):
    net[0].manta("start", "--head", "--num-cpus", cpus, "--node-name", "m0", "--bind", net[0].address)


def join(net, number, cpus):
    net[0].copy(net[0].folder / "join", net[number], "/tmp/join")
    net[number].manta("start", "--join", "/tmp/join", "--num-cpus", cpus, "--node-name", f"m{number}")
    wait_until(lambda: f"m{number}" in nodes(net), f"m{number} is there")


def last_of(machine, daemon, *words):
    """Which of these words stands last in a daemon's log of that machine; "" where there is none."""
    text = "".join(path.read_text(errors="replace") for path in machine.path(machine.folder).rglob(f"{daemon}.log"))
    return max(words, key=text.rfind) if any(word in text for word in words) else ""


def suspects(net):
    return sum(path.read_text(errors="replace").count("node_suspect") for path in net[0].path(net[0].folder).rglob("head.log"))


def try_again(action, text):
    """Gives an action further tries that was in vain: this machine stood still for as long as what it shows takes."""
    assert any(action() for _ in range(TRIES)), f"{TRIES} times {text}"


def without_datagrams(net):
    """Those to the head are lost, then those from it: the node notices and reports by its stream, before anybody is suspect. (A node
    that had no CPU for 2 s is suspect too, for want of any word.)"""
    before = suspects(net)
    for from_, to in ((net[1], net[0]), (net[0], net[1])):
        wait_until(lambda: hears(net) == HEARD, "the head hears m1's datagrams")
        net.ip(from_, "rule", "add", "pref", "1", "ipproto", "17", "to", to.address, "blackhole")  # UDP; names need netbase
        wait_until(lambda: hears(net) == UNHEARD, "m1 notices that its datagrams are not heard")
        time.sleep(DATAGRAMS_S)
        net.ip(from_, "rule", "del", "pref", "1")
    wait_until(lambda: hears(net) == HEARD, "they are heard again")
    return suspects(net) == before


def hears(net):
    return last_of(net[1], "raylet", HEARD, UNHEARD)


LISTENER = """
import socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
found = 0
while found < 3:
    frame = wire.recv(2000)
    ip = 14 + 4 * (frame[14] & 15)
    if frame[23] == 17 and frame[26:30] == socket.inet_aton(sys.argv[1]) and frame[ip + 8:ip + 10] == b"MB":
        print(int.from_bytes(frame[ip + 2:ip + 4], "big"), frame[ip + 8:].hex(), flush=True)
        found += 1
"""
STRANGER = """
import os, socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
known = [bytes.fromhex(word) for word in sys.argv[3:]]
while True:
    for datagram in known:
        later = (int.from_bytes(datagram[16:24], "little") + 1000).to_bytes(8, "little")
        for said in (datagram, datagram[:16] + later + datagram[24:], datagram[:40] + os.urandom(16), os.urandom(56)):
            line.sendto(said, (sys.argv[1], int(sys.argv[2])))
    time.sleep(0.05)
"""


def overhear(net):
    """The port, and what m1 says to the head."""
    lines = [line.split() for line in net[0].run("python3", "-c", LISTENER, net[1].address).splitlines()]
    return lines[0][0], *(words[1] for words in lines)


@contextlib.contextmanager
def stranger(net, heard):
    """Goes on saying it, as it was and altered."""
    said = net[2].start("python3", "-c", STRANGER, net[0].address, *heard)
    try:
        yield
    finally:
        said.kill()
        said.wait()


def stop(net):
    for m in reversed(list(net)):
        m.manta("stop", "--purge")


def begin(net):
    start(net, 1)
    join(net, 1, 1)
    join(net, 2, 1)


def blackout(net):
    begin(net)
    try_again(lambda: without_datagrams(net), "a node was suspect for want of datagrams")
    try_again(lambda: without_packets(net), f"there was no packet for {LATE_S} s and not for {BLACKOUT_S}")
    stop(net)


def without_packets(net):
    """False, with a new cluster: it took so long that a node may have been declared dead."""
    wait_until(lambda: len(nodes(net)) == len(list(net)), "all nodes are alive")
    before, took = nodes(net), 0
    driver = Driver(net[1], "blackout", before["m2"])
    for silent in ((0,), (2,), (0, 2)) if IS_LONG else ((0, 2),):
        begun = time.monotonic()
        for number in silent:
            net.cut(number)
        time.sleep(BLACKOUT_S)
        for number in silent:
            net.mend(number)
        took = time.monotonic() - begun
        if took > LATE_S:
            break
        wait_until(lambda: set(states(net).values()) == {"ALIVE"}, "all nodes are heard of again")
        time.sleep(1)
    if took > LATE_S:
        driver.process.kill()
        driver.process.communicate()
        stop(net)
        begin(net)
        return False
    told, err = driver.end()
    assert told["failed"] == 0, err
    assert nodes(net) == before and len(net[0].json("list", "nodes")) == 3, net[0].manta("list", "nodes")
    return True


def strike(machine, sent):
    for pid in machine.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sent)


def hung(net):
    start(net, 0)
    join(net, 1, 1)
    heard = overhear(net)
    driver = Driver(net[0], "hung")
    wait_until(lambda: net[0].json("list", "tasks", "--filter", "state=RUNNING"), "the task runs")
    join(net, 2, 1)
    with stranger(net, heard):
        strike(net[1], signal.SIGSTOP)
        time.sleep(HUNG_S)
        wait_until(lambda: states(net)["m1"] == "DEAD", "m1 counts as dead")
        strike(net[1], signal.SIGCONT)
    time.sleep(AFTER_S)
    told, err = driver.end()
    assert told.get("attempts") == 2 and told["late"] == 0, (told, err)
    stop(net)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--long"]
    BIN, DRIVER = (pathlib.Path(word).resolve() for word in words[:2])
    sys.exit(machines.main({name: globals()[name] for name in words[2:]}, lambda: machines.Machines(3, BIN, [DRIVER.parent])))
