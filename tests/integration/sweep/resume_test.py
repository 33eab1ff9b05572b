#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# resume_test.py BIN LOAD [ROUNDS [SEED [FORM]]] (SEED 0: the clock's) - kills parts of a running sweep, or all of it, at random moments and resumes it.
#
# Each round runs one sweep of trials that save their state, in ordered mode, until it is done, with several kills (SIGKILL) on the
# way: the driver, a worker, the raylet, the head, or everything at once; of commands, the command as well. FORM is what a trial is:
#   steps     a function (the default)
#   job       a function that is a training job of the SGD layer: two workers, checkpoints; its value is the bits of its weights
#   command   a program that keeps its state in a file
#   done      the same, and it says that it is done by the file MANTA_TRIAL_DONE
# Then
#   - every trial has exactly one END, and a trial whose end was in the journal, or noted by its process, never began again;
#   - the draws and the results are those of a sweep that was not killed, bit for bit;
#   - of form `done`, no program came to its last line twice.
# Half of the kills come right behind the end of a trial, while nobody but its own process knows of it.
# Prints how often each victim was killed, and how many trials came to their last line twice: functions that were killed in the few
# instructions between that line and the note of it, commands that were killed before their slot had heard of their exit.
import collections, json, os, random, shutil, signal, sqlite3, struct, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))
from gone import wait_gone  # noqa: E402

CALL_S = 100 * int(os.environ.get("TEST_SLOWER", 1))  # longest life of one driver
BIN, LOAD = sys.argv[1], sys.argv[2]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
SEED = int(sys.argv[4]) if len(sys.argv) > 4 and int(sys.argv[4]) else int(time.time())
FORM = sys.argv[5] if len(sys.argv) > 5 else "steps"
TRIALS, STEPS, MS = {"steps": (24, 6, 4), "job": (8, 4, 3), "command": (24, 6, 4), "done": (24, 6, 4)}[FORM]
VICTIMS = ["driver", "worker", "raylet", "head", "all"] + (["command"] if FORM in ("command", "done") else [])
KILLS_MAX = 8
SAMPLER = os.environ.get("SWEEP_SAMPLER", "tpe")


def environment(base):
    env = dict(os.environ, MANTA_SWEEPS=base + "/sweeps", MANTA_HOME=os.path.dirname(BIN), XDG_RUNTIME_DIR=base + "/run")
    env.pop("MANTA_ADDRESS", None)
    return env


