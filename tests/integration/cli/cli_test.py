#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# cli_test.py BIN CASE... - the program `manta` as its users type it. Every case has a runtime folder of its own, and
# fails where it leaves a process or a file.
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from failed import tell_failure  # noqa: E402
from gone import has_gone  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
SLOWER = int(os.environ.get("TEST_SLOWER", 1))  # tests/sanitized.py
WAIT_S = 60 * SLOWER  # longest wait for anything that must happen
CALL_S = 60 * SLOWER  # longest life of one command


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(got, wanted, text=""):
    check(got == wanted, f"{got!r} instead of {wanted!r} {text}")


def has(word, text):
    check(word in text, f"{word!r} is not in: {text}")


class Place:
    """A runtime folder, and the commands run in it."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="mcli."))  # short: it holds unix sockets
        self.base = self.root / "run"
        self.base.mkdir(mode=0o700)
        self.folder = self.base / "manta"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MANTA_") or k == "MANTA_TEST_RUN"}
        self.env |= {"XDG_RUNTIME_DIR": str(self.base), "HOME": str(self.root)}

    def run(self, program, *words, want=0, env=None, cwd=BIN):
        done = subprocess.run([BIN / program, *map(str, words)], env=self.env | (env or {}), cwd=cwd, timeout=CALL_S,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        equal(done.returncode, want, f"from {program} {words}: {done.stdout}{done.stderr}")
        self.errors = done.stderr
        return done.stdout

    def manta(self, *words, **more):
        return self.run("manta", *words, **more)

    def json(self, *words):
        return json.loads(self.manta(*words, "-o", "json"))

    def daemons(self, folder=None, which="daemon"):
        """Name -> pid, as it stands in the records; which="keeper": of their keepers."""
        return {path.name: int(dict(line.split(" ", 1) for line in path.read_text().splitlines())[which].split()[0])
                for path in ((folder or self.folder) / "daemons").iterdir() if path.suffix != ".new"}

    def kill(self, name):
        """With its keeper: nobody starts it again."""
        for which in ("keeper", "daemon"):
            kill(self.daemons(which=which)[name])

    def processes(self):
        """Pids of all that runs with this runtime folder."""
        mark = f"XDG_RUNTIME_DIR={self.base}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
            except OSError:
                continue
        return found

    def left(self):
        """What should not be there after a cluster's end: anything but the logs that `manta stop` keeps."""
        kept = [path.parent for path in self.base.rglob("*.log") if path.parent.name == "logs"]
        fine = {*kept, *(path.parent for path in kept)}
        files = [path for path in self.base.rglob("*") if path not in fine and path.parent not in kept]
        return [f"process {pid}" for pid in self.processes()] + [f"file {path}" for path in files]

    def close(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it may end while it is looked at
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)


def wait_until(condition, text, seconds=None):
    end = time.monotonic() + (seconds or WAIT_S)
    while not condition():
        check(time.monotonic() < end, f"this did not happen: {text}")
        time.sleep(0.02)


def is_written(path, text=None):
    """Whether a whole line stands there (or the text): a file that is there may still be empty."""
    written = path.read_text() if path.exists() else ""
    return written == text if text else written.endswith("\n")


def kill(pid):
    check(pid > 0, "it is about to be started again")
    os.kill(pid, signal.SIGKILL)
    check(has_gone(pid, WAIT_S), f"process {pid} does not end")


# ---- cases ----
def words(p):
    overview = p.manta("--help")
    for verb in ("start", "stop", "status", "submit", "job list", "job logs", "list nodes", "healthcheck", "bench", "version"):
        has(f"  {verb} ", overview)
        has(f"usage: manta {verb}", p.manta("help", *verb.split()))
    equal(p.manta("help"), overview)
    has("--follow", p.manta("submit", "--help"))
    has("manta ", p.manta("--version"))
    p.manta(want=2)
    p.manta("strat", want=2)
    has("no such verb", p.errors)
    has("Did you mean: manta start?", p.errors)
    p.manta("job", "lst", want=2)
    has("Did you mean: manta job list?", p.errors)
    p.manta("job", want=2)
    has("  job wait ", p.errors)
    check("  start " not in p.errors, p.errors)
    for words in (["job", "--help"], ["help", "job"]):
        has("  job wait ", p.manta(*words))
        check("  start " not in p.manta(*words), "of job alone")
    p.manta("qqqq", want=2)
    check("Did you mean" not in p.errors, p.errors)
    for word, verb in (("logs", "job logs"), ("nodes", "list nodes"), ("wait", "job wait")):
        p.manta(word, "x", want=2)
        has(f"Did you mean: manta {verb}?", p.errors)
    for words, verb in ((["lst", "tasks"], "list tasks"), (["jb", "list", "--limit", "3"], "job list")):
        p.manta(*words, want=2)
        has(f"Did you mean: manta {verb}?", p.errors)
    p.manta("help", "strat", want=2)
    has("Did you mean: manta start?", p.errors)
    has("usage: manta sweep FILE", p.manta("help", "sweep"))
    p.manta("status", "--adress=x", want=2)
    has("did you mean --address?", p.errors)
    p.manta("submit", "--cpus", "1", "--", "true", want=2)
    has("did you mean --num-cpus?", p.errors)
    p.manta("submit", "--json", "--", "true", want=2)
    check("did you mean" not in p.errors, p.errors)
    p.manta("submit", want=2)
    p.manta("job", "wait", want=2)
    p.manta("start", want=2)
    p.manta("start", "--head", "--address", "127.0.0.1:1", want=2)
    p.manta("start", "--head", "--num-cpus", "many", want=2)
    p.manta("start", "--head", "--store-memory", "64MB", want=2)
    has("--store-memory \"64MB\": a number of at least 1048576 is wanted", p.errors)
    for port in ("65536", "-1", "1.5", "http"):
        p.manta("start", "--head", f"--port={port}", want=2)
        has(f"--port \"{port}\": ", p.errors)
    for words, said in ((["--num-gpus", "1.5"], '--num-gpus "1.5": a node has whole GPUs'),
                        (["--num-cpus", "0.0001"], '--num-cpus "0.0001": an amount is 0, or from 0.001 to 1e12'),
                        (["--max-workers", "1.5"], '--max-workers "1.5": a whole number from 1'),
                        (["--job-pids", "100.5"], '--job-pids "100.5": a whole number')):
        p.manta("start", "--head", *words, want=2)
        has(said, p.errors)
    raylet = subprocess.run([BIN / "manta-raylet", "--dir", p.root, "--num-gpus", "1.5"], capture_output=True, text=True, timeout=CALL_S)
    equal(raylet.returncode != 0, True)
    has('GPU "1.5": a node has whole GPUs', raylet.stderr)
    p.manta("start", "--head", "--labels", "zone", want=2)
    has("labels \"zone\": can't be read", p.errors)
    p.manta("start", "--head", "--max-blocked-workers", "0", want=2)
    p.manta("status", "--colour", want=2)
    p.manta("status", "extra", want=2)
    p.manta("status", "-o", "xml", want=2)
    p.manta("submit", "--env", "NAME", "--", "true", want=2)
    p.manta("status", want=1)  # nobody is there
    has("manta start --head", p.errors)
    p.manta("healthcheck", want=1)
    p.manta("healthcheck", "--address", "127.0.0.1:1", want=1)
    has("token", p.errors)
    p.manta("healthcheck", "--address", "127.0.0.1:1", "--token-file", "/nowhere/token", want=1)
    has("/nowhere/token: No such file", p.errors)


