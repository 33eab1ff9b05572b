#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# keeper_test.py BIN CASE... - daemons of `manta start` that die are started again, and `manta stop` ends them all the same.
# Every case has a runtime folder of its own, and fails where it leaves a process or a file.
import os
import re
import shutil
import signal
import socket
import sys

from cli_test import WAIT_S, check, equal, has, is_written, kill, run_case, wait_until
from gone import has_gone

LATER = "while [ ! -e {0}/go ]; do sleep 0.05; done; ./hello"


def daemon(p, name):
    """How `manta status` says that it is; a head that is away says nothing of others, but this."""
    return next(d for d in p.json("status")["daemons"] if d["daemon"] == name)


def kill_and_wait(p, name, folder=None, meanwhile=lambda: None):
    """Kills the daemon, and waits until another stands in its place and is ready. Its pid."""
    before = p.daemons(folder)[name]
    kill(before)
    meanwhile()
    wait_until(lambda: p.daemons(folder)[name] not in (0, before), f"the {name} is started again")
    pid, log = p.daemons(folder)[name], (folder or p.folder) / f"{name}.log"
    wait_until(lambda: f" daemon_again daemon=manta-{name} pid={pid} " in log.read_text(errors="replace"), f"the {name} is ready again")
    return pid


def running(p, *words):
    job = p.manta("submit", *words).strip()
    wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING", "the job runs")
    return job


def hold(port):
    """A socket that keeps a port from others until its server is back, as tests/port.h does; None: somebody has it."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind(("127.0.0.1", port))
        return one
    except OSError:
        one.close()
        return None


def head_killed(p):
    """Under a job that runs: its tasks go on with the next head, which has the same address, options and state."""
    state = p.root / "state"
    p.manta("start", "--head", "--num-cpus", "2", "--state", "state", "--logs", "out", cwd=p.root)
    job = running(p, "--file", "hello", "--", "sh", "-c", LATER.format(p.root))
    address = (p.folder / "head.addr").read_text().splitlines()[0]
    held = []
    head = kill_and_wait(p, "head", meanwhile=lambda: held.append(hold(int(address.rpartition(":")[2]))))
    check(p.json("status")["address"] == address or not held[0], f"it was at {address}")
    if held[0]:
        held[0].close()
    told = daemon(p, "head")
    equal((told["pid"], told["state"], told["restarts"]), (head, "RUNNING", 1))
    has("killed by signal 9", told["last"])
    has("restarts: 1 (last died", p.manta("status"))
    log = (p.folder / "head.log").read_text()
    check(re.search(r'error daemon_died daemon=manta-head pid=\d+ why="killed by signal 9 ', log), log)
    (p.root / "go").touch()
    p.manta("job", "wait", job)
    has("add up to 140", (p.root / "out" / job).read_text())
    equal(p.manta("submit", "-f", "--", "echo", "more"), "more\n")
    has("Stopped: 2 daemons", p.manta("stop"))
    check(state.exists(), "the state has gone")


def raylet_killed(p):
    """What its jobs have started ends first, also what no mark and no control group holds; the next one has its options, and
    the job's next attempt runs there."""
    p.manta("start", "--head", "--num-cpus", "2", "--resources", "gold=3", "--node-name", "n1", "--labels", "zone=a",
            "--cgroup", "none")
    script = f"echo $MANTA_JOB_ATTEMPT >> {p.root}/attempts; env -i setsid sleep 1000 & echo $! >> {p.root}/sleepers; "
    job = running(p, "--retries", "1", "--file", "hello", "--", "sh", "-c", script + LATER.format(p.root))
    wait_until(lambda: is_written(p.root / "sleepers"), "the job has begun")
    sleeper = int((p.root / "sleepers").read_text())
    raylet = kill_and_wait(p, "raylet")
    check(has_gone(sleeper), "what the dead raylet's job has started runs beside the next raylet")
    (p.root / "go").touch()
    p.manta("job", "wait", job)
    equal((p.root / "attempts").read_text().split(), ["1", "2"])
    has("add up to 140", p.manta("job", "logs", job))
    wait_until(lambda: [n["state"] for n in p.json("list", "nodes")].count("ALIVE") == 1, "its node is there")
    node = next(n for n in p.json("list", "nodes") if n["state"] not in ("LEFT", "DEAD"))
    equal((node["name"], node["total"]["CPU"], node["total"]["gold"], node["labels"]), ("n1", 2, 3, "zone=a"))
    told = daemon(p, "raylet")
    equal((told["pid"], told["restarts"]), (raylet, 1))
    p.manta("stop")
    for pid in (p.root / "sleepers").read_text().split():
        check(has_gone(int(pid), WAIT_S), "a job's process is left over")


def other_node_killed(p):
    """A node of another folder, under a job that runs on the first: its raylet comes back and takes tasks again."""
    second = p.base / "n2"
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "n1")
    p.manta("start", "--address", p.folder, "--dir", second, "--node-name", "n2", "--num-cpus", "4")
    kill_and_wait(p, "raylet", second)
    has("add up to 140", p.manta("submit", "-f", "--num-cpus", "3", "--file", "hello", "--", "./hello"))
    kill_and_wait(p, "head")
    has("add up to 140", p.manta("submit", "-f", "--num-cpus", "3", "--file", "hello", "--", "./hello"))
    p.manta("stop", "--dir", second, "--purge")
    check(not second.exists(), "the folder of n2 is there still")
    p.manta("stop")


