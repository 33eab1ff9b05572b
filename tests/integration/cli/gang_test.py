#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# gang_test.py BIN CASE... - `manta run`: programs as supervised gangs, in clusters of their own and in one that is there. Every case
# has a runtime folder of its own, and fails where it leaves a process or a file.
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from cli_test import BIN, CALL_S, WAIT_S, check, equal, has, kill, run_case, wait_until
from gone import has_gone


def gang(p, *words, want=0, **more):
    """Runs one in a private cluster; what it prints, and in p.errors what it says."""
    return p.manta("run", *words, want=want, env={"MANTA_ADDRESS": ""} | more.pop("env", {}), **more)


def begin(p, *words, env=None):
    """One that runs beside the test, in a process group of its own. Standard output and error are one stream."""
    return subprocess.Popen([BIN / "manta", "run", *words], env=p.env | {"MANTA_ADDRESS": ""} | (env or {}), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def end(run, want):
    out, _ = run.communicate(timeout=CALL_S)
    equal(run.returncode, want, f"of a gang: {out}")
    return out


def line_of(run, word):
    """Reads on until a line that has the word."""
    seen = ""
    for line in run.stdout:
        seen += line
        if word in line:
            return line
    raise AssertionError(f"{word!r} is not in: {seen}")


def parent_of(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])


def variables(text):
    """[{name: value} by rank] of what `env` printed in each."""
    ranks = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"\[(\d+)\] ([A-Z_]+)=(.*)", line):
            ranks.setdefault(int(match[1]), {})[match[2]] = match[3]
    return [ranks[rank] for rank in sorted(ranks)]


# ---- cases ----
def gang_words(p):
    has("usage: manta run", p.manta("run", "--help"))
    has("usage: manta run", p.manta("help", "run"))
    for words, said in ((["-n", "0", "true"], "-n 0: a number from 1"), (["-n", "2"], "the command is missing"),
                        (["--nope", "true"], "--nope is not understood"), (["--as", "mpi", "true"], "--as mpi: torch"),
                        (["--nodes", "3:2", "true"], "MIN or MIN:MAX"), (["--env", "X", "true"], "NAME=VALUE is wanted"),
                        (["-n", "5", "--nodes", "2", "true"], "5 ranks can't be divided among 2 nodes"),
                        (["-n", "5", "--per-node", "2", "true"], "no multiple"), (["-n", "200", "true"], "--cpus 0"),
                        (["-n", "3", "--nodes", "2", "--per-node", "2", "true"], "leave -n out"),
                        (["--restart-rank", "--as", "pmi1", "true"], "leave --restart-rank out"), (["--roles", "ps:1", "true"], "say --as tf"),
                        (["--as", "tf", "--roles", "ps", "true"], "--roles ps: chief:1, ps:N"),
                        (["-n", "2", "--as", "tf", "--roles", "ps:2", "true"], "of 2 ranks --roles leave no worker"),
                        (["--stdout-of", "1", "true"], "there are ranks 0 to 0"),
                        (["--stdout-of", "0", "--output-dir", "out", "true"], "exclude each other")):
        gang(p, *words, want=2)
        has(said, p.errors)
    gang(p, "--output-dir", "/dev/null/out", "true", want=1)
    has("--output-dir /dev/null/out can't be made: Not a directory", p.errors)


def gang_output(p):
    data = p.root / "data"
    (data / "inner").mkdir(parents=True)
    (data / "inner/file").write_text("brought\n")
    (p.root / "single").write_text("alone\n")
    out = gang(p, "-n", "3", "--cpus", "0", "--env", "WORD=a b", "--files", data, "--files", p.root / "single", "--", "sh", "-c",
               "echo $MANTA_GANG_RANK of $MANTA_GANG_SIZE; cat inner/file single; [ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo leads;"
               " printf '%s' \"$WORD\"; echo e$MANTA_GANG_RANK >&2")
    equal(sorted(out.splitlines()), sorted(f"[{r}] {text}" for r in range(3) for text in (f"{r} of 3", "brought", "alone", "leads",
                                                                                              "a b")))
    equal(sorted(p.errors.splitlines()), [f"[{r}] e{r}" for r in range(3)])
    equal(gang(p, "-n", "2", "--cpus", "0", "--stdout-of", "1", "--", "sh", "-c", "echo $MANTA_GANG_RANK"), "1\n")
    equal(p.errors, "[0] 0\n")
    many = gang(p, "-n", "2", "--cpus", "0", "--", "seq", "1", "100000").splitlines()  # more than fits into the supervisor
    for rank in range(2):
        equal([line for line in many if line.startswith(f"[{rank}]")], [f"[{rank}] {n}" for n in range(1, 100001)])
    equal(gang(p, "-n", "2", "--cpus", "0", "--output-dir", p.root / "out", "--", "sh", "-c", "echo $MANTA_GANG_RANK; echo bad >&2"), "")
    equal({f.name: f.read_text() for f in (p.root / "out").iterdir()},
          {"rank-0.out": "0\n", "rank-0.err": "bad\n", "rank-1.out": "1\n", "rank-1.err": "bad\n"})


