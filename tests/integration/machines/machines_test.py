#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""machines_test.py BIN DRIVER COLL CASE... - machines of tests/machines.py.

apart      they share no file, no shared memory and no address; a dead one has no process left
losses     a wire that is cut and mended, losses in one direction, a bound on the rate
tasks      two machines join over TLS and run tasks on each other; one dies, joins anew, and does so again; ranks of Horovod meet on both
collectives  a group over both machines: sums, a death, a shrink and a growth, over TLS with the group's secret
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import machines  # noqa: E402
from machines import wait_until  # noqa: E402

MIB = 16
# Prints each datagram that comes.
EAR = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind((%r, 7000))\nprint('ready', flush=True)\nwhile True:\n print(s.recv(100).decode(), flush=True)\n"
SAY = "import socket\ntry:\n socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'%s', (%r, 7000))\nexcept OSError:\n pass\n"
TAKE = "import socket\ns = socket.create_server((%r, 7001))\nprint('ready', flush=True)\nc, _ = s.accept()\nwhile c.recv(65536):\n pass\n"
GIVE = ("import socket, time\ns = socket.create_connection((%r, 7001), 10)\nbegun = time.monotonic()\ns.sendall(bytes(1 << 20))\n"
        "s.shutdown(socket.SHUT_WR)\ns.recv(1)\nprint(time.monotonic() - begun)\n")


class Ear:
    """Hears what is said to a machine."""

    def __init__(self, machine):
        self.machine = machine
        self.path = machine.path(f"/tmp/ear.{time.monotonic_ns()}")
        self.out = open(self.path, "w")
        self.process = machine.start(sys.executable, "-c", EAR % machine.address, stdout=self.out)
        wait_until(lambda: "ready" in self.path.read_text(), "the ear hears")

    def hears(self, speaker):
        """It is said again until it is heard: a crowded machine takes its time."""
        end = time.monotonic() + machines.CALL_S
        while is_missed := self.misses(speaker):
            if time.monotonic() > end:
                break
        return not is_missed

    def misses(self, speaker):
        """What is said once is not heard for a while."""
        word = f"word-{time.monotonic_ns()}."
        speaker.run(sys.executable, "-c", SAY % (word, self.machine.address))
        end = time.monotonic() + 0.5 * machines.SLOWER
        while time.monotonic() < end and word not in self.path.read_text():
            time.sleep(0.01)
        return word not in self.path.read_text()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.out.close()


def apart(net):
    a, b = net
    a.run("sh", "-c", "echo mine > /tmp/file; echo mine > /dev/shm/file")
    b.run("sh", "-c", "test ! -e /tmp/file && test ! -e /dev/shm/file && mkdir /tmp/run/manta")
    assert a.read("/tmp/file") == "mine\n" and not a.path("/tmp/run/manta").exists()
    assert not pathlib.Path("/dev/shm/file").exists()
    sleeper = a.start("sleep", "1000")
    wait_until(lambda: a.processes(), "it runs")
    assert not b.processes()
    a.die()
    assert sleeper.wait() != 0 and not a.processes()
    assert a.run("echo", "again") == "again\n", "a machine whose processes have died can be used again"


def losses(net):
    a, b = net
    ears = Ear(a), Ear(b)
    assert ears[0].hears(b) and ears[1].hears(a)
    net.cut(1)
    assert ears[0].misses(b) and ears[1].misses(a)
    net.mend(1)
    assert ears[0].hears(b) and ears[1].hears(a), "the wire is mended"
    net.deafen(1)
    assert ears[0].hears(b) and ears[1].misses(a), "only what is sent to it is lost"
    net.deafen(1, False)
    assert ears[0].hears(b) and ears[1].hears(a)
    for ear in ears:
        ear.end()
    taker = b.start(sys.executable, "-c", TAKE % b.address, stdout=(b.tmp / "taker").open("w"))
    wait_until(lambda: "ready" in b.read("/tmp/taker"), "it takes what it is given")
    net.limit(0, "20mbit")
    took = float(a.run(sys.executable, "-c", GIVE % b.address))
    taker.wait()
    assert took > 0.3, f"1 MiB at 20 Mbit/s took {took} s"


def start(net):
    a, b = net
    a.manta("start", "--head", "--num-cpus", 2, "--node-name", "m0", "--bind", a.address)
    join(a, b)


def join(a, b):
    a.copy(a.folder / "join", b, "/tmp/join")
    b.manta("start", "--join", "/tmp/join", "--num-cpus", 2, "--node-name", "m1")
    wait_until(lambda: [n["state"] for n in a.json("list", "nodes") if n["name"] == "m1"][-1:] == ["ALIVE"], "both are there")


def work(net):
    """Tasks, an actor and values from each to the other."""
    nodes = {n["name"]: n["node"] for n in net[0].json("list", "nodes") if n["state"] == "ALIVE"}
    for m in net:
        other = nodes[f"m{1 - m.number}"]
        out = m.run(DRIVER, other, MIB, "mark", env={"MANTA_ADDRESS": str(m.folder)})
        assert f"tasks {sum(range(50)) * 1000 + 50 * other}\nactor 100\nvalue there {MIB << 20}\nvalue here {MIB << 20}\n" in out, out


def tasks(net):
    a, b = net
    start(net)
    assert "TLS" in a.manta("status")
    work(net)
    b.die()
    b.manta("stop")  # what of its folder is left
    join(a, b)
    work(net)
    client = pathlib.Path(__file__).resolve().parents[1] / "cli" / "horovod_client.py"
    out = a.manta("run", "--nodes", 2, "--per-node", 2, "--as", "horovod", "--", sys.executable, client)
    assert sorted(out.splitlines()) == [f"[{rank}] {rank} 4 {rank % 2} 2 {rank // 2} 2" for rank in range(4)], out
    for m in (b, a):
        m.manta("stop", "--purge")
    for m in net:
        wait_until(lambda: not m.processes(), f"all processes of {m.name} end")


def collectives(net):
    a, b = net
    start(net)
    there = next(n["node"] for n in a.json("list", "nodes") if n["name"] == "m1")
    for size in (4, 12):  # each connected with each, and with few others
        lines = a.run(COLL, there, size, env={"MANTA_ADDRESS": str(a.folder)}).splitlines()
        few = size - 1
        all_of = [f"sum 0 {r}/{size} {size * (size + 1) // 2}" for r in range(size)]
        assert lines[:size] == all_of and lines[-size:] == all_of, lines
        lines = lines[size:-size]
        assert all(f"rank {few} died" in line for line in lines[:few]), lines
        assert lines[few:] == [f"shrink 0 {r}/{few} " for r in range(few)] + [f"sum 0 {r}/{few} {few * size // 2}" for r in range(few)], lines
    for m in (b, a):
        m.manta("stop", "--purge")


if __name__ == "__main__":
    BIN, DRIVER, COLL = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    sys.exit(machines.main({name: globals()[name] for name in sys.argv[4:]},
                           lambda: machines.Machines(2, BIN, [DRIVER.parent, COLL.parent])))