def interrupted_start(p):
    """Ctrl-C: a cluster is there as a whole or not at all, whenever it comes."""
    for number, come in enumerate(("", "daemons", "head.log", "daemons/head", "head.addr", "raylet.log", "daemons/raylet", "raylet.sock")):
        folder = p.base / f"run{number}"
        start = subprocess.Popen([BIN / "manta", "start", "--head", "--dir", folder], env=p.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        wait_until(lambda: (folder / come).exists() or start.poll() is not None, f"{come} is there")
        start.send_signal(signal.SIGINT)
        out, err = start.communicate(timeout=CALL_S)
        if start.returncode == 0:  # it was done before
            equal(sorted(p.daemons(folder)), ["head", "raylet"])
            p.manta("stop", "--dir", folder)
            continue
        equal((start.returncode, out), (-signal.SIGINT, ""), err)
        wait_until(lambda: not p.processes(), f"nothing is left of a start that was interrupted when {come} was there")
        equal(p.daemons(folder) if (folder / "daemons").exists() else {}, {})
        shutil.rmtree(folder, ignore_errors=True)


def program_here(p):
    """A program beside the user is not in the job's folder: that is said as it is submitted, and what is said helps."""
    p.manta("start", "--head")
    (p.root / "prog").write_text("#!/bin/sh\necho it runs\n")
    (p.root / "prog").chmod(0o755)
    p.manta("submit", "--follow", "--", "./prog", cwd=p.root, want=127)
    has("manta: ./prog is looked for in the job's own folder: --file ./prog brings it there\n", p.errors)
    equal(p.manta("submit", "--follow", "--file", "./prog", "--", "./prog", cwd=p.root), "it runs\n")
    check("looked for" not in p.errors, p.errors)
    equal(p.manta("submit", "--follow", "--", p.root / "prog", cwd=p.root), "it runs\n")
    check("looked for" not in p.errors, p.errors)
    p.manta("stop")


def not_printed(p):
    """What could not be printed is an error, and goes to no file or socket that has got the number of a closed descriptor."""
    p.manta("start", "--head")
    for words in ("status", "list nodes", "--help", "--version", "help submit", "train --keys", "train --help", "sweep --keys", "sweep list"):
        for to, why in (("/dev/full", "No space left"), ("&-", "Bad file descriptor")):
            done = subprocess.run(["sh", "-c", f'exec "$0" {words} >{to}', BIN / "manta"], env=p.env, timeout=CALL_S, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True)
            equal(done.returncode, 1, f"manta {words} >{to}: {done.stderr}")
            has(f"standard output: {why}", done.stderr)
    p.manta("stop")


def lines_to_copy(p):
    """What `manta start` says to type is what one may type; and of a start that fails it shows that one's words alone."""
    home = p.root / "it's a folder, ü"
    p.manta("start", "--head", "--dir", home, "--node-name", "zwölf")
    head = (home / "head.addr").read_text().splitlines()[0]
    lines = p.manta("start", "--address", home, "--dir", p.root / "a b", "--node-name", "long name")
    env = p.env | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    export = next(line for line in lines.splitlines() if "export" in line)
    look, stop = re.search("Look at it: manta status(.*)[.] End it: (.*)", lines).groups()
    done = subprocess.run(["sh", "-c", f"{export} && manta list nodes {look} && exec manta run -n 1 echo it runs"], env=env, timeout=CALL_S,
                          capture_output=True, text=True)
    has("it runs", done.stdout + done.stderr)
    rows = done.stdout.splitlines()[:3]
    equal(len({re.search("ALIVE|STATE", row).start() for row in rows}), 1, f"columns of {done.stdout}{done.stderr}")
    done = subprocess.run(["sh", "-c", stop], env=env, timeout=CALL_S, capture_output=True, text=True)
    equal(done.returncode, 0, done.stderr)
    two = p.root / "two"
    for name, words in (("first", ["--bind", "192.0.2.1"]), ("second", ["--port", head.rpartition(":")[2]])):
        p.manta("start", "--head", "--dir", two, *words, want=1)
        equal(name == "first", "192.0.2.1" in p.errors, p.errors)
    has("Address already in use", p.errors)
    p.manta("stop", "--dir", home)


def nothing_to_stop(p):
    has("Nothing to stop", p.manta("stop"))
    has("Nothing to stop", p.manta("stop", "--dir", p.root / "elsewhere"))
    check(not (p.root / "elsewhere").exists(), "`manta stop` has made a folder")


def start_and_stop(p):
    out = p.manta("start", "--head", "--num-cpus", "2", "--resources", "gold=3", "--node-name", "n1", "--labels",
                  "zone=a,disk=ssd", "--max-blocked-workers", "9")
    has(f"export MANTA_ADDRESS={p.folder}", out)
    equal(oct(p.folder.stat().st_mode & 0o777), "0o700")
    for path in p.folder.iterdir():
        equal(path.stat().st_mode & 0o077, 0, str(path))
    text = p.manta("status")
    for line in ("Node status\n---", "Healthy:\n 1 n1\n", "Recent failures:\n (no failures)\n", "Resources\n---",
                 "Usage:\n", " 0.0/2.0 CPU\n", " 0.0/3.0 gold\n", "GiB memory\n", "Demands:\n (no resource demands)\n"):
        has(line, text)
    equal("runs as root" in text, os.geteuid() == 0)
    node = p.json("status")["nodes"][0]
    equal((node["name"], node["state"], node["total"]["CPU"], node["free"]["gold"]), ("n1", "ALIVE", 2, 3))
    equal(p.json("list", "nodes")[0]["labels"], "zone=a,disk=ssd")
    has("LABELS", p.manta("list", "nodes"))
    equal(p.json("list", "nodes")[0]["node"], 1)
    check(re.search(r"^1 +n1 +ALIVE ", p.manta("list", "nodes"), re.M), "list nodes")
    has("nodes alive: 1", p.manta("healthcheck"))
    has("EPOCH", p.manta("list", "nodes", "-o", "wide"))
    check("\033" not in p.manta("list", "nodes"), "colours without a terminal")
    has("Nothing is left", p.manta("stop"))
    equal(p.left(), [])
    p.manta("status", want=1)


def kept_logs(p):
    """After the end the daemons' last logs are there: few, small, nobody else's to read; --purge removes them."""
    logs = p.folder / "logs"
    for i in range(6):
        p.manta("start", "--head", "--num-cpus", "1", "--node-name", f"run{i}")
        has(str(logs), p.manta("stop"))
    newest = (logs / "head.1.log").read_text()
    has("head_up", newest)
    has("name=run5", newest)
    has("name=run2", (logs / "head.4.log").read_text())
    equal(sorted(path.name for path in logs.iterdir()), sorted(f"{d}.{i}.log" for d in ("head", "raylet") for i in range(1, 5)))
    equal({path.stat().st_mode & 0o777 for path in logs.iterdir()}, {0o600})
    p.manta("start", "--head", "--num-cpus", "1")
    with open(p.folder / "raylet.log", "ab") as log:
        log.write(b"x" * (5 << 20) + b"the end\n")
    p.kill("raylet")  # this is what somebody will want to read about
    p.manta("stop")
    large = (logs / "raylet.1.log").read_bytes()
    check(len(large) <= 1 << 20, f"{len(large)} bytes of log are kept")
    check(b"xthe end\n" in large, "not its end was kept")  # the raylet may have logged behind it
    has("name=run5", (logs / "head.2.log").read_text())
    p.manta("stop", "--purge")
    equal(list(p.base.rglob("*")), [])
    p.manta("start", "--head", "--num-cpus", "1")
    p.manta("stop", "--purge")
    equal(list(p.base.rglob("*")), [])


def start_twice(p):
    p.manta("start", "--head", "--num-cpus", "1")
    before = p.daemons()
    p.manta("start", "--head", want=1)
    has("already", p.errors)
    equal(p.daemons(), before)
    p.manta("healthcheck")
    p.manta("stop")
    p.manta("start", "--head", "--num-cpus", "1")  # and again, after its end
    p.manta("stop")


def two_at_once(p):
    starts = [subprocess.Popen([BIN / "manta", "start", "--head", "--num-cpus", "1"], env=p.env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT) for _ in range(4)]
    codes = [(start.communicate(timeout=CALL_S), start.returncode)[1] for start in starts]
    equal(sorted(codes), [0, 1, 1, 1])
    equal(len(p.json("list", "nodes")), 1)
    equal(len(p.processes()), 4)  # two daemons, and their keepers
    p.manta("stop")


def submit(p):
    p.manta("start", "--head", "--num-cpus", "2")
    has("add up to 140", p.manta("submit", "--follow", "--name", "hi", "--file", "hello", "--", "./hello"))
    has("SUCCEEDED", p.errors)
    job = p.manta("submit", "--file", "hello", "./hello").strip()  # no "--" is needed
    check(re.fullmatch(r"job-[0-9a-f]{16}", job), f"only the id is printed, not {job!r}")
    p.manta("job", "wait", job)
    info = p.json("job", "status", job)
    equal((info["state"], info["exit_code"], info["node"]), ("SUCCEEDED", 0, 1))
    has("add up to 140", p.manta("job", "logs", job))
    has("add up to 140", p.manta("job", "logs", "--follow", job))
    equal([j["name"] for j in p.json("job", "list")], ["./hello", "hi"])
    check(re.search(rf"^{job} +./hello +admin +SUCCEEDED ", p.manta("job", "list"), re.M), "job list")
    p.manta("stop")


def named_tokens(p):
    """Who has a token of his own does what it is good for, and his name stands at what he did."""
    p.manta("start", "--head", "--num-cpus", "2")
    files = {name: p.root / f"{name}.token" for name in ("ann", "bob", "eve")}
    p.manta("token", "create", "ann", files["ann"], "--rights", "submit")
    equal(files["ann"].stat().st_mode & 0o777, 0o600)
    p.manta("token", "create", "ann", files["eve"], "--rights", "read", want=1)  # two of one name
    has("there is a token of this name that is good", p.errors)
    p.manta("token", "create", "eve", files["ann"], "--rights", "read", want=1)  # nothing is written over
    has("there is such a file already", p.errors)
    files["bob"].touch(mode=0o600)
    files["bob"].write_text(p.manta("token", "create", "bob", "--rights", "read"))
    for words in (["x"], ["x", "--rights", "all"], ["--rights", "read"], ["x", "--rights", "read", "--uses", "2"]):
        p.manta("token", "create", *words, want=2)
    for name in ("a b", "admin", "0123456789abcdef", "-x", "\u00e9"):
        p.manta("token", "create", "--rights", "read", "--", name, want=1)
    ann, bob = ({"MANTA_TOKEN_FILE": str(files[name])} for name in ("ann", "bob"))
    job = p.manta("submit", "--", "/bin/sleep", 600, env=ann).strip()
    other = p.manta("submit", "--", "/bin/sleep", 600).strip()
    has(job, p.manta("job", "list", env=bob))
    equal({j["id"]: j["user"] for j in p.json("job", "list")}, {job: "ann", other: "admin"})
    p.manta("submit", "--", "/bin/true", env=bob, want=1)
    has('the token "bob" is good for read; this needs submit', p.errors)
    for words in (["stop", job], ["delete", job]):
        p.manta("job", *words, env=bob, want=1)
    p.manta("job", "stop", other, env=ann, want=1)
    has(f'job {other} is not of "ann" but of "admin"', p.errors)
    p.manta("token", "list", env=ann, want=1)
    p.manta("drain", 1, env=ann, want=1)
    p.manta("job", "stop", job, env=ann)
    secrets = [files[name].read_bytes().strip() for name in ("ann", "bob")]
    p.manta("token", "revoke", "ann")
    p.manta("job", "list", env=ann, want=1)
    has('the token "ann" was revoked', p.errors)
    equal({t["name"]: (t["state"], t["rights"]) for t in p.json("token", "list")},
          {"ann": ("REVOKED", "submit"), "bob": ("GOOD", "read"), "eve": ("REVOKED", "read")})
    p.manta("token", "revoke", "nobody", want=1)
    for folder, _, names in os.walk(p.folder):  # logs, and what the head keeps
        for path in (pathlib.Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # daemons make files and remove them
                check(not path.is_file() or not any(secret in path.read_bytes() for secret in secrets), f"a token stands in {path}")
    p.manta("stop")


def queue(p):
    """Jobs that wait: in their turn, for each other, and each says why."""
    p.manta("start", "--head", "--num-cpus", "2")
    one = ("--num-cpus", 2)
    first = p.manta("submit", *one, "--name", "first", "--", "/bin/sh", "-c", f"while test ! -e {p.root}/go; do sleep 0.05; done").strip()
    wait_until(lambda: p.json("job", "status", first)["state"] == "RUNNING", "the first job runs")
    log = p.root / "order"
    say = ("/bin/sh", "-c", f'echo "$0" >> {log}')
    low = p.manta("submit", *one, "--priority", -5, "--", *say, "low").strip()
    mid = p.manta("submit", *one, "--", *say, "mid").strip()
    high = p.manta("submit", *one, "--priority", 5, "--", *say, "high").strip()
    after = p.manta("submit", "--dependency", f"afterok:{first}:{high},afterany:{low}", "--", *say, "after").strip()
    held = p.manta("submit", "--hold", "--", *say, "held").strip()
    array = p.manta("submit", "--dependency", f"afterok:{first}", "--array", 3, "--", "/bin/sh", "-c",
                    "echo I am $MANTA_ARRAY_INDEX of $MANTA_ARRAY_COUNT; exit $MANTA_ARRAY_INDEX").strip()
    cleanup = p.manta("submit", "--dependency", f"afternotok:{array}", "--", *say, "cleanup").strip()
    never = p.manta("submit", "--dependency", f"afterok:{array}", "--", *say, "never").strip()
    rows = p.json("queue")
    equal([r["id"] for r in rows],
          [first, high, mid, after, held] + [f"{array}.{i}" for i in range(3)] + [cleanup, never, low], "in the queue")
    why = {r["id"]: r["reason"] for r in rows}
    equal(why[high], f"reserved: starts when job {first} ends; that has no time limit (--time-s)")
    equal(why[mid], "waits for free CPU: wants 2, and node 1, which has most, has 0")
    equal(why[after], f"waits until {first} succeeds")
    equal(why[held], f"is held: manta job release {held}")
    equal(why[cleanup], f"waits until {array} fails")
    has(f"waits until {first} succeeds", p.manta("queue"))
    equal([r["id"] for r in p.json("queue", "--limit", 3)], [first, high, mid])
    has("the first 3 of 11 jobs", p.errors)
    equal([r["id"] for r in p.json("queue", "--filter", f"array={array}", "--limit", 2)], [f"{array}.0", f"{array}.1"])
    for words, text in ((["--dependency", "afterok:nobody"], "there is no such job"), (["--array", 1000000], "at most 10000 jobs"),
                        (["--dependency", "later:x"], "afterok:ID, afterany:ID or afternotok:ID is wanted"),
                        (["--priority", 1001], "-1000 to 1000"), (["--array", "9-0"], "the first index of a range"),
                        (["--array", "1,0-2"], "index 1 twice"), (["--array", "0-9%0"], "how many of them")):
        p.manta("submit", *words, "--", "/bin/true", want=1)
        has(text, p.errors)
    for words in (["--dependency", "afterok"], ["--array", 0], ["--array", 2, "--follow"], ["--priority", "high"],
                  ["--time", "1:00", "--time-s", 60]) + tuple(["--time", t] for t in ("10", "1:60", "1-24", "0:00", "1:2:3:4", "-1", "1m:0")):
        p.manta("submit", *words, "--", "/bin/true", want=2)
    (p.root / "go").touch()
    for job, want in ((after, 0), (cleanup, 0), (f"{array}.2", 2), (never, 1)):
        p.manta("job", "wait", job, want=want)
    has("has not succeeded", p.json("job", "status", never)["reason"])
    p.manta("job", "wait", array, want=1)
    has("of 3 jobs 1 have succeeded, 2 failed, 0 were stopped", p.errors)
    has(f"manta job logs {array}.1", p.errors)
    sums = p.json("job", "status", array)
    equal([sums[key] for key in ("jobs", "pending", "running", "ok", "failed", "forgotten")], [3, 0, 0, 1, 2, 0])
    has("SUCCEEDED", p.manta("job", "status", array))
    equal(p.manta("job", "logs", f"{array}.1"), "I am 1 of 3\n")
    order = log.read_text().split()
    equal([word for word in order if word in ("high", "mid", "low")], ["high", "mid", "low"])
    check("held" not in order and "never" not in order and order.index("after") > order.index("low"), str(order))
    equal([r["id"] for r in p.json("queue")], [held])
    p.manta("job", "release", held)
    p.manta("job", "wait", held)
    p.manta("job", "hold", held, want=1)
    has("only one that waits is held", p.errors)
    # More than a node takes at a time: none is sent in vain. Each has a folder of its own, empty whatever others did in theirs.
    leaves = ('test -z "$(ls -A)" && test "$(stat -c %a .)" = 700 && test "$MANTA_JOB_ATTEMPT" = 1 || '
              '{ ls -Al; stat -c %a .; echo "attempt $MANTA_JOB_ATTEMPT"; exit 9; }; '
              "case $((MANTA_ARRAY_INDEX % 4)) in 1) touch left;; 2) chmod 755 .;; "
              "3) setsid sh -c 'for i in 1 2 3 4 5 6; do echo > late; sleep 0.02; done' >/dev/null 2>&1 & esac")
    many = p.manta("submit", "--array", 150, "--", "/bin/sh", "-c", leaves).strip()
    p.manta("job", "wait", many)
    low = p.manta("submit", *one, "--preemptible", "--", "/bin/sh", "-c", f"echo began >> {p.root}/low; sleep 60").strip()
    wait_until(lambda: is_written(p.root / "low"), "the preemptible job runs")
    urgent = p.manta("submit", *one, "--priority", 1, "--", "/bin/sh", "-c", f"test $(wc -l < {p.root}/low) = 1").strip()
    p.manta("job", "wait", urgent)
    wait_until(lambda: is_written(p.root / "low", "began\n" * 2), "it begins again, without a retry")
    p.manta("job", "stop", low)
    saves = f"trap 'echo saved >> {p.root}/saves; exit 0' TERM; echo began >> {p.root}/saves; sleep 60 & wait"
    low = p.manta("submit", *one, "--preemptible", "--", "/bin/sh", "-c", saves).strip()
    wait_until(lambda: is_written(p.root / "saves"), "the one that saves runs")
    p.manta("submit", *one, "--priority", 1, "--", "/bin/true")
    p.manta("job", "wait", low)  # it ended with 0 when it was to leave: it has done what it was to do
    equal((p.root / "saves").read_text(), "began\nsaved\n")
    # A notice of its own, before its time is up and when it is to make room: it saves, and begins again where it was.
    asks = ("n=0; trap 'echo notice >> saves; exit 1' USR1; trap 'exit 2' TERM; echo began $MANTA_JOB_ATTEMPT >> saves; "
            "while :; do sleep 0.05; done").replace("saves", f"{p.root}/noticed")
    low = p.manta("submit", *one, "--preemptible", "--signal", "USR1@120", "--", "/bin/sh", "-c", asks).strip()
    wait_until(lambda: is_written(p.root / "noticed"), "the one that has a notice runs")
    p.manta("job", "wait", p.manta("submit", *one, "--priority", 1, "--", "/bin/true").strip())
    wait_until(lambda: is_written(p.root / "noticed", "began 1\nnotice\nbegan 2\n"), "it had its notice, and began again")
    p.manta("job", "stop", low)
    p.manta("job", "wait", low, want=2)
    equal((p.root / "noticed").read_text(), "began 1\nnotice\nbegan 2\n", "who stops it for good sends SIGTERM")
    alone = f"mkdir {p.root}/alone && echo $MANTA_ARRAY_INDEX >> {p.root}/indices && sleep 0.1 && rmdir {p.root}/alone"
    odd = p.manta("submit", "--array", "7,1-5:2%1", "--", "/bin/sh", "-c", alone).strip()
    p.manta("job", "wait", odd)  # one after the other: else one of them finds the folder
    equal((p.root / "indices").read_text().split(), ["1", "3", "5", "7"])
    p.manta("job", "logs", "--follow", odd, want=1)
    has(f"{odd} is an array: its jobs are {odd}.1, {odd}.3, {odd}.5, ...", p.errors)
    equal(p.json("job", "status", f"{odd}.5")["state"], "SUCCEEDED")
    # One that has its notice before it can take it, a second after its begin, dies of it, and is tried again.
    timed = p.manta("submit", "--time", "0:31", "--signal", "sigusr1@30", "--retries", 9, "--", "/bin/sh", "-c",
                    asks.replace("exit 1", "exit 0")).strip()
    p.manta("job", "wait", timed)
    equal((p.root / "noticed").read_text().splitlines()[-1], "notice")  # and not the end of its time
    for words, text in ((["--signal", "KILL@5"], "none that nobody can catch"), (["--signal", "USR1@601"], "1 to 600 s before the end"),
                        (["--signal", "USR1@9", "--time-s", 9], "before the job begins"),
                        (["--signal", "USR1@600", "--time", "0:10:00"], "before the job begins")):
        p.manta("submit", *words, "--", "/bin/true", want=1)
        has(text, p.errors)
    for word in ("USR1@", "@9", "USR9", "USR1@soon", "64"):
        p.manta("submit", "--signal", word, "--", "/bin/true", want=2)
    p.manta("stop")


def users(p):
    """Whose jobs come first by weight and by what was used; and what a user may have at a time."""
    p.manta("start", "--head", "--num-cpus", "3")
    of = {}
    for name in ("ann", "bob"):
        p.manta("token", "create", name, p.root / f"{name}.token", "--rights", "submit")
        of[name] = {"MANTA_TOKEN_FILE": str(p.root / f"{name}.token")}
    rows = lambda: {row["user"]: row for row in p.json("user", "list")}
    state = lambda job: p.json("job", "status", job)["state"]
    p.manta("user", "set", "ann", "weight=2", "cpus=2", "waiting=1")
    p.manta("user", "set", "ann", "cpus=none", env=of["ann"], want=1)
    has("this needs admin", p.errors)
    for words, text in ((["gpus=many"], "gpus=N is wanted"), (["colour=red"], "weight=N"),
                        (["cpus=0.0001"], '"cpus=0.0001": cpus=N is wanted, 0 or from 0.001 to 1e12, or cpus=none'),
                        (["weight=0.0001"], '"weight=0.0001": weight=N (0, or 0.001 to 1000000)')):
        p.manta("user", "set", "ann", "weight=7", *words, want=1)
        has(text, p.errors)
    equal((rows()["ann"]["weight"], rows()["ann"]["cpus_max"], rows()["ann"]["gpus_max"]), (2, 2, None))
    p.manta("user", "set", "ann", want=2)
    p.manta("submit", "--num-cpus", 3, "--", "/bin/true", env=of["ann"], want=1)  # it could never run
    has("ann may have 2 CPUs at a time, and this wants 3", p.errors)
    p.manta("user", "set", "bob", "running=0")
    p.manta("submit", "--", "/bin/true", env=of["bob"], want=1)
    has("bob may have 0 running jobs at a time", p.errors)
    p.manta("user", "set", "bob", "running=none")
    first = p.manta("submit", "--num-cpus", 2, "--", "/bin/sleep", 600, env=of["ann"]).strip()
    wait_until(lambda: state(first) == "RUNNING", "ann's first job runs")
    second = p.manta("submit", "--num-cpus", 1, "--", "/bin/sleep", 600, env=of["ann"]).strip()  # there is room, but not for ann
    wait_until(lambda: "waits since ann has 2 of the 2 CPUs" in p.manta("queue"), "the queue says why")
    p.manta("submit", "--", "/bin/true", env=of["ann"], want=1)
    has("ann has 1 jobs that wait, and may have 1", p.errors)
    p.manta("job", "wait", p.manta("submit", "--num-cpus", 1, "--", "/bin/sleep", "0.1", env=of["bob"]).strip())  # nobody waits behind it
    p.manta("user", "set", "ann", "cpus=none", "waiting=none")
    wait_until(lambda: state(second) == "RUNNING", "the bound is gone")
    wait_until(lambda: rows()["ann"]["usage"] > 2 * rows().get("bob", {"usage": 0})["usage"], "what ann has used is counted")
    late = {name: p.manta("submit", "--num-cpus", 3, "--", "/bin/true", env=of[name]).strip() for name in ("ann", "bob")}
    turns = lambda: [row["id"] for row in p.json("queue") if row["id"] in late.values()]
    wait_until(lambda: turns() == [late["bob"], late["ann"]], "bob's comes first, though ann's was there before")
    p.manta("user", "set", "ann", "weight=1000000")
    wait_until(lambda: turns() == [late["ann"], late["bob"]], "what counts is the usage for the weight")
    for job in (first, second):
        p.manta("job", "stop", job)
    for job in late.values():
        p.manta("job", "wait", job)
    has("ann", p.manta("user", "list"))
    p.manta("stop")


def exec_on_a_node(p):
    """A command on the node that is named: its output, its end, signals to it; and nothing of it is left."""
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "first")
    p.manta("start", "--address", p.folder, "--dir", p.base / "two", "--num-cpus", "1", "--node-name", "second")
    wait_until(lambda: sum(n["state"] == "ALIVE" for n in p.json("list", "nodes")) == 2, "two nodes")
    number = {n["name"]: str(n["node"]) for n in p.json("list", "nodes")}
    holder = p.manta("submit", "--num-cpus", 1, "--", "/bin/sleep", 600).strip()  # a full node is no obstacle
    for name, folder in ("first", p.folder), ("second", p.base / "two"):
        equal(p.manta("exec", name, "--", "sh", "-c", "echo $MANTA_ADDRESS; echo err >&2"), f"{folder}\nerr\n")
    equal(p.manta("exec", "--env", "A=1 2", number["second"], "sh", "-c", 'echo "$A"; exit 7', want=7), "1 2\n")
    equal(p.errors, "")
    p.manta("exec", "second", "--", "sh", "-c", "kill -9 $$", want=137)
    has("node second: killed by signal 9", p.errors)
    p.manta("exec", "--time-s", 1, "second", "--", "sleep", "600", want=143)
    has("its time limit of 1000 ms has passed", p.errors)
    equal(len(p.manta("exec", "second", "--", "sh", "-c", "yes | head -n 30000").split()), 30000)
    has("no-such-program", p.manta("exec", "second", "--", "no-such-program", want=127))
    for node, text in ("third", "third: no node has this number or name"), ("77", "there is no node 77"):
        p.manta("exec", node, "--", "true", want=1)
        has(text, p.errors)
    for words in (["second"], ["second", "--"], ["--time-s", "soon", "second", "--", "true"], []):
        p.manta("exec", *words, want=2)
    signals_to_it(p)
    ann = p.root / "ann.token"
    p.manta("token", "create", "ann", ann, "--rights", "submit")
    p.manta("exec", "second", "--", "true", want=1, env={"MANTA_TOKEN_FILE": str(ann)})
    has("needs a token that is good for admin", p.errors)
    equal([j["id"] for j in p.json("job", "list")], [holder])
    p.manta("job", "stop", holder)
    waits = p.manta("submit", "--", "sleep", "600").strip()
    wait_until(lambda: p.json("job", "status", waits)["state"] == "RUNNING", "a job runs")
    leaves = {v: k for k, v in number.items()}[str(p.json("job", "status", waits)["node"])]
    p.manta("drain", leaves)
    p.manta("exec", leaves, "--", "true", want=1)
    has("is being drained: nothing new begins there", p.errors)
    p.manta("job", "stop", waits)
    wait_until(lambda: any(n["state"] in ("LEFT", "DEAD") for n in p.json("list", "nodes")), "it has left")
    p.manta("exec", number[leaves], "--", "true", want=1)
    has(f"node {number[leaves]} has gone", p.errors)
    p.manta("stop", "--dir", p.base / "two")
    p.manta("stop")


def signals_to_it(p):
    """Ctrl-C, and others; and the end of whoever reads what it prints."""
    script = """import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"got int\\n"))
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"got usr1\\n"))
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"bye\\n"), sys.exit(5)))
os.write(1, b"ready\\n")
while True:
    time.sleep(10)
"""
    it = subprocess.Popen([BIN / "manta", "exec", "second", "--", sys.executable, "-c", script], env=p.env, stdout=subprocess.PIPE,
                          text=True)
    for sent, line in ((None, "ready"), (signal.SIGINT, "got int"), (signal.SIGUSR1, "got usr1"), (signal.SIGTERM, "bye")):
        if sent:
            it.send_signal(sent)
        check(select.select([it.stdout], [], [], WAIT_S)[0], f"it does not say {line}")
        equal(it.stdout.readline(), line + "\n")
    equal(it.wait(WAIT_S), 5)
    it = subprocess.Popen([BIN / "manta", "exec", "second", "--", "yes"], env=p.env, stdout=subprocess.PIPE)
    it.stdout.read(10)
    it.stdout.close()
    it.wait(WAIT_S)
    check(it.returncode != 0, "a command that nobody reads goes on")


def account(p):
    """What a job had reserved is told as somebody counts who watches its processes, whoever of head and driver is killed meanwhile."""
    state = p.root / "state"
    p.manta("start", "--head", "--num-cpus", "2", "--state", state)
    p.manta("token", "create", "ann", p.root / "ann.token", "--rights", "submit")
    ann = {"MANTA_TOKEN_FILE": str(p.root / "ann.token")}
    pid, times = p.root / "pid", p.root / "times"
    note = f"date +%s.%N >> {times}"
    begun = time.time()
    job = p.manta("submit", "--num-cpus", "0.5", "--retries", 1, "--file", "hello", "--", "/bin/sh", "-c",
                  f"echo $$ > {pid}; test $MANTA_JOB_ATTEMPT = 2 || exec sleep 1000; {note}; ./hello; {note}; sleep 2; {note}", env=ann).strip()
    wait_until(lambda: is_written(pid), "an attempt runs")
    seen = time.time()
    p.kill("head")
    time.sleep(0.5)
    held = time.time() - seen  # surely: whoever looks may get no CPU for a while, and sees an end later than it was
    kill(int(pid.read_text()))
    p.manta("start", "--head", "--state", state)
    p.manta("job", "wait", job)
    ended = time.time()
    info = p.json("job", "status", job)
    second, tasks_over, over = map(float, times.read_text().split())
    least = 0.5 * (held + over - second) - 0.1
    most = 0.5 * (ended - begun) + 2 * (tasks_over - second)  # and what ./hello's tasks had, of two CPUs
    check(least < info["cpu_s"] < most, f"{info['cpu_s']} CPU-seconds told, {least} to {most} seen")
    equal((info["attempt"], info["gpu_s"], info["cost"]), (2, 0, 0))
    p.manta("job", "delete", job)
    rows = {row["user"]: row for row in p.json("account", "--since", "1d")}
    check(rows["ann"]["cpu_s"] >= info["cpu_s"], f"ann's {rows['ann']} has not {info}")
    equal({row["user"] for row in p.json("account", "--user", "ann", "--by", "day")}, {"ann"})  # at midnight it is of two days
    for words in (["--since", "tomorrow"], ["--by", "week"], ["--since", "2026-13-01"]):
        p.manta("account", *words, want=2)
    has("ann", p.manta("account"))
    p.manta("stop")


def output_of_jobs(p):
    p.manta("start", "--head", "--num-cpus", "1")
    out = p.manta("submit", "-f", "--env", "A=1 2", "--env", "B=", "--", "sh", "-c", 'echo "[$A][$B]"; echo err >&2; exit 7',
                  want=7)
    equal(out, "[1 2][]\nerr\n")
    has("FAILED", p.errors)
    # A name that the node's environment has too stands once: of two, a shell takes the last one and getenv the first.
    words = ["--env", "HOME=/its own", "--env", "A=1", "--env", "A=2", "--env", "MANTA_JOB_ATTEMPT=9"]
    seen = p.manta("submit", "-f", *words, "--", "env").splitlines()
    for name, value in ("HOME", "/its own"), ("A", "2"), ("MANTA_JOB_ATTEMPT", "1"):
        equal([line for line in seen if line.startswith(name + "=")], [f"{name}={value}"])
    big = p.manta("submit", "-f", "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    equal(big, "".join(f"line {i}\n" for i in range(20000)))
    long = p.manta("submit", "--", "sh", "-c", "echo begun; sleep 1000").strip()
    wait_until(lambda: p.manta("job", "logs", long) == "begun\n", "the first line is in the log while the job runs")
    equal(p.json("job", "status", long)["state"], "RUNNING")
    p.manta("job", "wait", long, "--timeout-s", "0.2", want=1)
    has("STOPPED", p.manta("job", "stop", long))
    equal(p.json("job", "status", long)["state"], "STOPPED")
    equal(p.manta("submit", "-f", "--", "echo", "--retries", "2", "--name=x", "--other"), "--retries 2 --name=x --other\n")
    for option in "--retries", "--name":
        has(f"{option} stands behind the command", p.errors)
    check("--other stands" not in p.errors, "a warning of the command's own option")
    folder = p.root / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "text").write_text("text\n")
    equal(p.manta("submit", "-f", "--file", "files", "--", "cat", "files/sub/text", cwd=p.root), "text\n")
    tried = p.manta("submit", "--retries", "2", "-f", "--", "sh", "-c", "echo $MANTA_JOB_ATTEMPT; exit 3", want=3)
    equal(len(tried.split()), 3)
    p.manta("stop")


def shared_object(p):
    p.manta("start", "--head", "--num-cpus", "2")
    objects = BIN.parent / "tests" / "integration" / "env"
    out = p.manta("submit", "--follow", objects / "so_job.so", "once", "more")
    equal(out, "more: 3 and 40 are 43, elsewhere\n")
    shutil.copy(objects / "so_job.so", p.root / "mine.so")
    equal(p.manta("submit", "--follow", "mine.so", cwd=p.root), "mine.so: 1 and 40 are 41, elsewhere\n")
    out = p.manta("submit", "--follow", "mine.so", "unknown", cwd=p.root, want=3)
    has("so_add", out)  # the near name
    out = p.manta("submit", "--follow", objects / "libso_dep.so", want=3)
    has("has no function int manta_main", out)
    (p.root / "text.so").write_text("not one\n")
    has("not an ELF file", p.manta("submit", "--follow", "text.so", cwd=p.root, want=14))
    foreign = bytearray((objects / "so_job.so").read_bytes())
    foreign[18:20] = (22).to_bytes(2, "little")  # IBM S/390
    (p.root / "foreign.so").write_bytes(foreign)
    has("another architecture", p.manta("submit", "--follow", "foreign.so", cwd=p.root, want=14))
    p.manta("submit", "--follow", "none.so", cwd=p.root, want=1)
    has("none.so", p.errors)
    p.manta("stop")


def own_mounts():
    """Whether this process now has mounts of its own, which the programs that it starts see too."""
    libc = ctypes.CDLL(None, use_errno=True)
    return os.getuid() == 0 and libc.unshare(0x00020000) == 0 and libc.mount(b"none", b"/", None, 0x44000, None) == 0


def fill(path):
    """Takes all the room that is left on a file system."""
    with open(path, "wb", buffering=0) as out:
        try:
            while out.write(bytes(4096)):
                pass
        except OSError as e:
            equal(e.errno, errno.ENOSPC)


def full_disk(p):
    """The head's store on a file system of 3 MiB, filled by others: what is new is refused in words, what is there goes on and
    ends, nothing is lost, no daemon ends; with room again all goes on."""
    if not own_mounts():
        sys.exit(77)
    state = p.root / "state"
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "none", state], check=True)
    try:
        p.manta("start", "--head", "--num-cpus", "2", "--state", state / "it")
        before = p.daemons()
        equal(p.manta("submit", "--follow", "--", "echo", "before"), "before\n")
        long = p.manta("submit", "--", "sh", "-c", f"while [ ! -e {p.root}/go ]; do sleep 0.05; done; echo out").strip()
        wait_until(lambda: p.json("job", "status", long)["state"] == "RUNNING", "a job runs")
        accepted = [long]
        loud = p.manta("submit", "--", "sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x").strip()
        p.manta("job", "wait", loud)  # more than there is room for: it ends all the same, ...
        kept = (state / "it/logs" / loud).stat().st_blocks * 512
        check(1 << 20 < kept < 3 << 20, f"{kept} bytes of its output are kept")
        equal(p.manta("submit", "--", "true")[:4], "job-")  # ... and its output has not taken the room of others
        p.manta("job", "logs", loud, want=1)
        has("could not be written", p.errors)
        p.manta("job", "delete", loud)
        wait_until(lambda: not (state / "it/logs" / loud).exists(), "its output goes")
        fill(state / "filler")
        big = p.root / "big"
        big.write_bytes(os.urandom(1 << 20))
        p.manta("submit", "--file", big, "--", "true", want=1)  # no room for the file
        has("full", p.errors.lower())
        refused = 0
        for _ in range(200):  # a few may find room in what was set aside
            one = subprocess.run([BIN / "manta", "submit", "--env", "A=" + "x" * 100000, "--", "true"], env=p.env, cwd=BIN,
                                 capture_output=True, text=True, timeout=CALL_S)
            refused = refused + 1 if one.returncode else 0
            if one.returncode:
                has("disk is full", one.stderr)
            else:
                accepted.append(one.stdout.strip())
            if refused == 5:
                break
        equal(refused, 5)
        (p.root / "go").touch()
        p.manta("job", "wait", long)  # what is there goes on, and ends
        p.manta("list", "nodes")
        equal(p.daemons(), before)
        check(not any(has_gone(pid, 0) for pid in before.values()), "a daemon has ended")
        (state / "filler").unlink()
        begun = time.monotonic()
        while subprocess.run([BIN / "manta", "submit", "--", "true"], env=p.env, cwd=BIN, capture_output=True).returncode:
            check(time.monotonic() - begun < WAIT_S, "nothing is taken in after relief")
        print(f"disk_full: on again {time.monotonic() - begun:.2f} s after relief, {len(accepted)} accepted", flush=True)
        for job in accepted:
            p.manta("job", "wait", job)
        equal(p.manta("submit", "--follow", "--", "echo", "after"), "after\n")
        check(not any(has_gone(pid, 0) for pid in before.values()), "a daemon has ended")
        p.manta("stop", "--purge")
        fill(state / "filler")
        p.manta("start", "--head", "--state", state / "it", want=1)
        has("full", p.errors)
        (state / "filler").unlink()
        p.manta("start", "--head", "--num-cpus", "2", "--state", state / "it")
        for job in accepted:
            equal(p.json("job", "status", job)["state"], "SUCCEEDED")
        p.manta("stop")
    finally:
        subprocess.run(["umount", "-l", state], check=False)
        shutil.rmtree(state, ignore_errors=True)