def gang_torch(p):
    ranks = variables(gang(p, "-n", "2", "--cpus", "0.5", "--as", "torch", "--max-restarts", "3", "--name", "mine", "--", "env"))
    port = int(ranks[0]["MASTER_PORT"])
    low = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
    check(10000 <= port < max(low, 10001), f"port {port}")
    for rank, got in enumerate(ranks):
        wanted = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "ROLE_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2,
                  "GROUP_WORLD_SIZE": 1, "ROLE_WORLD_SIZE": 2, "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": port, "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 3,
                  "TORCHELASTIC_RUN_ID": "mine", "TORCHELASTIC_USE_AGENT_STORE": "False", "OMP_NUM_THREADS": "1"}
        equal({name: got.get(name) for name in wanted}, {name: str(value) for name, value in wanted.items()})
    ranks = variables(gang(p, "-n", "2", "--cpus", "0", "--as", "tf", "--", "env"))
    check('"index":1' in ranks[1]["TF_CONFIG"] and ranks[0]["TF_CONFIG"].count("127.0.0.1:") == 2, ranks)
    # Workers and parameter servers that wait for ever are ended when the chief has ended.
    out = gang(p, "-n", "3", "--cpus", "0", "--as", "tf", "--roles", "chief:1,ps:1", "--", "sh", "-c", """
        case $TF_CONFIG in *'"type":"chief"'*) echo chief;; *) trap 'echo ended; exit 0' TERM; while :; do sleep 0.02; done;; esac""")
    has("[0] chief", out)


def gang_fails(p):
    p.manta("start", "--head", "--num-cpus", "2")
    p.manta("run", "-n", "3", "--cpus", "0", "--", "sh", "-c", "[ $MANTA_GANG_RANK = 1 ] || exec sleep 1000; echo oh dear; exit 7", want=7)
    check(re.search(r"rank 1 \(pid \d+\) on node \S+ ended with status 7\nits last lines:\noh dear\n$", p.errors), p.errors)
    p.manta("run", "-n", "2", "--cpus", "0", "--", "sh", "-c", "kill -SEGV $$", want=128 + signal.SIGSEGV)
    has("was killed by signal 11 (Segmentation fault)", p.errors)
    p.manta("run", "-n", "2", "--cpus", "0", "--", "there-is-no-such-program", want=127)
    check(re.search(r"on node \S+ could not be started: No such file or directory: there-is-no-such-program", p.errors), p.errors)
    # One that ends early with 0 is no failure: the others go on.
    out = p.manta("run", "-n", "2", "--cpus", "0", "--", "sh", "-c", "[ $MANTA_GANG_RANK = 1 ] || exit 0; sleep 0.2; echo late")
    equal(out, "[1] late\n")
    p.manta("stop")


