#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# watch_test.py BIN SCENE CASE... - seeing what a cluster does: list, get, summary, memory, timeline, as users type them.
# SCENE is a driver that sets up what is to be seen (scene.c).
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from cli_test import WAIT_S, check, equal, has, run_case, wait_until  # noqa: E402

SCENE = pathlib.Path(sys.argv[2]).resolve()
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


class Scene:
    """The driver, until `end`."""

    def __init__(self, place, *words, env=None):
        more = {"MANTA_ADDRESS": str(place.folder)} | (env or {})
        self.process = subprocess.Popen([SCENE, *map(str, words)], env=place.env | more, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.before = []
        for line in self.process.stdout:
            if line == "ready\n":
                return
            self.before.append(line)
        raise AssertionError(f"the scene ended: {self.process.stderr.read()}")

    def leave(self):
        """It may end."""
        self.process.stdin.close()
        self.process.stdin = None

    def end(self):
        out, err = self.process.communicate(timeout=WAIT_S)
        equal(self.process.returncode, 0, err)
        return out, err


def one(rows, **wanted):
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    equal(len(found), 1, f"{wanted} in {rows}")
    return found[0]


def tasks(p):
    p.manta("start", "--head", "--num-cpus", "2", "--num-gpus", "1", "--node-name", "here")
    release = p.root / "release"
    scene = Scene(p, "mixed", release)
    wait_until(lambda: p.json("list", "tasks", "--filter", "state=RUNNING"), "the one that has the GPU runs")
    rows = p.json("list", "tasks")
    adds = [r for r in rows if r["name"] == "add" and r["state"] == "FINISHED"]
    equal(len(adds), 20)
    for r in adds:
        check(r["started"] <= r["ended"] and r["submitted"][:4] == r["started"][:4] and r["pid"] > 0 and r["node"] == 1, r)
    equal(one(rows, name="fail")["error"], "ETASK")
    died = one(rows, name="die")
    equal((died["state"], died["error"]), ("FAILED", "EWORKER_DIED"))
    running = one(rows, name="wait_for_file", state="RUNNING")
    check(running["seconds"] >= 0 and running["ended"] is None, running)
    wait_until(lambda: p.json("list", "tasks", "--filter", "state=PENDING_NODE_ASSIGNMENT"), "it is seen that it needs a GPU")
    waiting = one(p.json("list", "tasks"), name="wait_for_file", state="PENDING_NODE_ASSIGNMENT")
    has("GPU:1 is wanted, node 1 has 0 of 1 free", waiting["why"])
    child = one(rows, name="add", state="PENDING_ARGS_AVAIL")
    equal(len(listed(p)), len(p.json("list", "tasks")))
    has("argument 1", child["why"])
    has("task wait_for_file", child["why"])
    for call in ("tally.create", "tally.add"):  # of two actors
        equal([r["state"] for r in rows if r["name"] == call], ["FINISHED"] * 2)
    # filters, limits, single things
    equal(len(p.json("list", "tasks", "--filter", "name=add", "--filter", "state=FINISHED")), 20)
    equal({r["name"] for r in p.json("list", "tasks", "--filter", "state=FAILED")}, {"fail", "die"})
    equal(len(p.json("list", "tasks", "--filter", f"pid={running['pid']}", "--filter", "state!=FINISHED")), 1)
    equal(len(p.json("list", "tasks", "--limit", "7")), 7)
    p.manta("list", "tasks", "--limit", "7")
    has("only the first 7", p.errors)
    equal(p.json("get", "tasks", running["task"])[0]["pid"], running["pid"])
    has("PENDING_ARGS_AVAIL", p.manta("get", "tasks", child["task"]))
    p.manta("get", "tasks", "ffffffffffffffff-000000000001-0000", want=1)
    p.manta("list", "tasks", "--filter", "colour=red", want=1)
    has("no such key", p.errors)
    p.manta("list", "tasks", "--filter", "nothing", want=2)
    p.manta("list", "tasks", "--limit", "many", want=2)
    # summaries, actors, workers, objects
    counts = {r["name"]: r["by_state"] for r in p.json("summary", "tasks")}
    equal(counts["add"], {"FINISHED": 20, "PENDING_ARGS_AVAIL": 1})
    equal(counts["wait_for_file"], {"RUNNING": 1, "PENDING_NODE_ASSIGNMENT": 1})
    actor = one(p.json("list", "actors"), name="counts")
    equal(one(p.json("list", "actors"), name='a "quote", a \\, ü')["state"], "ALIVE")
    equal((actor["name"], actor["state"], actor["restarts"], actor["node"]), ("counts", "ALIVE", 0, 1))
    workers = p.json("list", "workers")
    equal(one(workers, role="driver")["pid"], scene.process.pid)
    equal(len([w for w in workers if w["state"] == "ACTOR" and w["pid"] == actor["pid"]]), 1)
    equal(one(workers, pid=running["pid"])["running"], "wait_for_file")
    check(one(workers, pid=running["pid"])["rss"] > 100000, workers)
    ended = p.json("list", "workers", "--filter", "state=ENDED")
    check(died["pid"] in [w["pid"] for w in ended], ended)
    put = one(p.json("list", "objects"), size=1 << 20)
    equal((put["owner_pid"], put["pins"], put["pinned_by"]), (scene.process.pid, 1, str(scene.process.pid)))
    has("1 objects, 1048576 bytes, 1 pins", p.manta("memory"))
    equal(p.json("list", "nodes", "--filter", "name=here")[0]["node"], 1)
    equal(p.json("list", "nodes", "--filter", "name=there"), [])
    equal(p.json("list", "jobs"), [])
    status = p.manta("status")
    has("GiB object store", status)
    has("GPU:1: 1 pending", status)
    release.write_text("")
    wait_until(lambda: not p.json("list", "tasks", "--filter", "state=RUNNING"), "all tasks end")
    scene.end()
    wait_until(lambda: p.json("list", "actors") == [], "actors end with their driver")
    check(len(p.json("list", "tasks", "--filter", "state=FINISHED")) >= 24, "history outlives the driver")
    p.manta("stop")


def two_nodes(p):
    second = p.base / "n2"
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "n1")
    p.manta("start", "--address", p.folder, "--dir", second, "--node-name", "n2", "--num-cpus", "1")
    scene = Scene(p, "nested")
    rows = p.json("list", "tasks", "--filter", "state=FINISHED")
    equal(len([r for r in rows if r["name"] == "parent"]), 10)
    equal(len([r for r in rows if r["name"] == "add"]), 10)
    equal(len({r["task"] for r in rows}), 20)
    equal({w["node"] for w in p.json("list", "workers")} - {1, 2}, set())
    scene.end()
    p.manta("stop", "--dir", second)
    wait_until(lambda: p.json("list", "nodes")[1]["state"] != "ALIVE", "the second node is known to be gone")
    p.manta("list", "tasks")  # of what is left
    p.manta("stop")


