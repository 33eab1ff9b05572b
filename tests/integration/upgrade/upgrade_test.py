#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# upgrade_test.py BIN OTHERS CASE... - clusters of two releases. BIN is this release's folder of programs; OTHERS has those of "next", which
# speaks this one's version and one more, and of "after", which does not any more (CMakeLists.txt).
# upgrade_test.py BIN OTHERS before_ranges OLD - OLD is the bin folder of release 0.1.0 (scripts/upgrade.sh).
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from cli_test import BIN, CALL_S, check, equal, has, run_case, wait_until  # noqa: E402

OTHERS = pathlib.Path(sys.argv[2]).resolve()
NEXT, AFTER = OTHERS / "next/bin", OTHERS / "after/bin"
LOAD = OTHERS / "upgrade_load"


def manta(p, release, *words, at=None, want=0):
    """The program of that release, about the cluster at `at`. What it printed, and its complaints."""
    env = p.env | ({"MANTA_ADDRESS": str(at)} if at else {}) | ({"MANTA_TOKEN_FILE": str(p.root / "token")} if ":" in str(at) else {})
    done = subprocess.run([release / "manta", *map(str, words)], env=env, cwd=p.root, timeout=CALL_S, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    equal(done.returncode, want, f"from {release.parent.name}'s manta {words}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def folder(p, name):
    return p.base / name


def log(p, name, daemon):
    """`manta stop` keeps it in logs/."""
    return "".join(path.read_text(errors="replace") for path in folder(p, name).rglob(f"{daemon}*.log"))


def start(p, release, name, *words, cpus=2, want=0):
    """A machine's daemons, in a folder of that name."""
    return manta(p, release, "start", "--dir", folder(p, name), "--node-name", name, "--num-cpus", cpus, "--store-memory", 1 << 26, *words,
                 want=want)


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Redis:
    """A server that keeps what it acknowledges, on a private socket."""

    def __init__(self, p):
        tool = shutil.which("redis-server")
        if not tool:
            print("skipped: no redis-server (Debian's package redis-server)")
            sys.exit(77)
        self.socket = p.root / "redis"
        self.url = f"redis+unix://{self.socket}?cluster=up"
        self.process = subprocess.Popen([tool, "--port", "0", "--unixsocket", self.socket, "--dir", p.root, "--save", "", "--appendonly",
                                         "yes", "--appendfsync", "always"], env=p.env, stdout=subprocess.DEVNULL,
                                        preexec_fn=dies_with_us)
        wait_until(self.answers, "redis-server starts")

    def answers(self):
        with socket.socket(socket.AF_UNIX) as one:
            return one.connect_ex(str(self.socket)) == 0

    def end(self):
        self.process.kill()
        self.process.wait()


class Load:
    """A driver that works until it is told to end."""

    def __init__(self, p, at):
        self.process = subprocess.Popen([LOAD, at], env=p.env, cwd=p.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, preexec_fn=dies_with_us)
        said = self.process.stdout.readline()
        equal(said, "ready\n", self.process.stderr.read() if said != "ready\n" else "")

    def end(self):
        out, errors = self.process.communicate(timeout=CALL_S)
        equal(self.process.returncode, 0, errors)
        return json.loads(out), errors


def status(p, release, at):
    return json.loads(manta(p, release, "status", "-o", "json", at=at))


def address(p, name):
    """Of the head of that folder."""
    return (folder(p, name) / "head.addr").read_text().splitlines()[0]


def hand_over(p, release, at, to):
    """The lead, to the head of that folder. One that does not come to take it within 3 s is asked once more: the old one leads again."""
    def leads():
        told = status(p, release, at)
        if told["standbys"] == address(p, to):
            manta(p, release, "head", "step-down", at=at)
        return told["address"] == address(p, to)

    wait_until(leads, f"the head of {to} stands by, and leads")


def leave(p, release, at, name):
    """The node of that folder, and then the rest of its machine."""
    manta(p, release, "drain", name, at=at)
    wait_until(lambda: all(n["state"] in ("LEFT", "DEAD") for n in json.loads(manta(p, release, "list", "nodes", "-o", "json", at=at))
                           if n["name"] == name), f"{name} leaves")


# ---- cases ----
def under_load(p):
    """To the next release and back, machine by machine: nothing fails, nothing is lost."""
    redis, begun = Redis(p), time.monotonic()
    start(p, BIN, "m0", "--head", "--store", redis.url)
    start(p, BIN, "driver", "--address", folder(p, "m0"), cpus=0)
    shutil.copy(folder(p, "m0") / "token", p.root / "token")
    load = Load(p, folder(p, "driver"))
    time.sleep(float(os.environ.get("MANTA_UPGRADE_S", 1)))
    for step, (old, new, gone, name) in enumerate(((BIN, NEXT, "m0", "m1"), (NEXT, BIN, "m1", "m2"))):
        start(p, new, name, "--head", "--standby", "--store", redis.url, "--token-file", p.root / "token")
        at = f"{address(p, gone)},{address(p, name)}"
        hand_over(p, old, at, name)
        leave(p, new, at, gone)
        manta(p, old, "stop", "--dir", folder(p, gone))
        equal(load.process.poll(), None, "the load has ended")
        time.sleep(float(os.environ.get("MANTA_UPGRADE_S", 1)))
    told, errors = load.end()
    said = log(p, "m1", "head")
    check(re.search(r"node_registered .*name=m1 .*version=3\n", said), said)
    check(re.search(r"node_registered .*name=driver .*version=2\n", said), said)
    equal(told["failures"], 0, errors)
    check(told["calls"] > 0 and told["groups"] > 0, told)
    print(f"upgrade: {told | {'seconds': round(time.monotonic() - begun, 1)}}")
    manta(p, BIN, "stop", "--dir", folder(p, "driver"))
    manta(p, BIN, "stop", "--dir", folder(p, "m2"))
    redis.end()


def stopped(p):
    """`manta stop` of a machine of a cluster that goes on: what runs there goes on elsewhere, with its state, and nothing fails."""
    start(p, BIN, "m0", "--head", cpus=0)
    for name in ("m1", "m2"):
        start(p, BIN, name, "--address", folder(p, "m0"))
    load = Load(p, folder(p, "m0"))
    for name in ("m1", "m2", "m1"):  # one of them has the actor
        manta(p, BIN, "stop", "--dir", folder(p, name))
        start(p, BIN, name, "--address", folder(p, "m0"))
        has('why="drained: terminated"', log(p, name, "raylet"))
    told, errors = load.end()
    equal(told["failures"], 0, errors)
    for name in ("m1", "m2", "m0"):
        manta(p, BIN, "stop", "--dir", folder(p, name))


def raylet(p, release, name, at):
    """The daemon itself, which `manta start` would not have begun: it is refused, ends with 1, and says why."""
    folder(p, name).mkdir(mode=0o700)
    done = subprocess.run([release / "manta-raylet", "--dir", folder(p, name) / "direct", "--head", address(p, at), "--token-file",
                           folder(p, at) / "token", "--num-cpus", "1", "--store-memory", str(1 << 26)], env=p.env, cwd=p.root,
                          timeout=CALL_S, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    shutil.rmtree(folder(p, name))
    equal(done.returncode, 1)
    return done.stdout + done.stderr


def strangers(p):
    """Who has no version in common is refused in words, by whoever hears him first, and nobody who is there suffers."""
    start(p, NEXT, "m0", "--head")
    start(p, BIN, "m1", "--address", folder(p, "m0"))
    text = start(p, AFTER, "m2", "--address", folder(p, "m0"), want=1)
    has("the raylet speaks versions 3 to 4, node 2 (m1) speaks 2 to 2: drain that one first", text + log(p, "m2", "raylet"))
    shutil.rmtree(folder(p, "m2"))  # it is kept for people
    has("m1) speaks 2 to 2: drain that one first", raylet(p, AFTER, "m2", "m0"))
    manta(p, NEXT, "stop", "--dir", folder(p, "m1"))
    start(p, AFTER, "m3", "--address", folder(p, "m0"))
    manta(p, AFTER, "stop", "--dir", folder(p, "m3"))
    manta(p, NEXT, "stop", "--dir", folder(p, "m0"))
    start(p, BIN, "m4", "--head")
    text = manta(p, AFTER, "status", at=folder(p, "m4"), want=1)
    has("the caller speaks versions 3 to 4, this end (release 0.2) speaks 2 to 2", text)
    start(p, BIN, "m5", "--address", folder(p, "m4"))
    wait_until(lambda: [n["state"] for n in json.loads(manta(p, BIN, "list", "nodes", "-o", "json", at=folder(p, "m4")))] == ["ALIVE"] * 2,
               "both are there")
    for name in ("m5", "m4"):
        manta(p, BIN, "stop", "--dir", folder(p, name))


def sign(p):
    db = sqlite3.connect(p.root / "state/state.db")
    found = dict(db.execute("SELECT key, value FROM store WHERE key IN ('schema', 'release')"))
    db.close()
    return found


def once(p, release, name, want=0):
    text = start(p, release, name, "--head", "--state", p.root / "state", want=want)
    if want == 0:
        manta(p, release, "stop", "--dir", folder(p, name))
        return text
    text += log(p, name, "head")
    shutil.rmtree(folder(p, name))  # it is kept for people
    return text


def store(p):
    """A store goes to a later release as long as that reads it, and back as long as the earlier one does."""
    once(p, BIN, "m0")
    equal(sign(p), {"schema": "2", "release": "0.2"})
    db = sqlite3.connect(p.root / "state/state.db")
    db.execute("UPDATE store SET value = '1' WHERE key = 'schema'")  # as 0.1.0 has left it
    db.execute("DELETE FROM store WHERE key = 'release'")
    db.commit()
    db.close()
    has("written by release 0.1.0 and has schema 1; this head (release after) knows 2 to 4: start a release between the two first",
        once(p, AFTER, "m1", want=1))
    once(p, BIN, "m2")
    equal(sign(p), {"schema": "2", "release": "0.2"})
    once(p, NEXT, "m3")
    equal(sign(p), {"schema": "2", "release": "next"})
    once(p, BIN, "m4")
    once(p, AFTER, "m5")
    equal(sign(p), {"schema": "4", "release": "after"})
    has("written by release after and has schema 4; this head (release 0.2) knows 1 to 2: use the release that wrote it or a later one",
        once(p, BIN, "m6", want=1))
    equal(sign(p), {"schema": "4", "release": "after"})
    once(p, AFTER, "m7")


def before_ranges(p):
    """Release 0.1.0 said no range. It and this one refuse each other in words; its store is taken over, and not given back."""
    old = pathlib.Path(sys.argv[4]).resolve()
    start(p, old, "m0", "--head", "--state", p.root / "state")
    manta(p, old, "submit", "--follow", "--", "true", at=folder(p, "m0"))
    has("the other end speaks versions 1 to 1, this program (release 0.2) speaks 2 to 2", manta(p, BIN, "status", at=folder(p, "m0"), want=1))
    has("speaks versions 1 to 1", start(p, BIN, "m1", "--address", folder(p, "m0"), want=1))
    has("use the same release", raylet(p, BIN, "m1", "m0"))
    manta(p, old, "stop", "--dir", folder(p, "m0"))
    start(p, BIN, "m2", "--head", "--state", p.root / "state")
    equal([j["state"] for j in json.loads(manta(p, BIN, "job", "list", "-o", "json", at=folder(p, "m2")))], ["SUCCEEDED"])
    has("the caller speaks versions 1 to 1, this end (release 0.2) speaks 2 to 2", manta(p, old, "status", at=folder(p, "m2"), want=1))
    has("speaks versions 1 to 1", start(p, old, "m3", "--address", folder(p, "m2"), want=1))
    has("the raylet speaks versions 1 to 1, this head (release 0.2) speaks 2 to 2", raylet(p, old, "m3", "m2"))
    manta(p, BIN, "stop", "--dir", folder(p, "m2"))
    equal(sign(p), {"schema": "2", "release": "0.2"})
    has("use the release that wrote it", once(p, old, "m4", want=1))


if __name__ == "__main__":
    sys.exit(0 if run_case(sys.argv[3], globals()) else 1)