def gang_restarts(p):
    """All begin again, so often, with another count; the next attempt begins when nothing of the last is left."""
    mark = p.root / "mark"
    script = (f"echo run $MANTA_GANG_RESTARTS; [ $MANTA_GANG_RANK = 0 ] || {{ trap 'rmdir {mark}' EXIT; trap 'exit 1' TERM;"
              f" mkdir {mark} || echo overlap; sleep 1000 & wait; }}; while [ ! -d {mark} ]; do sleep 0.02; done;"
              f" [ $MANTA_GANG_RESTARTS = 2 ] && exit 5; kill -9 $$")
    out = gang(p, "-n", "2", "--cpus", "0", "--max-restarts", "2", "--", "sh", "-c", script, want=5)
    equal(sorted(out.splitlines()), sorted(f"[{rank}] run {n}" for rank in range(2) for n in range(3)))
    has("begins again (restart 2 of 2)", p.errors)
    # With --restart-rank only the one that fails, so often.
    flag = p.root / "flag"
    script = (f"[ $MANTA_GANG_RANK = 1 ] && {{ while [ ! -e {flag}-0 ]; do sleep 0.02; done;"
              f" [ $MANTA_GANG_RESTARTS = 2 ] || kill -9 $$; touch {flag}; exit; }};"
              f" echo begins; touch {flag}-0; while [ ! -e {flag} ]; do sleep 0.02; done; echo goes on")
    words = ["-n", "2", "--cpus", "0", "--restart-rank", "--max-restarts"]
    equal(gang(p, *words, "2", "--", "sh", "-c", script), "[0] begins\n[0] goes on\n")
    has("is started again, the others go on (restart 2)", p.errors)
    flag.unlink()
    pathlib.Path(f"{flag}-0").unlink()
    equal(gang(p, *words, "1", "--", "sh", "-c", script, want=128 + signal.SIGKILL), "[0] begins\n")
    pathlib.Path(f"{flag}-0").unlink()
    # Ranks that die together, as the driver sees it, are each told of, with a count of their own.
    run = begin(p, "-n", "3", "--cpus", "0", "--restart-rank", "--", "sh", "-c",
                "echo up $MANTA_GANG_RESTARTS $$; [ $MANTA_GANG_RESTARTS != 0 ] || exec sleep 1000")
    pids = [int(line_of(run, "up 0").split()[-1]) for _ in range(3)]
    run.send_signal(signal.SIGSTOP)
    for pid in pids:
        kill(pid)
    check(all(has_gone(pid, WAIT_S) for pid in pids), "killed ranks end")
    time.sleep(0.3)  # until the driver has been told, or it is no test
    run.send_signal(signal.SIGCONT)
    out = end(run, 0)
    told = re.findall(r"rank (.) .*; it is started again, the others go on \(restart (.)\)", out)
    equal((sorted(rank for rank, _ in told), sorted(count for _, count in told)), (["0", "1", "2"], ["1", "2", "3"]), out)
    equal(sorted(re.findall("up ([123])", out)), ["1", "2", "3"], out)
    # A supervisor that is killed takes its rank along, and the gang begins again.
    run = begin(p, "-n", "2", "--cpus", "0.5", "--max-restarts", "1", "--", "sh", "-c",
                "echo up $MANTA_GANG_RESTARTS $PPID $$; [ $MANTA_GANG_RESTARTS = 1 ] || { setsid sleep 1000 & sleep 1000; }")
    shepherd, rank = map(int, line_of(run, "up 0").split()[-2:])
    supervisor = parent_of(shepherd)
    kill(supervisor)
    check(has_gone(rank, WAIT_S), "the rank outlives its supervisor")
    has("up 1", end(run, 0))
    # So does a killed shepherd.
    run = begin(p, "-n", "1", "--", "sh", "-c", "echo up $PPID; setsid sleep 1000 & sleep 1000")
    kill(int(line_of(run, "up").split()[-1]))
    has("the process that held it was killed", end(run, 128 + signal.SIGKILL))


def gang_stopped(p):
    """Who stands still as its gang is ended: its rank does not run on beside the next attempt."""
    for which in (["shepherd"], ["supervisor"], ["supervisor", "shepherd"]):
        flag = p.root / "-".join(which)
        run = begin(p, "-n", "2", "--cpus", "0", "--kill-after", "0.2", "--max-restarts", "1", "--", "sh", "-c",
                    f"echo up $MANTA_GANG_RESTARTS $MANTA_GANG_RANK $PPID $$; [ $MANTA_GANG_RESTARTS = 1 ] && exec sleep 1000;"
                    f" [ $MANTA_GANG_RANK = 1 ] && {{ setsid sleep 1000 & sleep 1000; }};"
                    f" while [ ! -e {flag} ]; do sleep 0.02; done; exit 3")
        ranks = {int(words[-3]): words for words in (line_of(run, "up 0").split() for _ in range(2))}
        shepherd, rank = map(int, ranks[1][-2:])
        pids = {"shepherd": shepherd, "supervisor": parent_of(shepherd)}
        for name in which:
            os.kill(pids[name], signal.SIGSTOP)
        flag.touch()
        line_of(run, "up 1")
        for pid in (rank, shepherd):
            check(has_gone(pid, WAIT_S), f"of the first attempt, with a {' and a '.join(which)} that stood still, process {pid} is left")
        run.send_signal(signal.SIGINT)
        end(run, 128 + signal.SIGINT)