def logs_apart(p):
    """Jobs' output in a folder, or on a disk, of its own."""
    p.manta("start", "--head", "--num-cpus", "1", "--logs", "out", cwd=p.root)
    job = p.manta("submit", "--", "echo", "apart").strip()
    p.manta("job", "wait", job)
    equal((p.root / "out" / job).read_text(), "apart\n")
    equal(p.manta("job", "logs", job), "apart\n")
    check(not (p.folder / "state/logs").exists(), "the state folder has logs too")
    p.manta("job", "delete", job)
    wait_until(lambda: not (p.root / "out" / job).exists(), "its output goes")
    p.manta("start", "--address", p.folder, "--logs", "out", "--dir", p.base / "n2", want=2)
    p.manta("stop")


def metadata_and_delete(p):
    p.manta("start", "--head", "--num-cpus", "1", "--state", "state", cwd=p.root)
    (p.root / "data").write_text("some bytes\n")
    job = p.manta("submit", "--metadata", "team=vision", "--metadata", "why=a = b", "--file", "data", "--", "cat", "data",
                  cwd=p.root).strip()
    p.manta("job", "wait", job)
    equal(p.json("job", "status", job)["metadata"], {"team": "vision", "why": "a = b"})
    has("team=vision,why=a = b", p.manta("job", "list", "-o", "wide"))
    kept = [path for path in (p.root / "state").rglob("*") if path.parent.name in ("logs", "blobs")]
    equal(len(kept), 2)
    long = p.manta("submit", "--", "sleep", "1000").strip()
    p.manta("job", "delete", long, want=1)
    has("stop it first", p.errors)
    p.manta("job", "stop", long)
    has("deleted", p.manta("job", "delete", long))
    p.manta("job", "delete", job)
    for verb in ("status", "logs", "delete"):
        p.manta("job", verb, job, want=1)
        has("no job has the id", p.errors)
    wait_until(lambda: not any(path.exists() for path in kept), "log and file are gone")
    for bad in (["a=1", "a=2"], ["x y=1"], ["k=" + "v" * 1100]):
        p.manta("submit", *(word for value in bad for word in ("--metadata", value)), "--", "true", want=1)
        has("metadata:", p.errors)
    p.manta("submit", "--metadata", "nothing", "--", "true", want=2)
    p.manta("stop")
    p.manta("start", "--head", "--num-cpus", "1", "--state", "state", cwd=p.root)  # the next head does not know them either
    equal(p.json("job", "list"), [])
    p.manta("stop")