def timeline(p):
    p.manta("start", "--head", "--num-cpus", "2")
    scene = Scene(p, "nested")
    path = p.root / "trace.json"
    has("20 tasks, 20 arrows", p.manta("timeline", path))
    trace = json.loads(path.read_text())["traceEvents"]
    slices = [e for e in trace if e["ph"] == "X" and e["cat"] == "task"]
    equal(sorted({e["name"] for e in slices}), ["add", "parent"])
    begins, ends = ({e["id"]: e for e in trace if e["ph"] == ph} for ph in "sf")
    equal(len(begins), 20)
    equal(begins.keys(), ends.keys())
    for key, end in ends.items():
        begin = begins[key]
        check(begin["ts"] <= end["ts"], f"{key} runs before it is submitted")
        for event in (begin, end):  # an arrow that is not inside a slice is not drawn
            check([e for e in trace if e["ph"] == "X" and (e["pid"], e["tid"]) == (event["pid"], event["tid"])
                   and e["ts"] <= event["ts"] <= e["ts"] + e["dur"]], f"{key}: no slice there")
    children = [e for e in trace if e["ph"] == "s" and e["tid"] != scene.process.pid]
    equal(len(children), 10, "arrows begin at the parents' workers")
    named = {(e["pid"], e["tid"]) for e in trace if e["ph"] == "M" and e["name"] == "thread_name"}
    check({(e["pid"], e["tid"]) for e in slices} <= named, "every track has a name")
    equal(json.loads(p.manta("timeline", "-"))["displayTimeUnit"], "ns")
    p.manta("timeline", p.root / "no" / "folder", want=1)
    scene.end()
    p.manta("stop")