def gang_ends(p):
    # Children that it leaves, also in a session of their own, end with the rank.
    gang(p, "-n", "2", "--cpus", "0", "--", "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0")
    wait_until(lambda: not p.processes(), "what the ranks have left ends with them")
    # Who ignores SIGTERM is killed after the limit.
    gang(p, "-n", "2", "--cpus", "0", "--kill-after", "0.2", "--", "sh", "-c",
         "[ $MANTA_GANG_RANK = 1 ] && { sleep 0.2; exit 3; }; trap '' TERM; while :; do sleep 1000; done", want=3)
    # Signals are passed on; after SIGTERM the ranks may end by themselves.
    for number, want in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        run = begin(p, "-n", "2", "--cpus", "0", "--", "sh", "-c",
                    "trap 'echo got INT; exit 0' INT; trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 0.02; done")
        line_of(run, "up"), line_of(run, "up")
        run.send_signal(number)
        out = end(run, want)
        equal(out.count("got " + number.name[3:]), 2, out)
    run = begin(p, "--cpus", "0", "--", "sh", "-c", "trap 'echo got USR1; exit 0' USR1; echo up; while :; do sleep 0.02; done")
    line_of(run, "up")
    run.send_signal(signal.SIGUSR1)
    has("got USR1", end(run, 0))
    # A second Ctrl-C does not wait.
    run = begin(p, "--cpus", "0", "--kill-after", "1000", "--", "sh", "-c", "trap 'echo no' INT; echo up; while :; do sleep 0.02; done")
    line_of(run, "up")
    run.send_signal(signal.SIGINT)
    line_of(run, "no")
    run.send_signal(signal.SIGINT)
    end(run, 130)
    # The driver's death leaves nothing.
    run = begin(p, "-n", "2", "--cpus", "0", "--", "sh", "-c", "setsid sleep 1000 & echo up; sleep 1000")
    line_of(run, "up")
    run.kill()
    run.communicate(timeout=CALL_S)
    wait_until(lambda: not p.processes(), "all ends with the driver")


def gang_room(p):
    gang(p, "-n", "64", "--", "true", want=1)
    check("there is no room for 64 ranks" in p.errors and "--cpus 0 reserves nothing" in p.errors, p.errors)
    p.manta("start", "--head", "--num-cpus", "2", "--node-name", "n1")
    for words, said in ((["--nodes", "5:6"], "5 nodes are wanted, there is 1, and nobody starts so many; fewer --nodes may fit"),
                        (["--gpus", "64"], "fewer --gpus or --cpus of each, may fit"),
                        (["--nodes", "2", "--cpus", "0", "--wait", "0"], "2 nodes with room for 1 rank; free now: n1 2 of 2 CPUs (nothing is reserved, so")):
        p.manta("run", *words, "true", want=1)
        has(said, p.errors)
    here = {"MANTA_ADDRESS": str(p.folder)}
    first = begin(p, "-n", "2", "--", "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.02; done", env=here)
    line_of(first, "up")
    p.run("manta", "run", "-n", "1", "--wait", "0.3", "--", "true", want=1)
    has("there is no room for 1 rank", p.errors)
    second = begin(p, "-n", "2", "--", "echo", "mine now", env=here)
    has("waits for room for 2 ranks of 1 CPU each; free now: n1 0 of 2 CPUs", line_of(second, "waits"))
    first.send_signal(signal.SIGTERM)
    end(first, 143)
    has("mine now", end(second, 0))
    equal(p.manta("submit", "-f", "--", BIN / "manta", "run", "-n", "2", "--", "sh", "-c", "echo inside $MANTA_GANG_RANK").count("inside"), 2)
    p.manta("stop")


def gang_nodes(p):
    """Two nodes: one rank on each; one dies, one is drained, and the gang begins again on what is left."""
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "n1")
    for name in ("n2", "n3"):
        p.manta("start", "--address", p.folder, "--dir", p.base / name, "--node-name", name, "--num-cpus", "1")
    here = {"MANTA_ADDRESS": str(p.folder)}
    survives(p, "--nodes", "3", local=1, restarts=(0, 2, 1), env=here)
    ranks = variables(p.manta("run", "--nodes", "3", "--as", "torch", "--", "env"))
    equal([(r["GROUP_RANK"], r["LOCAL_RANK"], r["GROUP_WORLD_SIZE"], r["WORLD_SIZE"]) for r in ranks],
          [(str(rank), "0", "3", "3") for rank in range(3)])
    # What a rank prints at once may be more than goes with a call: nothing of it is lost.
    out = p.manta("run", "--nodes", "3", "--", sys.executable, "-c", "print('x' * 100000); print('y' * 5000)")
    equal((out.count("x"), out.count("y")), (300000, 15000))
    # Where the room of the last gang, or attempt, is not seen free yet, it begins with fewer ranks, and grows.
    script = (f"echo up $MANTA_GANG_SIZE $MANTA_GANG_RESTARTS; [ $MANTA_GANG_SIZE$MANTA_GANG_RESTARTS = 11 ] && [ -e {p.root}/drains ] ||"
              " exec sleep 1000")
    run = begin(p, "--nodes", "1:3", "--max-restarts", "1", "--", "sh", "-c", script, env=here)
    for _ in range(3):
        line_of(run, "up 3 0")
    for which in ("keeper", "daemon"):
        kill(p.daemons(p.base / "n3", which=which)["raylet"])
    line_of(run, "begins again (restart 1 of 1)")
    for _ in range(2):
        line_of(run, "up 2 1")
    (p.root / "drains").touch()
    p.manta("drain", "n2", "--deadline", "30")
    has("up 1 1", line_of(run, "up 1"))  # a drain costs no restart
    end(run, 0)
    p.manta("stop")
    p.manta("stop", "--dir", p.base / "n2", "--purge")
    p.manta("stop", "--dir", p.base / "n3", "--purge")