def bad_jobs(p):
    p.manta("submit", "--priority", "high", "--", "true", want=2)  # no head is there, and none is needed to say so
    has("--priority", p.errors)
    p.manta("start", "--head", "--num-cpus", "1")
    p.manta("submit", "--file", "not_there", "--", "true", want=1)
    has("not_there", p.errors)
    p.manta("submit", "--follow", "--retries", "5", "--", "./no_such_program", want=127)
    job = p.json("job", "list")[0]
    equal(job["attempt"], 1)  # this node is the only one
    has("no_such_program", p.manta("job", "logs", job["id"]))
    p.manta("submit", "--follow", "--num-cpus", "9999", "--", "true", want=1)  # at once, or when nodes had time to join
    has("9999", p.errors)
    p.manta("submit", "--num-cpus", "-1", "--", "true", want=2)
    p.manta("submit", "--retries", "1.5", "--", "true", want=2)
    has('--retries "1.5": a whole number from 0', p.errors)
    p.manta("submit", "--priority", "2e9", "--", "true", want=2)
    has('--priority "2e9": a whole number from', p.errors)
    p.manta("submit", "--follow", "--num-cpus", "0.0001", "--", "true", want=1)  # it waited for ever: no node has less than a thousandth
    has("0.0001 CPUs", p.errors)
    for verb in ("status", "logs", "wait", "stop"):
        p.manta("job", verb, "job-unknown", want=1)
        has("job-unknown", p.errors)
    p.manta("job", "logs", "--follow", "job-unknown", want=1)
    check("goes on" not in p.errors, p.errors)
    rows = p.json("job", "list", "--limit", "1", "--filter", "state=FAILED")
    equal([row["state"] for row in rows], ["FAILED"])
    for words in ("job list", "list tasks", "list nodes", "memory", "queue"):
        p.manta(*words.split(), "--limit", "x", want=2)
        equal(p.errors.count("a number of at least 1 is wanted"), 1)
    token = p.root / "token"
    token.write_text("0" * 64 + "\n")
    token.chmod(0o600)
    p.manta("status", "--token-file", token, want=1)
    has("token", p.errors)
    p.manta("stop")


