#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faults_test.py BIN DRIVER [--long] CASE... - machines that fall silent and come back.

blackout   5 s without any packet for the head's machine and for one that works (--long: for each alone, too): no node is declared
           dead, no task and no call fails
hung       all processes of a machine are stopped for 12 s (--long: 60 s), and go on: its task has begun elsewhere, and what wakes up
           has no effect any more
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
BLACKOUT_S, HUNG_S, AFTER_S = 5, 60 if IS_LONG else 12, 3


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


def stop(net):
    for m in reversed(list(net)):
        m.manta("stop", "--purge")


def blackout(net):
    start(net, 1)
    join(net, 1, 1)
    join(net, 2, 1)
    before = nodes(net)
    driver = Driver(net[1], "blackout", before["m2"])
    for silent in ((0,), (2,), (0, 2)) if IS_LONG else ((0, 2),):
        for number in silent:
            net.cut(number)
        time.sleep(BLACKOUT_S)
        for number in silent:
            net.mend(number)
        wait_until(lambda: set(states(net).values()) == {"ALIVE"}, "all nodes are heard of again")
        time.sleep(1)
    told, err = driver.end()
    assert told["failed"] == 0, err
    assert nodes(net) == before and len(net[0].json("list", "nodes")) == 3, net[0].manta("list", "nodes")
    stop(net)


def strike(machine, sent):
    for pid in machine.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sent)


def hung(net):
    start(net, 0)
    join(net, 1, 1)
    driver = Driver(net[0], "hung")
    wait_until(lambda: net[0].json("list", "tasks", "--filter", "state=RUNNING"), "the task runs")
    join(net, 2, 1)
    strike(net[1], signal.SIGSTOP)
    time.sleep(HUNG_S)
    strike(net[1], signal.SIGCONT)
    time.sleep(AFTER_S)
    told, err = driver.end()
    assert told.get("attempts") == 2 and told["late"] == 0, (told, err)
    stop(net)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--long"]
    BIN, DRIVER = (pathlib.Path(word).resolve() for word in words[:2])
    sys.exit(machines.main({name: globals()[name] for name in words[2:]}, lambda: machines.Machines(3, BIN, [DRIVER.parent])))