SURVIVES = """
import os, sys, time
from manta_torch import coll, ranks
mine, number = ranks.Ranks(), 0
while True:
    try:
        told = mine.next()
        if os.environ.get("MANTA_TORCH_PEERS") and told["generation"] == 1: # of several nodes: one dies before they have met
            if told["rank"] == 2:
                os.kill(os.getpid(), 9)
            while told["rank"] == 0 and mine.told["generation"] < 2: # and another comes when that is long over
                time.sleep(0.01)
        member = mine.enter(told)
        if told["rank"] == told["generation"] - 1 < 2: # rank 0, which has made the memory; then rank 1
            os.kill(os.getpid(), 9)
        if told["generation"] == 3 and told["rank"] == 2: # nobody has died of that: all meet again
            member.abort()
        for number in range(20):
            member.barrier()
        member.leave()  # who goes without a word counts as dead to one that is still in the last barrier
        break
    except ranks.ENDINGS:
        pass
print("rank", told["rank"], "of", told["size"], "generation", told["generation"], told["local_size"], os.environ["MANTA_GANG_RESTARTS"])
"""


PYTHON = {"MANTA_HOME": str(BIN.parent), "PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[3] / "clients/python")}


def survives(p, *words, local, restarts, env=None):
    """Ranks whose group goes on without a dead one: two die, one by one, and are started again alone; then all give up what they are in."""
    out = p.manta("run", *words, "--restart-rank", "--", sys.executable, "-c", SURVIVES, env={"MANTA_ADDRESS": ""} | PYTHON | (env or {}))
    got = sorted(tuple(map(int, re.findall(r"\d+", line.split("] ", 1)[1]))) for line in out.splitlines())
    equal(got, [(rank, 3, 4, local, restarts[rank]) for rank in range(3)])
    equal(p.errors.count("it is started again, the others go on"), 2, p.errors)


def gang_survives(p):
    survives(p, "-n", "3", "--cpus", "0", local=3, restarts=(1, 2, 0))
    # Who says something else is at fault; who dies when others have finished is not started again.
    gang(p, "--restart-rank", "--max-restarts", "1", "--", "sh", "-c", "echo nonsense >&4; exec sleep 1000", want=1)
    has("it says something else", p.errors)
    late = SURVIVES.replace("< 2: #", "< 0: #") + f"""
import time
if told["rank"]:
    os.symlink(str(os.getpid()), "{p.root}/pid")
else:
    while not os.path.islink("{p.root}/pid") or os.path.exists("/proc/" + os.readlink("{p.root}/pid")):
        time.sleep(0.01)
    os.kill(os.getpid(), 9)
"""
    run = begin(p, "-n", "2", "--cpus", "0", "--restart-rank", "--", sys.executable, "-c", late, env=PYTHON)
    out, _ = run.communicate(timeout=CALL_S)
    has("rank 0 can't go on: others have finished", out)
    check(run.returncode in (1, 128 + signal.SIGKILL), f"{run.returncode}: {out}")  # it was started again before the other's end was heard


GOES = """
import os, signal, sys
from manta_torch import coll, ranks
how, rank = sys.argv[1], int(os.environ["MANTA_GANG_RANK"])
if rank != 1:
    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told to end\\n")) # and goes on
elif how == "early": # it takes no part
    sys.exit(0)
mine = ranks.Ranks()
try:
    told = mine.next()
    if rank == 1 and how == "never": # the others wait for it in the joining
        sys.exit(0)
    try:
        member = mine.enter(told)
    except ranks.ENDINGS:
        mine.next()
    member.barrier()
    if rank == 1:
        if how == "dies":
            os.kill(os.getpid(), 9)
        if how == "stops":
            signal.pause()
        sys.exit(0) # without member.leave()
    try:
        print("up", flush=True)
        while True:
            member.barrier()
    except ranks.ENDINGS:
        mine.next()
    print("another generation")
except coll.NoGeneration as end:
    print(f"no generation for rank {rank}: {end.rank}, {end}", flush=True)
    if how == "fails":
        raise
"""


def goes(p, how, *words, want, env=None):
    """Rank 1 goes, in a way of its own, and what is said of it; all others wait for a generation that can't come."""
    run = begin(p, *words, "--restart-rank", "--kill-after", "1000", "--", sys.executable, "-c", GOES, how, env=PYTHON | (env or {}))
    if how == "stops":
        line_of(run, "up")
        run.send_signal(signal.SIGTERM)
    out = end(run, want)
    check("another generation" not in out, out)
    return out


def without(p, *words, others, env=None):
    """One has gone, and no generation comes without it: who waits for one is told, and ends."""
    for how in ("early", "never", "finishes"):
        out = goes(p, how, *words, want=0, env=env)
        for rank in others:
            has(f"no generation for rank {rank}: 1, EEND: rank 1 has finished (exit status 0)", out)
    out = goes(p, "fails", *words, want=1, env=env)
    has("can't go on: others have finished", out)
    check("is started again" not in out, out)
    for how, want, more in (("dies", 137, ["--max-restarts", "0"]), ("stops", 143, [])): # nobody is started again
        out = goes(p, how, *words, *more, want=want, env=env)
        for rank in others:
            has(f"no generation for rank {rank}: None, EEND: the ranks are being ended", out)


def gang_finishes(p):
    without(p, "-n", "3", "--cpus", "0", others=(0, 2))
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "n1")
    p.manta("start", "--address", p.folder, "--dir", p.base / "n2", "--node-name", "n2", "--num-cpus", "1")
    without(p, "--nodes", "2", others=(0,), env={"MANTA_ADDRESS": str(p.folder)})
    p.manta("stop", "--dir", p.base / "n2", "--purge")
    p.manta("stop")


