#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# elastic_test.py BIN CASE... - trainings and sweeps on a cluster that grows and shrinks by itself, with real raylets.
# Every case has a runtime folder of its own, and fails where it leaves a process or a file.
import contextlib
import pathlib
import random
import struct
import subprocess
import sys
import textwrap

from cli_test import BIN, SLOWER, check, equal, has, run_case, wait_until
from scale_test import down, instances, machines_of, raylets, shrinks, up

SOURCE = pathlib.Path(__file__).resolve().parents[3]
CLUSTER = """\
    provider: {kind: local}
    head: {cpus: 0}
    idle_s: 0.5
    types:
      small: {resources: {CPU: 1}, max: 4, settings: {store_memory: 134217728}}
"""


def joined(p):
    return [row for row in instances(p) if "JOINED" in row["text"]]


def begin(p, *words):
    """A job of the cluster, and its number."""
    return p.manta("submit", *words).strip()


def is_over(p, job):
    return p.json("job", "status", job)["state"] in ("SUCCEEDED", "FAILED", "STOPPED")


def ends_well(p, job):
    wait_until(lambda: is_over(p, job), f"{job} ends", 240 * SLOWER)
    p.manta("job", "wait", job)
    state = p.json("job", "status", job)["state"]
    log = p.manta("job", "logs", job)
    equal(state, "SUCCEEDED", log)
    return log


# ---- sweeps


def sweep_write(p, trials, more=""):
    """Each trial says that it begins and that it ends, and waits in between while a file is there."""
    script = p.root / "trial.sh"
    script.write_text(textwrap.dedent(f"""\
        echo "begin $MANTA_TRIAL $MANTA_TRIAL_ATTEMPT" >> {p.root}/runs
        while [ -e {p.root}/hold ]; do sleep 0.05; done
        echo "end $MANTA_TRIAL" >> {p.root}/runs
        echo "loss=$MANTA_TRIAL"
        """))
    file = p.root / "sweep.yaml"
    file.write_text(textwrap.dedent(f"""\
        name: elastic
        metric: loss
        trials: {trials}
        storage: {p.root}/sweeps
        {more}
        trial: {{command: [sh, {script}]}}
        space: {{x: {{type: uniform, low: 0, high: 1}}}}
        sampler: random
        """))
    (p.root / "runs").touch()
    return file


def lines(p, word):
    return [line for line in (p.root / "runs").read_text().splitlines() if line.split()[0] == word]


def all_once(p, trials):
    """Nothing was lost and nothing was run twice to its end; no trial has cost a retry."""
    equal(sorted(int(line.split()[1]) for line in lines(p, "end")), list(range(trials)))
    check(all(line.endswith(" 0") for line in lines(p, "begin")), lines(p, "begin"))


def sweep_follows(p):
    """A sweep that names no concurrency: nodes come for the trials that wait, up to the maximum, and go when fewer are left than they have
    room for, while the last ones still run."""
    up(p, CLUSTER)
    (p.root / "hold").touch()
    job = begin(p, "--", BIN / "manta", "sweep", sweep_write(p, 24))
    wait_until(lambda: len(joined(p)) == 4 and len(lines(p, "begin")) >= 4, "four nodes come, and trials run on them")
    wait_until(lambda: all(said in p.manta("scale", "explain") for said in ("wish sweep elastic", "type small has its maximum of 4 nodes")),
               "what it wishes, and why no more come, is told")
    (p.root / "hold").unlink()
    ends_well(p, job)
    all_once(p, 24)
    shrinks(p)
    has("sweep elastic", p.manta("scale", "history"))
    down(p)


def sweep_lets_go(p):
    """Nodes whose trials have ended go back while others still run; where the user names a number, its slots are demand too."""
    up(p, CLUSTER)
    (p.root / "hold").touch()
    file = sweep_write(p, 4, "concurrency: 4")
    script = p.root / "trial.sh"
    script.write_text(script.read_text().replace("/hold ]", "/hold$MANTA_TRIAL ]"))
    (p.root / "hold0").touch()
    for trial in range(1, 4):
        (p.root / f"hold{trial}").touch()
    job = begin(p, "--", BIN / "manta", "sweep", file)
    wait_until(lambda: len(lines(p, "begin")) == 4, "all four run")
    for trial in range(1, 4):
        (p.root / f"hold{trial}").unlink()
    wait_until(lambda: len(joined(p)) == 1 and len(raylets(p)) == 1, "three nodes go back")
    equal(p.json("job", "status", job)["state"], "RUNNING")
    (p.root / "hold0").unlink()
    ends_well(p, job)
    all_once(p, 4)
    shrinks(p)
    down(p)


def sweep_drained(p):
    """A node is taken away: its trial ends there, nothing new begins there, and another node takes what waits. One whose time is up before its
    trial's is no failure of that trial."""
    up(p, CLUSTER.replace("max: 4", "max: 2"))
    (p.root / "hold").touch()
    job = begin(p, "--", BIN / "manta", "sweep", sweep_write(p, 8, "retries: 0"))
    wait_until(lambda: len(lines(p, "begin")) == 2, "two trials run")
    first, second = (int(row["text"].split("node ")[1].split(",")[0]) for row in joined(p))
    p.manta("drain", first, "--deadline", "60")
    p.manta("drain", second, "--deadline", "0.5")
    wait_until(lambda: len(lines(p, "begin")) >= 3, "other nodes take what waits")
    wait_until(lambda: next(n["state"] for n in p.json("list", "nodes") if n["node"] == second) == "LEFT", "what ran there was ended")
    (p.root / "hold").unlink()
    ends_well(p, job)
    all_once(p, 8)
    shrinks(p)
    down(p)