def start(base, name):
    arguments = [LOAD, name, f"trials={TRIALS}", "concurrency=2", f"trial={FORM}", f"steps={STEPS}", f"ms={MS}", "ordered=1", "node_cpus=2",
                 "retries=20", f"sampler={SAMPLER}", "sampler_options=startup=5" if SAMPLER == "tpe" else "x=1",
                 f"ledger={base}/ledger-{name}", f"data={base}/data"]
    return subprocess.Popen(arguments, env=environment(base), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def descendants(root):
    parents = collections.defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    fields = f.read().rpartition(")")[2].split()
                with open(f"/proc/{entry}/comm") as f:
                    parents[int(fields[1])].append((int(entry), f.read().strip()))
            except OSError:
                pass
    found, todo = [], [root]
    while todo:
        for pid, name in parents[todo.pop()]:
            found.append((pid, name))
            todo.append(pid)
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def strike(driver, victim):
    family = descendants(driver.pid)
    if victim == "driver":
        kill(driver.pid)
    elif victim == "all":
        for pid, _ in [(driver.pid, "")] + family:
            kill(pid)
    else:
        wanted = {"raylet": "manta-raylet", "head": "manta-head", "command": "exe"}.get(victim)
        pids = [pid for pid, name in family if (name == wanted if wanted else name.startswith("sweep_load"))]
        if pids:
            kill(random.choice(pids))
    return family


def await_return(driver, base, name):
    """Until some trial is about to end."""
    path, limit = f"{base}/ledger-{name}", time.time() + 5
    before = os.path.getsize(path) if os.path.exists(path) else 0
    while time.time() < limit and driver.poll() is None:
        if os.path.exists(path) and os.path.getsize(path) > before:
            with open(path) as f:
                f.seek(before)
                text = f.read()
            if "end" in text:
                return
            before += len(text)
        time.sleep(0.0001)


def check_gone(pids):
    """What a killed driver leaves ends by itself; the next one must not meet it."""
    left = wait_gone(pids, 20)
    if left:
        raise SystemExit(f"processes {left} of a killed sweep are still there")


def journal(base, name):
    path = f"{base}/sweeps/{name}/journal.db"
    if not os.path.exists(path):
        return [], {}
    db = sqlite3.connect(path)
    try:
        draws = db.execute("SELECT trial, text FROM event WHERE kind = 2 ORDER BY trial").fetchall()
        ends = db.execute("SELECT trial, code, step, value FROM event WHERE kind = 5 ORDER BY trial").fetchall()
    except sqlite3.OperationalError:  # its tables are not there yet
        draws, ends = [], []
    db.close()
    return draws, ends


def noted(base, name):
    """Trials whose end stands in a note of a slot (sweep/trial/ends.h)."""
    found, folder = set(), f"{base}/sweeps/{name}/ends"
    for path in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(f"{folder}/{path}", "rb") as f:
            bytes = f.read()
        at = 512  # behind what was printed last
        while at + 16 <= len(bytes):
            size, _, _ = struct.unpack_from("<IIQ", bytes, at)
            end, at = at + 16 + size, at + 16
            while at < end <= len(bytes):
                kind, _, _, trial, _, _, _, _, text = struct.unpack_from("<BIIqqqqQI", bytes, at)
                at += struct.calcsize("<BIIqqqqQI") + text
                at += 8 + struct.unpack_from("<Q", bytes, at)[0]
                if kind == 6:
                    found.add(trial)
            at = end
    return found


def said_done(base, name):
    """Trials whose program has said in a file that it is done."""
    folder = f"{base}/sweeps/{name}/trials"
    return {int(trial) for trial in (os.listdir(folder) if os.path.isdir(folder) else []) if os.path.exists(f"{folder}/{trial}/done")}


def ledger(base, name):
    try:
        with open(f"{base}/ledger-{name}") as f:
            return [(word[0], int(word[1])) for word in (line.split() for line in f)]
    except FileNotFoundError:
        return []


def fail(text):
    print(f"FAILED (seed {SEED}): {text}")
    sys.exit(1)


def round_run(base, number, reference, counts):
    name = f"killed{number}"
    attempts = 0
    while True:
        attempts += 1
        if attempts > 60:
            fail("the sweep does not end")
        ended = {row[0] for row in journal(base, name)[1]} | noted(base, name) | said_done(base, name)
        seen = len(ledger(base, name))
        driver = start(base, name)
        time.sleep(random.uniform(0.02, 0.25))
        if random.random() < 0.5:
            await_return(driver, base, name)
        victim = random.choice(VICTIMS) if attempts < KILLS_MAX else None
        family = []
        if victim and driver.poll() is None:
            family = strike(driver, victim)
            counts[victim] += 1
        try:
            output, errors = driver.communicate(timeout=CALL_S)
        except subprocess.TimeoutExpired:
            kill(driver.pid)
            fail(f"after the kill of {victim} the driver hangs")
        check_gone([pid for pid, _ in family])
        for what, trial in ledger(base, name)[seen:]:
            if what == "begin" and trial in ended:
                fail(f"trial {trial} began again though its end was known")
        if driver.returncode == 0:
            break
    draws, ends = journal(base, name)
    if len(ends) != TRIALS or len({row[0] for row in ends}) != TRIALS:
        fail(f"{len(ends)} ends of {TRIALS} trials")
    if draws[:TRIALS] != reference[0][:TRIALS]:
        fail("other draws than those of a sweep that was not killed")
    if ends != reference[1]:
        fail(f"other results than those of a sweep that was not killed:\n{ends}\n{reference[1]}")
    twice = collections.Counter(trial for what, trial in ledger(base, name) if what == "end")
    counts["came to the last line twice"] += sum(n > 1 for n in twice.values())
    if FORM == "done" and max(twice.values()) > 1:
        fail(f"a program that had said that it is done ran again: {twice}")
    if FORM != "done" and len(twice) < TRIALS:  # its file is there before its last line is
        fail(f"only {len(twice)} trials came to their last line")
    shutil.rmtree(f"{base}/sweeps/{name}")


def main():
    random.seed(SEED)
    base = tempfile.mkdtemp(prefix="manta-resume-")
    os.makedirs(base + "/run", mode=0o700)
    with open(base + "/data", "wb") as f:  # records of a regression
        for r in range(64):
            x = (r % 4 / 4, r % 7 / 7, r % 5 / 5)
            f.write(struct.pack("<4f", *x, x[0] - 2 * x[1] + x[2] / 2))
    try:
        driver = start(base, "calm")
        output, errors = driver.communicate(timeout=CALL_S)
        if driver.returncode:
            fail(f"the sweep that nobody kills: {errors}")
        reference = journal(base, "calm")
        counts = collections.Counter()
        for number in range(ROUNDS):
            round_run(base, number, reference, counts)
        print(f"{ROUNDS} sweeps of {FORM} resumed to their ends, equal to the unkilled one; killed: {json.dumps(counts)}")
    finally:
        shutil.rmtree(base, ignore_errors=True)


main()