def gang_full_store(p):
    """Nodes whose object stores have no room for it: what ranks are told and what they print comes whole."""
    words = ["--store-memory", str(1 << 20), "--num-cpus", "1"]
    p.manta("start", "--head", "--node-name", "n1", *words)
    p.manta("start", "--address", p.folder, "--dir", p.base / "n2", "--node-name", "n2", *words)
    script = "import sys; print(sum(map(len, sys.argv[1:]))); sys.stdout.write(('x' * 99 + chr(10)) * 20000); print('y' * 3000000)"
    out = p.manta("run", "--nodes", "2", "--", sys.executable, "-c", script, "z" * 100000)
    equal({line for line in out.splitlines() if line.endswith("0")}, {"[0] 100000", "[1] 100000"})
    equal((out.count("x"), out.count("y")), (2 * 20000 * 99, 2 * 3000000))
    p.manta("stop")
    p.manta("stop", "--dir", p.base / "n2", "--purge")


def gang_detached(p):
    p.manta("start", "--head", "--num-cpus", "2")
    (p.root / "word").write_text("brought\n")
    script = "cat word; trap 'echo told $MANTA_GANG_RANK; exit 0' TERM; echo up $MANTA_GANG_RANK; while :; do sleep 0.02; done"
    words = ["run", "--detach", "--name", "mine", "-n", "2", "--files", p.root / "word", "--", "sh", "-c", script]
    p.manta("run", "--detach", "true", want=2)
    has("--name is missing", p.errors)
    equal(re.findall("manta gang .*", p.manta(*words)), ["manta gang follow mine", "manta gang stop mine"])  # how one goes on
    p.manta(*words, want=1)
    has("a gang named mine is there already", p.errors)
    equal([(row["name"], row["state"]) for row in p.json("gang", "list")][0][0], "mine")
    wait_until(lambda: p.manta("job", "logs", "gang-mine").count("up") == 2, "the gang runs")
    p.manta("gang", "stop", "mine")
    out = p.manta("gang", "follow", "mine", want=143)
    equal((out.count("brought"), out.count("told")), (2, 2), out)
    folder = p.root / "a project"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/file").write_text("of the folder\n")
    files, script = ("a project", "./a project/../word", folder / "inner/file"), ("sh", "-c", "cat inner/file word file")
    for word, before, more in (("--files", ("run",), ()), ("--files", ("run", "--detach", "--name", "brings"), ()),
                               ("--file", ("gang", "submit", "--name", "brings"), ("-n", "1", "--"))):  # a relative one, and what stands in a folder, too
        said = p.manta(*before, *(w for file in files for w in (word, file)), "--", *more, *script, cwd=p.root)
        said = p.manta("gang", "follow", "brings") if len(before) > 1 else said
        equal([line.split("] ")[1] for line in said.splitlines() if "] " in line], ["of the folder", "brought", "of the folder"], said)
    p.manta("gang", "stop", "nobody", want=1)
    p.manta("gang", "submit", "--name", "a b", "--", "true", want=1)
    has("the name of a gang", p.errors)
    p.manta("gang", "submit", "--name", "mine", "--", "-n", "2", "--", "sh", "-c", "exit $MANTA_GANG_RANK")  # the name is free again
    p.manta("gang", "follow", "mine", want=1)
    has("rank 1", p.manta("job", "logs", "gang-mine"))
    p.manta("stop")