def driver(p):
    p.manta("start", "--head", "--num-cpus", "2")
    has("add up to 140", p.run("hello", env={"MANTA_ADDRESS": str(p.folder)}))
    has("add up to 140", p.run("hello"))  # without an address: a cluster of its own, beside this one
    has("Healthy:", p.manta("status", env={"MANTA_ADDRESS": str(p.folder)}))
    address = (p.folder / "head.addr").read_text().splitlines()[0]
    p.manta("healthcheck", "--address", address, "--token-file", p.folder / "token")
    p.manta("healthcheck", env={"MANTA_ADDRESS": address, "MANTA_TOKEN_FILE": str(p.folder / "token")})
    has("add up to 140", p.run("hello", env={"MANTA_ADDRESS": address}))  # its node here, in this user's folder
    stranger = subprocess.run([BIN / "hello"], env=p.env | {"MANTA_ADDRESS": "127.0.0.1:1"}, capture_output=True, text=True,
                              timeout=WAIT_S)
    check(stranger.returncode != 0, stranger)
    has('"127.0.0.1:1" names a head, and no node of its cluster runs here', stranger.stderr)
    p.manta("stop", env={"MANTA_ADDRESS": str(p.folder)})


def own_descriptors(p):
    """What the shell that starts a cluster has open is no daemon's and no job's."""
    held = p.root / "held"
    first = os.open(held, os.O_RDWR | os.O_CREAT, 0o600)
    for fd in (9, 300):
        os.dup2(first, fd)
    os.close(first)
    fcntl.flock(9, fcntl.LOCK_EX)
    start = subprocess.run(["sh", "-c", 'exec "$@" 3<>"$0"', held, BIN / "manta", "start", "--head", "--num-cpus", "1"],
                           env=p.env, pass_fds=(9, 300), timeout=CALL_S, capture_output=True, text=True)
    equal(start.returncode, 0, start.stderr)
    holds = set(descriptors(p.daemons().values()))
    check(str(held) not in holds, f"a daemon has it open: {holds}")
    out = p.manta("submit", "-f", "--", "sh", "-c", "ls -l /proc/$$/fd; true")
    check(str(held) not in out, f"a job has it open: {out}")
    os.close(300)
    os.close(9)
    with open(held) as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    p.manta("stop")