def stacks(p):
    p.manta("start", "--head", "--num-cpus", "2")
    release = p.root / "release"
    scene = Scene(p, "busy", release)
    wait_until(lambda: len(p.json("list", "tasks", "--filter", "state=RUNNING")) == 2, "both tasks run")
    wait_until(lambda: "spin_here" in one(p.json("stack"), running="spin")["stack"], "it spins")
    everyone = p.json("stack")
    has("spin_here", one(everyone, running="spin")["stack"])
    wait_until(lambda: one(p.json("stack"), running="wait_for_file")["waits_in"], "the other one is seen asleep")
    equal(one(everyone, role="driver")["pid"], scene.process.pid)
    pid = one(everyone, running="spin")["pid"]
    for _ in range(20):  # however often: nothing is disturbed
        has("spin_here", p.manta("stack", pid))
        equal(len(p.json("stack", pid)), 1)
    os.kill(pid, signal.SIGSTOP)  # one that gets no CPU for a while tells later
    wakes = threading.Timer(0.6, os.kill, (pid, signal.SIGCONT))
    wakes.start()
    has("spin_here", p.manta("stack", pid))
    wakes.join()
    p.manta("stack", "1", want=1)
    has("no node has a process 1", p.errors)
    release.write_text("")
    scene.end()
    equal(p.json("list", "tasks", "--filter", "state=FAILED"), [])
    p.manta("stop")


def output(p):
    p.manta("start", "--head", "--num-cpus", "4")
    # alike lines of several workers: one with its worker's name, and a count of the others
    scene = Scene(p, "print", "all say 7", 1, 4, env={"MANTA_LOG_TO_DRIVER": "1"})
    lines = scene.end()[1].splitlines()
    for line in lines:
        check(re.fullmatch(r"\(say pid=\d+, node=1\) all say 7( \[repeated \d+x across workers\])?", line), line)
    counts = [int(n) for n in re.findall(r"repeated (\d+)x", "\n".join(lines))]
    equal(len(lines) - len(counts) + sum(counts), 4, lines)
    check(counts, lines)  # of other workers only the number is shown, but of one that is late by more than 5 s
    check(len({re.search(r"pid=(\d+)", line)[1] for line in lines}) <= len(lines) - len(counts), lines)
    # nobody asked: the library prints nothing
    equal(Scene(p, "print", "quiet", 1, 2).end()[1], "")
    equal(Scene(p, "print", "quiet", 1, 2, env={"MANTA_LOG_TO_DRIVER": "0"}).end()[1], "")
    wrong = subprocess.run([SCENE], env=p.env | {"MANTA_ADDRESS": str(p.folder), "MANTA_LOG_TO_DRIVER": "maybe"},
                           capture_output=True, text=True, timeout=WAIT_S)
    equal(wrong.returncode, 1)
    has("MANTA_LOG_TO_DRIVER", wrong.stderr)
    # a submitted job's log has it too
    log = p.manta("submit", "-f", "--", SCENE, "print", "from a job", 1, 1)
    check(re.search(r"\(say pid=\d+, node=1\) from a job", log), log)
    p.manta("stop")


def last_lines(p):
    """A driver that leaves right behind its task, while its raylet gets no CPU, misses nothing."""
    p.manta("start", "--head", "--num-cpus", "1")
    for _ in range(3):
        release = p.root / "release"
        scene = Scene(p, "last", release, "that was all", env={"MANTA_LOG_TO_DRIVER": "1"})
        wait_until(lambda: p.json("list", "tasks", "--filter", "state=RUNNING"), "the task runs")
        raylet = p.daemons()["raylet"]
        os.kill(raylet, signal.SIGSTOP)
        wakes = threading.Timer(0.5, os.kill, (raylet, signal.SIGCONT))
        wakes.start()
        release.write_text("")
        has("that was all", scene.end()[1])
        wakes.join()
        release.unlink()
    p.manta("stop")