def gang_client(p):
    """The same calls from a program of C."""
    p.manta("start", "--head", "--num-cpus", "2")
    run = subprocess.run([BIN.parent / "tests/integration/cli/gang_client"], env=p.env, capture_output=True, text=True, timeout=CALL_S, check=False)
    equal((run.returncode, run.stdout, run.stderr), (0, "", ""), "gang_client")
    p.manta("stop")


def gang_hangs(p):
    """One stands still, also what it has started; one that computes, or prints, does not count as hung."""
    gang(p, "-n", "3", "--cpus", "0", "--hang-after", "2", "--kill-after", "0.1", "--", "python3", "-c", """if True:
        import os, time
        rank = int(os.environ["MANTA_GANG_RANK"])
        while rank == 0:
            pass
        while rank == 1:
            print("here", flush=True)
            time.sleep(0.1)
        os.system("sleep 1000")""", want=1)
    check(re.search(r"rank 2 \(pid \d+\) on node \S+ has neither printed nor computed anything for 2 s", p.errors), p.errors)
    # So does a supervisor that stands still, whatever its rank does: the driver finds that.
    run = begin(p, "-n", "2", "--cpus", "0", "--hang-after", "2", "--kill-after", "0.1", "--", "sh", "-c",
                "echo up $PPID $$; while :; do echo here; sleep 0.1; done")
    ranks = [list(map(int, line_of(run, "up").split()[-2:])) for _ in range(2)]
    os.kill(parent_of(ranks[1][0]), signal.SIGSTOP)
    has("is gone: its supervisor has said nothing for", end(run, 1))
    check(all(has_gone(rank, WAIT_S) for _, rank in ranks), "a rank outlives its supervisor")
    # Nor does one that can't print on, since nobody reads, ...
    run = begin(p, "--cpus", "0", "--hang-after", "2", "--", "seq", "1", "2000000")
    line_of(run, "[0] 1\n")
    time.sleep(5)
    equal(end(run, 0)[-12:], "[0] 2000000\n")
    # ... or one that others leave no CPU: rank 1 has less than a hundredth of one for a while.
    gang(p, "-n", "3", "--cpus", "0", "--hang-after", "2", "--", "python3", "-c", """if True:
        import os, time
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        if os.environ["MANTA_GANG_RANK"] == "1":
            os.nice(19)
            if os.path.exists("/proc/self/autogroup"):  # who leads a session may be a group of its own
                open("/proc/self/autogroup", "w").write("19")
        end = time.monotonic() + 7
        while time.monotonic() < end:
            pass""")


PMI = """
import os, socket, sys
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
pmi = socket.socket(fileno=int(os.environ["PMI_FD"])).makefile("rw")
def ask(text):
    pmi.write(text + "\\n")
    pmi.flush()
    return pmi.readline().strip()
def has(word, text):
    assert word in text, text
def barrier():
    has("barrier_out", ask("cmd=barrier_in"))
if sys.argv[1] == "rubbish" and rank == 1:
    ask("rubbish")
if sys.argv[1] == "abort" and rank == 1:
    ask("cmd=abort exitcode=9")
has("rc=0", ask("cmd=init pmi_version=1 pmi_subversion=1"))
if sys.argv[1] == "leave" and rank == 1:
    sys.exit(0)
has("rc=0", ask(f"cmd=put kvsname=manta key=k{rank} value=v{rank}"))
has("rc=-1", ask(f"cmd=put kvsname=manta key=k{rank} value=again"))
has("rc=-1", ask("cmd=put kvsname=manta key=long value=" + "x" * 2000))
barrier()
for other in range(size):
    has(f"value=v{other}", ask(f"cmd=get kvsname=manta key=k{other}"))
has("rc=0", ask(f"cmd=put kvsname=manta key=late{rank} value={rank}"))
barrier()
has(f"value={size - 1}", ask(f"cmd=get kvsname=manta key=late{size - 1}"))
print(ask("cmd=get_my_kvsname"), flush=True)
if sys.argv[1] == "again" and os.environ["MANTA_GANG_RESTARTS"] == "0":
    os.kill(os.getpid(), 9)
print(ask("cmd=get kvsname=manta key=PMI_process_mapping").rpartition("value=")[2])
has("finalize_ack", ask("cmd=finalize"))
"""