def descriptors(pids):
    """What processes, and all below them, have open; what is closed while we look does not count."""
    for pid in pids:
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError):
                yield from descriptors([child])
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                yield os.readlink(link)


def two_nodes(p):
    second, third = p.base / "n2", p.base / "n3"
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "n1")
    p.manta("start", "--address", p.folder, "--dir", second, "--node-name", "n2", "--num-cpus", "2")
    address = (p.folder / "head.addr").read_text().splitlines()[0]
    p.manta("start", "--address", address, "--dir", third, "--token-file", p.folder / "token", "--node-name", "n3",
            "--num-cpus", "1")
    equal([n["name"] for n in p.json("list", "nodes")], ["n1", "n2", "n3"])
    has("/4.0 CPU", p.manta("status"))
    has("add up to 140", p.run("hello", env={"MANTA_ADDRESS": str(second)}))
    has("add up to 140", p.manta("submit", "-f", "--num-cpus", "2", "--file", "hello", "--", "./hello"))
    equal(p.json("job", "list")[0]["node"], 2)  # the only node with two CPUs
    p.manta("start", "--address", p.folder, "--dir", second, want=1)
    p.manta("start", "--address", "127.0.0.1:1", "--dir", p.base / "n4", "--token-file", p.folder / "token", want=1)
    p.manta("stop", "--dir", second, "--purge")
    check(not second.exists(), "the folder of n2 is there still")
    wait_until(lambda: [n["state"] for n in p.json("list", "nodes") if n["name"] == "n2"] != ["ALIVE"], "n2 is known to be dead")
    p.manta("healthcheck")
    other = [p.daemons(third, which=which)["raylet"] for which in ("daemon", "keeper")]
    p.manta("stop")
    check(all(has_gone(pid, WAIT_S) for pid in other), "the other node does not end with its head")
    has("ended already", p.manta("stop", "--dir", third))