def keepers_killed(p):
    """Their daemons go on, `manta status` says that nobody keeps them, and `manta stop` ends them."""
    p.manta("start", "--head", "--num-cpus", "1")
    before = p.daemons()
    for pid in p.daemons(which="keeper").values():
        kill(pid)
    equal(p.manta("submit", "-f", "--", "echo", "on"), "on\n")
    equal(p.daemons(), before)
    equal(daemon(p, "raylet")["state"], "NOT KEPT")
    has("nobody starts it again", p.manta("status"))
    p.manta("start", "--head", want=1)
    has("already", p.errors)
    has("Stopped: 2 daemons", p.manta("stop"))
    p.manta("start", "--head", "--num-cpus", "1")
    kill(p.daemons(which="keeper")["raylet"])
    kill(p.daemons()["raylet"])  # what it had fetched for its jobs lies in its folder still
    p.manta("stop", "--purge")
    equal(list(p.base.rglob("*")), [])


def told_to_end(p):
    """SIGTERM, to the daemon or to its keeper: that was meant."""
    p.manta("start", "--head", "--num-cpus", "1")
    os.kill(p.daemons()["raylet"], signal.SIGTERM)
    head = {p.daemons()["head"], p.daemons(which="keeper")["head"]}
    wait_until(lambda: set(p.processes()) == head, "raylet and keeper end")
    os.kill(p.daemons(which="keeper")["head"], signal.SIGTERM)
    wait_until(lambda: not p.processes(), "head and keeper end")
    has("ended already", p.manta("stop"))


def cannot_come_back(p):
    """A head that dies again and again is tried on, until what it lacks is there, or until it is stopped."""
    (p.root / "good").mkdir(mode=0o700)
    (p.root / "bad").mkdir()
    (p.root / "bad/state").write_text("no folder\n")

    def disk(which):
        """In one step: the head is tried on meanwhile, and would make a folder where it finds nothing."""
        (p.root / "next").symlink_to(which)
        (p.root / "next").replace(p.root / "disk")

    disk("good")
    p.manta("start", "--head", "--num-cpus", "1", "--state", p.root / "disk/state")
    for is_mended in (True, False):
        disk("bad")
        kill(p.daemons()["head"])
        tries = 2 if is_mended else 1  # the pauses are long by then
        wait_until(lambda: (p.folder / "head.log").read_text().count('why="ended with status 1"') >= tries, "it is tried again")
        wait_until(lambda: "ended with status 1\n" in (p.folder / "daemons/head").read_text(), "and the record says so")
        p.manta("status", want=1)
        has("ended with status 1)", p.errors)
        if is_mended:
            disk("good")
            wait_until(lambda: "daemon_again" in (p.folder / "head.log").read_text(), "it comes back")
            wait_until(lambda: "nodes alive: 1" in answer(p), "its raylet finds it")
            (p.folder / "head.log").write_text("")
    has("Nothing is left", p.manta("stop"))
    equal(p.processes(), [])


def answer(p):
    try:
        return p.manta("healthcheck")
    except AssertionError:
        return ""


def first_start_fails(p):
    """Who starts it is told at once, and nobody tries on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        p.manta("start", "--head", "--port", taken.getsockname()[1], want=1)
    has("manta-head has ended at once", p.errors)
    has("can't listen", p.errors)
    equal(p.processes(), [])
    p.manta("start", "--head", "--cgroup", "/nowhere", want=1)
    has("manta-raylet has ended at once", p.errors)
    has("/nowhere", p.errors)
    wait_until(lambda: not p.processes(), "the head ends, since its raylet did not start")
    has("Nothing to stop", p.manta("stop"))
    shutil.rmtree(p.folder)


def pauses(p):
    """Each death in a row doubles the pause, and every one is in the log; the record is whole."""
    p.manta("start", "--head", "--num-cpus", "1")
    for _ in range(4):
        kill_and_wait(p, "head")
    told = re.findall(r"restart_in_ms=(\d+) restarts=(\d+)", (p.folder / "head.log").read_text())
    equal(told, [("100", "0"), ("200", "1"), ("400", "2"), ("800", "3")])
    wait_until(lambda: "nodes alive: 1" in answer(p), "the raylet finds it each time")
    equal(daemon(p, "head")["restarts"], 4)
    p.manta("stop")


def log_is_bounded(p):
    """What a daemon's log has over its limit moves to one file beside it; daemon and keeper go on in the first, nothing in between is
    lost, and `manta stop` takes both."""
    p.manta("start", "--head", "--num-cpus", "1", "--log-max", 65535, want=2)
    has("--log-max", p.errors)
    p.manta("start", "--head", "--num-cpus", "1", "--log-max", 65536)
    log, older = p.folder / "raylet.log", p.folder / "raylet.log.1"
    for part in ("first", "second"):
        before = log.read_text()
        lines = "".join(f"{part} {i} {'x' * 60}\n" for i in range(1000))
        with open(log, "ab", buffering=0) as out:
            out.write(lines.encode())  # at once: the daemon may write a line of its own before it and after it, not in it
        wait_until(lambda: older.exists() and f"{part} 999 " in older.read_text() and log.stat().st_size < 65536, "it begins anew")
        kept = older.read_text()
        check(kept.startswith(before) and lines in kept, f"lines are lost, or stand in another order: {kept[:len(before) + 500]}")
    equal(older.stat().st_mode & 0o777, 0o600)
    kill_and_wait(p, "raylet")
    has("daemon_died daemon=manta-raylet", log.read_text())
    has("Nothing is left", p.manta("stop"))


if __name__ == "__main__":
    results = [run_case(name, globals()) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