def gang_pmi(p):
    client = p.root / "pmi.py"
    client.write_text(PMI)
    words = ["--cpus", "0", "--as", "pmi1", "--kill-after", "0.2", "--", "python3", client]
    has("[1] (vector,(0,1,3))", gang(p, "-n", "3", *words, "good"))
    # Shared memory is named after it: what a killed attempt leaves is not met by the next one, nor by another gang.
    names = re.findall(r"kvsname=(\S+)", gang(p, "-n", "2", "--max-restarts", "1", *words, "again"))
    check(len(names) in (3, 4) and len(set(names)) == 2, names)
    for how, want, said in (("rubbish", 1, 'said on its PMI connection what is no PMI-1 here: "rubbish"'), ("abort", 9, "called MPI_Abort"),
                            ("leave", 1, "ended without MPI_Finalize")):
        gang(p, "-n", "2", *words, how, want=want)
        check(re.search(r"rank 1 \(pid \d+\) on node \S+ " + re.escape(said), p.errors), p.errors)
    gang(p, "-n", "2", "--cpus", "0", "--as", "pmi1", "--", "sh", "-c", f"[ $PMI_RANK = 1 ] || exec python3 {client} good", want=1)
    has("ended before MPI_Init", p.errors)
    gang(p, "--nodes", "1:2", *words, "good", want=2)
    has("programs of MPI have a fixed number of ranks", p.errors)
    # Two nodes: each has a server, and the keys go from one to the other.
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "n1")
    p.manta("start", "--address", p.folder, "--dir", p.base / "n2", "--node-name", "n2", "--num-cpus", "1")
    equal(p.manta("run", "--nodes", "2", "--per-node", "2", *words, "good").count("(vector,(0,2,2))"), 4)
    p.manta("run", "--nodes", "2", "--cpus", "0", "--as", "pmi1", "--", "sh", "-c", f"[ $PMI_RANK = 1 ] || exec python3 {client} good", want=1)
    has("rank 1", p.errors)
    has("others wait for it in MPI", p.errors)
    p.manta("stop", "--dir", p.base / "n2", "--purge")
    p.manta("stop")


def gang_horovod(p):
    """Ranks that meet as Horovod's do: on one node, after a restart, on two nodes."""
    client = pathlib.Path(__file__).with_name("horovod_client.py")
    words = ["--as", "horovod", "--cpus", "0", "--kill-after", "0.2"]
    wanted = [f"[{rank}] {rank} 3 {rank} 3 0 1" for rank in range(3)]
    p.manta("start", "--head", "--num-cpus", "1", "--node-name", "n1")
    equal(sorted(p.manta("run", "-n", "3", *words, "--", "python3", client).splitlines()), wanted)
    out = p.manta("run", "-n", "3", "--max-restarts", "1", "--env", "DIES=1", *words, "--", "python3", client)
    equal(sorted(out.splitlines()), wanted)
    has("was killed by signal 9", p.errors)
    p.manta("run", "-n", "2", "--restart-rank", *words, "true", want=2)
    has("programs of Horovod can't take a rank that is started again alone", p.errors)
    out = p.manta("run", *words, "--env", "HOROVOD_GLOO_IFACE=mine", "--", "sh", "-c", "echo $HOROVOD_GLOO_IFACE")
    equal(out, "[0] mine\n")
    p.manta("start", "--address", p.folder, "--dir", p.base / "n2", "--node-name", "n2", "--num-cpus", "1")
    out = p.manta("run", "--nodes", "2", "--per-node", "2", *words, "--", "python3", client)
    equal(sorted(out.splitlines()), [f"[{rank}] {rank} 4 {rank % 2} 2 {rank // 2} 2" for rank in range(4)])
    p.manta("stop", "--dir", p.base / "n2", "--purge")
    p.manta("stop")


MPI = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d of %d: %d\\n", rank, size, sum);
    if (argc > 1 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    return MPI_Finalize();
}
"""


def gang_mpi(p):
    """A program of MPICH, unchanged."""
    compiler = shutil.which("mpicc.mpich")
    if not compiler:
        print("MPICH is not installed")
        sys.exit(77)
    (p.root / "hello.c").write_text(MPI)
    subprocess.run([compiler, "-o", "hello", "hello.c"], cwd=p.root, check=True)
    words = ["--cpus", "0", "--as", "pmi1", "--", p.root / "hello"]
    equal(sorted(gang(p, "-n", "4", *words).splitlines()), [f"[{rank}] {rank} of 4: 6" for rank in range(4)])
    gang(p, "-n", "2", *words, "abort", want=7)
    has("called MPI_Abort", p.errors)


def tidied(case):
    """A private cluster leaves the empty folder in which its own was."""

    def run(p):
        case(p)
        if p.folder.is_dir() and not any(p.folder.iterdir()):
            p.folder.rmdir()

    return run


if __name__ == "__main__":
    results = [run_case(name, {name: tidied(globals()[name])}) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