def start_where_one_leaves(p):
    """A node is drained, and the next one starts at once in its folder; one that goes on waiting is refused, and named."""
    second = p.base / "n2"
    again = ("start", "--address", p.folder, "--dir", second, "--node-name", "n2", "--num-cpus", "1")
    p.manta("start", "--head", "--num-cpus", "0", "--node-name", "n1")
    p.manta(*again)
    for round in range(10):
        p.manta("drain", "n2")
        while round % 2 and any(n["state"] == "DRAINING" for n in p.json("list", "nodes")):
            pass  # it is listed as left, and ends
        p.manta(*again)
    job = p.manta("submit", "--num-cpus", 1, "--", "/bin/sleep", "600").strip()
    for deadline, want in (1, 0), (600, 1):
        wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING", "a job runs there")
        p.manta("drain", "n2", "--deadline", deadline)
        p.manta(*again, want=want)
    has("leaves its cluster, and was not gone within", p.errors)
    p.manta("job", "stop", job)  # nothing holds it any more
    p.manta(*again)
    wait_until(lambda: [n["name"] for n in p.json("list", "nodes") if n["state"] == "ALIVE"] == ["n1", "n2"], "both are there")
    p.manta("stop", "--dir", second, "--purge")
    check(not second.exists(), "the folder of n2 is there still")
    p.manta("stop")