# ---- trainings


def pictures_write(folder):
    source = random.Random(3)
    for prefix, count in (("train", 640), ("t10k", 64)):
        data, labels = source.randbytes(count * 784), bytes(source.randrange(10) for _ in range(count))
        for name, dims, values in ((f"{prefix}-images-idx3-ubyte.gz", (count, 28, 28), data),
                                   (f"{prefix}-labels-idx1-ubyte.gz", (count,), labels)):
            (folder / name).write_bytes(struct.pack(">BBBB", 0, 0, 8, len(dims)) + struct.pack(f">{len(dims)}I", *dims) + values)


def train(p, *words):
    return (BIN / "manta", "train", SOURCE / "examples" / "elastic_training.yaml", "--set", f"data.path={p.root}", *words)


def weights_of(log):
    return log.split("weights=")[1].split()[0]


def saw(p, job, words):
    """Whether the job says this before it is over."""
    wait_until(lambda: words in p.manta("job", "logs", job) or is_over(p, job), words)
    return words in p.manta("job", "logs", job)


def in_time(p, fn):
    """The case with longer and longer trainings: one may be through before a node has come, on a machine that has little time for us."""
    up(p, CLUSTER.replace("max: 4", "max: 2"))
    for epochs in (350, 700, 1400, 2800):
        done = fn(p, epochs)
        shrinks(p)
        if done:
            return down(p)
    return check(False, "each training was through before what was to happen meanwhile")


def training_grows(p):
    """The example's file: begins with one worker on the first node that comes, grows, gives a node back that is taken, and has the weights of
    a run with one worker. When it is over all nodes go back."""
    pictures_write(p.root)
    in_time(p, grows_for)


def grows_for(p, epochs):
    name = f"of-{epochs}"
    more = ("--set", f"run.name={name}", "--set", f"run.epochs={epochs}", "--set", f"run.validate_epochs={epochs}", "--set",
            "run.log_steps=1000", "--set", "run.shards=4")
    job = begin(p, "--", *train(p, *more))
    has_grown = saw(p, job, "workers=2")
    if has_grown:
        has(f"training {name}", p.manta("scale", "history"))
        node = p.manta("job", "logs", job).split("worker rank=1 ")[1].split("node=")[1].split()[0]
        with contextlib.suppress(AssertionError):  # its node may have gone already: then it is over, and was not in time
            p.manta("drain", node, "--deadline", "60")
    if not has_grown or not saw(p, job, "workers=1"):
        ends_well(p, job)
        return False
    log = ends_well(p, job)
    has(" 0 restarts", log)
    has(" 0 steps lost", log)
    alone = subprocess.run([*train(p, *more), "--set", f"run.name={name}-alone", "--set", "scaling.nodes=1", "--set",
                            "scaling.max_workers=1", "--quiet"], text=True, capture_output=True, timeout=60 * SLOWER, check=True,
                           env={k: v for k, v in p.env.items() if k != "XDG_RUNTIME_DIR"})
    equal(weights_of(log), weights_of(alone.stdout))
    return True


def client_goes(p):
    """examples/submit_training.c: a training of one to two nodes on a cluster that has none. Its client is killed when it has grown, and another
    one shows all of it, to the end. Then the nodes go back."""
    pictures_write(p.root)
    in_time(p, client_goes_for)


def client_goes_for(p, epochs):
    words = [BIN / "submit_training", "--nodes", "1:2", "--epochs", str(epochs), "--data", p.root]
    with open(p.root / "out", "wb") as out, open(p.root / "said", "wb") as said:
        client = subprocess.Popen(words, env=p.env, stdout=out, stderr=said)
    wait_until(lambda: "workers=2" in (p.root / "out").read_text() or client.poll() is not None, "it grows")
    was_in_time = client.poll() is None
    client.kill()
    client.wait()
    job = (p.root / "said").read_text().split()[1]
    again = subprocess.run([BIN / "submit_training", "--again", job], env=p.env, capture_output=True, text=True, timeout=60 * SLOWER, check=False)
    equal(again.returncode, 0, again.stderr)
    equal(again.stdout, p.manta("job", "logs", job))
    has("test accuracy=", again.stdout)
    check(again.stdout.startswith((p.root / "out").read_text()), "what the first client has shown is another text")
    equal(again.stderr.strip().startswith(f"{job}: SUCCEEDED"), True)
    return was_in_time


def training_waits(p):
    """Without its fewest workers: one that no node can ever hold fails at once, in the scaler's words. While nodes may come it waits, says why,
    and begins when one is there; at the user's limit it ends."""
    (p.root / "broken").touch()
    text = machines_of(p, 0.5)
    up(p, text)
    pictures_write(p.root)
    never = begin(p, "--", *train(p, "--set", "scaling.cpus=8"))
    p.manta("job", "wait", never, want=1)
    has("no node type can ever hold it", p.manta("job", "logs", never))
    waits = begin(p, "--", *train(p, "--set", "run.name=other"))
    wait_until(lambda: "waits for workers" in p.manta("job", "logs", waits) and "no quota is left" in p.manta("job", "logs", waits),
               "it says why it waits")
    limited = begin(p, "--", *train(p, "--set", "scaling.wait_s=15"))  # the reason is known by now, however long a launch takes to fail
    p.manta("job", "wait", limited, want=1)
    has("no quota is left", p.manta("job", "logs", limited).splitlines()[-1])
    (p.root / "broken").unlink()
    up(p, text)  # it is tried again at once
    ends_well(p, waits)
    shrinks(p)
    down(p)


if __name__ == "__main__":
    results = [run_case(name, globals()) for name in sys.argv[2:]]
    sys.exit(0 if all(results) else 1)