class Frozen:
    """A thread of another process that stands still, while the others of that process go on."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, thread):
        self.thread = thread

    def ask(self, request):
        if LIBC.ptrace(request, self.thread, None, None):
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        try:
            self.ask(self.SEIZE)
        except PermissionError:
            print("no other process may be traced here (not root)")
            sys.exit(77)
        self.ask(self.INTERRUPT)
        os.waitpid(self.thread, self.WALL)

    def __exit__(self, *_):
        self.ask(self.DETACH)


def last_lines_elsewhere(p):
    """The same of a worker on another node, while the thread of its raylet that reads what it prints gets no CPU."""
    second = p.base / "n2"
    p.manta("start", "--head", "--num-cpus", "0", "--node-name", "n1")
    p.manta("start", "--address", p.folder, "--dir", second, "--node-name", "n2", "--num-cpus", "1")
    for _ in range(3):
        release = p.root / "release"
        scene = Scene(p, "last", release, "that was all", env={"MANTA_LOG_TO_DRIVER": "1"})
        wait_until(lambda: p.json("list", "tasks", "--filter", "state=RUNNING"), "the task runs")
        with Frozen(p.daemons(second)["raylet"]):
            release.write_text("")
            scene.leave()
            time.sleep(0.3)
        has("that was all", scene.end()[1])
        release.unlink()
    p.manta("stop", "--dir", second)
    p.manta("stop")


def flood(p):
    p.manta("start", "--head", "--num-cpus", "2")
    # some seconds' worth, and then nothing: however slowly it is printed, a second has too much
    scene = Scene(p, "print", "x" * 1000, 5000, 1, env={"MANTA_LOG_TO_DRIVER": "1"})
    check(any("lines are dropped" in line for line in scene.process.stderr), "it is said, at once")
    scene.end()
    scene = Scene(p, "print", "x" * 1000, 1000000, 1, env={"MANTA_LOG_TO_DRIVER": "1"})  # 1 GB
    raylet = p.daemons()["raylet"]
    rss = int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{raylet}/status").read_text())[1])
    check(rss < 200 * 1024, f"the raylet took {rss} KiB")
    check(any("lines are dropped" in line for line in scene.process.stderr), "it is said")
    err = scene.end()[1]
    check(len(err) < 100 << 20, f"{len(err)} bytes were printed")
    check(sum(path.stat().st_size for path in p.base.rglob("*.log")) < 1 << 20, "logs on the disk grow with the flood")
    p.manta("stop")


def groups(p):
    p.manta("start", "--head", "--num-cpus", "2")
    scene = Scene(p, "groups")
    rows = p.json("list", "placement-groups")
    equal(len(rows), 3)
    standing = one(rows, name="standing")
    equal((standing["state"], standing["strategy"], standing["namespace"]), ("CREATED", "STRICT_PACK", "default"))
    equal(standing["bundles"], "{CPU: 1}@1 {CPU: 0.5, memory: 1048576}@1")
    equal(one(rows, state="PENDING")["bundles"], "{CPU: 2}@-")
    has("bundle 1 of 1", one(rows, state="INFEASIBLE")["reason"])
    equal(len(p.json("list", "placement-groups", "--filter", "state!=CREATED")), 2)
    equal(len(p.json("list", "placement-groups", "--filter", "name=standing")), 1)
    p.manta("list", "placement-groups", "--filter", "colour=red", want=1)
    has("colour=red", p.errors)
    equal(one(p.json("get", "placement-groups", standing["group"]), name="standing")["state"], "CREATED")
    wait_until(lambda: p.json("status")["nodes"][0]["reserved"] == {"CPU": 1.5, "memory": 1048576}, "its node has told what is reserved")
    has("(1.5 reserved in placement groups)", p.manta("status"))
    scene.end()
    wait_until(lambda: p.json("list", "placement-groups") == [], "groups go with their job")
    p.manta("stop")


def filters(p):
    """A value that no row can have is refused, whether there are rows or not."""
    p.manta("start", "--head", "--num-cpus", "1")
    for kind, words, want, said in (
            ("tasks", "state=runing", 1, 'no state of tasks is "runing"; did you mean RUNNING? There are PENDING_ARGS_AVAIL, '),
            ("tasks", "state!=running", 1, "did you mean RUNNING?"),
            ("actors", "state=GONE", 1, 'no state of actors is "GONE"; there are PENDING_CREATION, ALIVE, RESTARTING and DEAD'),
            ("workers", "state=BUSY", 1, 'no state of workers is "BUSY"; there are STARTING, '),
            ("workers", "role=drivers", 1, 'no role of workers is "drivers"; did you mean driver?'),
            ("objects", "kind=spiled", 1, "did you mean spilled? There are value, copy and spilled"),
            ("placement-groups", "colour=red", 1, 'the filter "colour=red" is no column=value'),
            ("placement-groups", "state=DONE", 1, 'no state of placement groups is "DONE"; there are PENDING, INFEASIBLE, CREATED and'),
            ("placement-groups", "strategy=pack", 1, "did you mean PACK? There are PACK, SPREAD, STRICT_PACK and STRICT_SPREAD"),
            ("placement-groups", "detached=true", 1, "there are yes and no"),
            ("jobs", "colour=red", 2, "there is no such key"),
            ("jobs", "state=DONE", 2, '--filter "state=DONE": no state is so; there are PENDING, RUNNING, STOPPED, SUCCEEDED and FAILED'),
            ("jobs", "held=true", 2, "there are yes and no"),
            ("nodes", "state=alive", 2, "did you mean ALIVE? There are ALIVE, SUSPECT, DRAINING, LEFT and DEAD")):
        p.manta("list", kind, "--filter", words, want=want)
        has(said, p.errors)
    p.manta("stack", "--filter", "state=BUSY", want=1)
    has('no state of stacks is "BUSY"', p.errors)
    for kind, words, rows in (("tasks", "state=RUNNING", 0), ("workers", "role=zygote", 0), ("objects", "kind!=copy", 0),
                              ("placement-groups", "state=CREATED", 0), ("jobs", "state=FAILED", 0), ("jobs", "held=no", 0),
                              ("jobs", "deadline=", 0), ("nodes", "state=ALIVE", 1)):
        equal(len(p.json("list", kind, "--filter", words)), rows)
    p.manta("stop")


def listed(p, *words):
    """Tasks as JSON, whose text is what a program would make of them, to the byte."""
    text = p.manta("list", "tasks", *words, "-o", "json")
    rows = json.loads(text)
    seconds = iter(re.findall(r'"seconds": ([0-9]+\.[0-9]{9})\n', text))
    equal(text, re.sub(r'"seconds": [-0-9.e]+', lambda _: '"seconds": ' + next(seconds), json.dumps(rows, indent=2)) + "\n")
    return rows


def pages(p):
    """Lists of several pages: each task once, the newest first, whatever is printed before the rest has come."""
    p.manta("start", "--head", "--num-cpus", "1")
    release = p.root / "release"
    for file, running in ("-", 0), (release, 1):
        scene = Scene(p, "many", 25000, file)
        if running:
            wait_until(lambda: p.json("list", "tasks", "--filter", "state=RUNNING"), "it runs")
        owner = "owner=" + p.json("list", "workers", "--filter", f"pid={scene.process.pid}")[0]["process"]
        rows = listed(p, "--limit", "1000000", "--filter", owner)
        equal(len(rows), 25000 + running)
        equal([r["state"] for r in rows], ["RUNNING"] * running + ["FINISHED"] * 25000)
        equal(len({r["task"] for r in rows}), len(rows))
        ids = [r["task"] for r in rows[running:]]
        equal(ids, sorted(ids, reverse=True))
        for limit in 1, 7710, 7711, 25000 + running:
            equal(len(listed(p, "--limit", str(limit), "--filter", owner)), limit)
        equal(len(listed(p, "--limit", "30000", "--filter", "name=nobody")), 0)
        if running:
            release.touch()
        scene.end()
    p.manta("stop")


def no_events(p):
    env = {"MANTA_EVENTS": "0"}
    p.manta("start", "--head", "--num-cpus", "2", env=env)
    scene = Scene(p, "nested", env=env)
    equal(p.json("list", "tasks"), [])
    p.manta("list", "tasks")
    has("MANTA_EVENTS is 0", p.errors)
    scene.end()
    p.manta("stop")
    p.manta("start", "--head", env={"MANTA_EVENTS": "many"}, want=1)
    has("MANTA_EVENTS", p.errors)
    wait_until(lambda: not p.processes(), "the head ends, since its raylet did not start")
    shutil.rmtree(p.folder)


if __name__ == "__main__":
    results = [run_case(name, globals()) for name in sys.argv[3:]]
    sys.exit(0 if all(results) else 1)