def killed_raylet(p):
    p.manta("start", "--head", "--num-cpus", "1")
    job = p.manta("submit", "--", "sh", "-c", "setsid sleep 1000 & sleep 1000 & echo begun; wait").strip()
    wait_until(lambda: p.manta("job", "logs", job) == "begun\n", "the job runs")
    p.kill("raylet")
    head = {p.daemons()["head"], p.daemons(which="keeper")["head"]}
    wait_until(lambda: set(p.processes()) == head, "what the job has started ends with its node, which was killed")
    has("Nothing is left", p.manta("stop"))
    equal(p.left(), [])


def kept_ends(p):
    """A job ends while no head is there, and its raylet is killed too: it has ended, and what ran on begins again at once."""
    p.manta("start", "--head", "--num-cpus", "3", "--state", p.root / "state")
    waits = f"echo $MANTA_JOB_ATTEMPT >> {p.root}/NAME; echo begun; while test ! -e {p.root}/go; do sleep 0.02; done; "
    good, bad = (p.manta("submit", "--num-cpus", 1, "--retries", 3, "--", "/bin/sh", "-c", waits.replace("NAME", name) + then).strip()
                 for name, then in (("good", "seq 3000; echo whole"), ("bad", f"test $MANTA_JOB_ATTEMPT = 2 || exit 7")))
    goes_on = p.manta("submit", "--num-cpus", 1, "--retries", 1, "--", "/bin/sh", "-c",
                      f"echo $MANTA_JOB_ATTEMPT >> {p.root}/on; test $MANTA_JOB_ATTEMPT = 2 || sleep 1000").strip()
    for job in (good, bad, goes_on):
        wait_until(lambda: p.json("job", "status", job)["state"] == "RUNNING", "the jobs run")
    wait_until(lambda: all(is_written(p.root / name) for name in ("good", "bad", "on")), "they have begun")
    keeper, before = p.daemons(which="keeper")["head"], p.daemons()
    os.kill(keeper, signal.SIGSTOP)  # so that it starts no head for a while
    kill(before["head"])
    (p.root / "go").touch()
    wait_until(lambda: all(job.encode() in (p.folder / "ends").read_bytes() for job in (good, bad)), "their ends are kept")
    os.kill(before["raylet"], signal.SIGKILL)  # its keeper starts another
    os.kill(keeper, signal.SIGCONT)
    for job in (good, bad, goes_on):
        p.manta("job", "wait", job)
    equal([(p.root / name).read_text().split() for name in ("good", "bad", "on")], [["1"], ["1", "2"], ["1", "2"]], "what has run")
    equal(p.manta("job", "logs", good), "begun\n" + "".join(f"{i}\n" for i in range(1, 3001)) + "whole\n")
    lost = [n for n in p.json("list", "nodes") if n["state"] == "DEAD"]
    has("has begun again as another node", lost[0]["reason"])
    p.manta("stop")
    equal(p.left(), [])


def killed_head(p):
    state = p.root / "state"
    p.manta("start", "--head", "--num-cpus", "1", "--state", state)
    p.manta("submit", "-f", "--", "true")
    before = p.daemons()
    p.kill("head")
    has("has gone on without its head", p.manta("start", "--head", "--state", state))
    equal(p.daemons()["raylet"], before["raylet"])
    equal([j["state"] for j in p.json("job", "list")], ["SUCCEEDED"])
    wait_until(lambda: [n["state"] for n in p.json("list", "nodes")] == ["ALIVE"], "the raylet is back")
    equal(p.manta("submit", "-f", "--", "echo", "again"), "again\n")
    p.manta("stop")
    equal(p.left(), [])
    p.manta("start", "--head", "--num-cpus", "1", "--state", state)  # what was kept apart is there
    equal(len(p.json("job", "list")), 2)
    p.manta("stop")


def all_killed(p):
    p.manta("start", "--head", "--num-cpus", "1")
    for name in p.daemons():
        p.kill(name)
    p.manta("status", want=1)
    p.manta("start", "--head", "--num-cpus", "1")  # over what they left
    p.manta("healthcheck")
    for name in p.daemons():
        p.kill(name)
    has("ended already", p.manta("stop"))


def stranger(p):
    """A process that got the number of a daemon is left alone."""
    (p.folder / "daemons").mkdir(mode=0o700, parents=True)
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        for name in ("head", "raylet"):
            (p.folder / "daemons" / name).write_text(f"daemon {sleeper.pid} 12345\nkeeper {sleeper.pid} 12345\n")
        has("ended already", p.manta("stop"))
        check(sleeper.poll() is None, "a stranger was killed")
    finally:
        sleeper.kill()
        sleeper.wait()


def foreign_folder(p):
    p.folder.mkdir()
    p.folder.chmod(0o777)
    p.manta("start", "--head", want=1)
    has("0700", p.errors)
    p.folder.rmdir()
    p.manta("start", "--head", "--dir", "/proc/nowhere", want=1)
    keep = p.folder / "mine"
    p.manta("start", "--head", "--num-cpus", "1")
    keep.write_text("a file of the user's own")
    p.manta("stop")
    check(keep.exists(), "a file of the user's is gone")
    shutil.rmtree(p.folder)


def failed_start(p):
    p.manta("start", "--head", "--resources", "tin=1,gold", want=2)  # before anything is started
    has('manta start: --resources: "gold": NAME=N is wanted', p.errors)
    for wrong, said in (("tin=1,tin=2", '"tin=2"'), ("tin=1,CPU=4", "CPU has an option of its own: --num-cpus"),
                        ("memory=4096", "memory has an option of its own: --memory")):
        p.manta("start", "--head", "--resources", wrong, want=2)
        has(said, p.errors)
    check(not p.folder.exists(), "a folder was made")
    p.manta("start", "--head", "--job-users", "no user of this machine", want=1)
    has("manta-raylet", p.errors)  # the end of its log says what is wrong
    wait_until(lambda: not p.processes(), "the head ends, since its raylet did not start")
    equal(p.daemons(), {})
    shutil.rmtree(p.folder)


def programs(p):
    if not (BIN / "manta-sweep").exists():
        has("manta-sweep", p.manta("sweep", want=1) + p.errors)
    if (BIN / "manta-train").exists():
        has("usage: manta train", p.manta("train", "--help"))
    if (BIN / "manta-bench").exists():
        check(p.manta("bench", "--help"), "manta bench --help says nothing")
        for part in ("train", "models", "sweep", "asha", "store", "grpc", "metg", "cpus", "cluster"):
            if (BIN / f"manta-bench-{part}").exists():
                has(f"usage: manta bench --{part} ", p.manta("bench", f"--{part}", "--help"))


def state_tell(place):
    """What a wait that failed was about, where the cluster is still there to say it."""
    def tell(*words):
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run([BIN / "manta", *words], env=place.env, timeout=CALL_S / 6, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True)
            print(f"-- manta {' '.join(words)}\n{done.stdout[-4000:]}{done.stderr}")
            return done.stdout
        return ""

    for words in (("list", "nodes"), ("list", "tasks"), ("scale", "history")):
        tell(*words)
    for row in tell("job", "list", "--filter", "state=FAILED").splitlines()[1:4]:
        tell("job", "logs", row.split()[0])


def run_case(name, cases):
    place, begun = Place(), time.monotonic()
    try:
        cases[name](place)
        wait_until(lambda: not place.processes(), "all processes end")
        equal(place.left(), [])
        print(f"ok   {name} ({time.monotonic() - begun:.1f} s)")
        return True
    except (AssertionError, subprocess.TimeoutExpired) as error:
        if any(place.folder.glob("daemons/head")):
            state_tell(place)
        tell_failure(name, error, place.root, 2000)
        return False
    finally:
        place.close()


if __name__ == "__main__":
    results = [run_case(name, globals()) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
