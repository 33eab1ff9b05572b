#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_test.py BIN CASE... - trainings over machines (tests/machines.py); data and checkpoints lie on the first alone.

weights    the same weights on two machines as on one; data that is only on the first goes to the second
passed     nodes are passed over: one that has too few CPUs, one that can't get a mapped file; the reason is told, once for each
types      a member of another CPU type: its node is passed over and the reason told
fetched    mapped files come by their SHA-256 to a machine that lacks them, once; a link that is cut meanwhile costs no failure
drained    a machine is drained: its worker leaves after a step, no failure is counted, the weights are those of a calm run
planned    machines come and are drained, 1 -> 3 -> 1: no failure, no step lost, the weights of a calm run; prints each change's pause
doubled    no folder that several machines see: each checkpoint stands on two; the driver's machine, with all that it has, is lost, and
           the same command on a third goes on from the other's
sharded    the optimizer's state in shards, and no folder that several machines see: each shard stands on two; a drained machine's
           move before it leaves; a machine is lost, and the run goes on from what the others have; a driver that is new finds
           them again, a damaged one too
least      nodes 2:3: it does not begin on one machine, grows with the third, and waits when one of two leaves until another comes
silent     the link to a machine is cut: the training goes on without it, no failure is counted
killed     all processes of a machine are killed: the training goes on with the other, and ends with the weights of a calm run
"""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import machines  # noqa: E402
from machines import wait_until  # noqa: E402

RECORDS = 4096
TRIES = 5
TRAIN_S = 4 * machines.CALL_S  # a training of some seconds, beside others on two CPUs
RANK_0 = 32  # its row in a timeline
KEPT = f"/tmp/manta-data-{os.getuid()}"


class Cluster(machines.Machines):
    """Machines of two CPUs each, joined over TLS."""

    def __init__(self, count=2):
        super().__init__(count, BIN)

    def start(self, joined=None):
        head = self[0]
        head.manta("start", "--head", "--num-cpus", 2, "--node-name", "m0", "--bind", head.address)
        for m in list(self)[1:joined]:
            self.join(m)
        head.path("/tmp/data.csv").write_text("".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(RECORDS)))

    def join(self, m, cpus=2):
        self[0].copy(self[0].folder / "join", m, "/tmp/join")
        m.manta("start", "--join", "/tmp/join", "--num-cpus", cpus, "--node-name", m.name)
        wait_until(lambda: self.states().get(m.name) == "ALIVE", f"{m.name} is there")

    def states(self):
        return {n["name"]: n["state"] for n in self[0].json("list", "nodes")}

    def settings(self, nodes, **more):
        options = {"epochs": 2, "batch": 64, "shards": 4, "min": 2, "max": 2, "data": "/tmp/data.csv", "label": "label: -1",
                   "validate": 1, "cpus": 0, "hidden": [16], "run": "", "extra": ""} | more
        return f"""model: {{name: mlp, hidden: {options["hidden"]}}}
data: {{path: {options["data"]}, {options["label"]}}}
run: {{epochs: {options["epochs"]}, batch: {options["batch"]}, shards: {options["shards"]}, validate_epochs: {options["validate"]}{options["run"]}}}
scaling: {{min_workers: {options["min"]}, max_workers: {options["max"]}, nodes: {nodes}, cpus: {options["cpus"]}}}
{options["extra"]}
seed: 1
"""

    def train(self, name, nodes, want=0, **more):
        self[0].path(f"/tmp/{name}.yaml").write_text(self.settings(nodes, **more))
        return self[0].run(BIN / "manta", "train", f"/tmp/{name}.yaml", want=want, env={"MANTA_ADDRESS": str(self[0].folder)},
                           seconds=TRAIN_S)

    def stop(self):
        for m in reversed(list(self)):
            m.manta("stop", "--purge")
        for m in self:
            wait_until(lambda: not m.processes(), f"all processes of {m.name} end")


def weights_of(out):
    return re.search("weights=([0-9a-f]{16})", out).group(1)


def nodes_of(out):
    """That had workers."""
    return {int(n) for n in re.findall("worker rank=.* node=([0-9]+)", out)}


def weights(net):
    net.start()
    one, two = net.train("one", 1), net.train("two", "1:2")
    assert weights_of(one) == weights_of(two), f"{one}{two}"
    assert len(nodes_of(two)) == 2 and "0 restarts" in two, two
    net.stop()


def calm(net, **more):
    return weights_of(net.train("calm", 1, **more))


def cpu_s(pid):
    """That the process has used, which is there."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def actors(net):
    """Workers that are there."""
    return [a for a in net[0].json("list", "actors") if a["type"] == "manta_sgd_worker" and a["state"] == "ALIVE"]


class Run:
    """A training while it runs."""

    def __init__(self, net, name="run", on=0, **more):
        self.on = net[on]
        self.name = name
        self.on.path(f"/tmp/{name}.yaml").write_text(net.settings(more.pop("nodes", 2), **more))
        self.out = self.on.path(f"/tmp/{name}.out").open("w")
        self.process = self.on.start(BIN / "manta", "train", f"/tmp/{name}.yaml", stdout=self.out, stderr=self.out,
                                     env={"MANTA_ADDRESS": str(self.on.folder)})

    def text(self):
        return self.on.read(f"/tmp/{self.name}.out")

    def says(self, pattern):
        wait_until(lambda: re.search(pattern, self.text()) or self.process.poll() is not None, f"{pattern!r} is said")
        assert re.search(pattern, self.text()), f"{pattern!r} is not in: {self.text()[-3000:]}"

    def end(self, want=0):
        status = self.process.wait(TRAIN_S)
        self.out.close()
        assert status == want, self.text()[-3000:]
        return self.text()


LONG = {"epochs": 1000, "validate": 500}  # some seconds on two machines


def struck(net, blow, sign, mend, **more):
    """A run under way that has said this sign of a blow. It is some seconds long: where this machine has stood still for as long it was
    over before, and there is another one when what the blow did is undone."""
    for _ in range(TRIES):
        run = Run(net, **LONG, **more)
        run.says("step=[0-9]+ loss")
        begun = time.monotonic()
        blow()
        wait_until(lambda run=run: re.search(sign, run.text()) or run.process.poll() is not None, f"{sign!r} is said")
        if re.search(sign, run.text()):
            print(f"until the next step: {time.monotonic() - begun:.3f} s")
            return run
        out = run.end()
        mend()
    raise AssertionError(f"{TRIES} runs say nothing of a blow: {out[-3000:]}")


def leaves(net):
    wait_until(lambda: net.states().get("m1") in ("LEFT", "DEAD", None), "the drained node leaves")


def comes_back(net):
    wait_until(lambda: net.states().get("m1") != "ALIVE", "it is known that m1 has gone")
    net.join(net[1])


def drained(net):
    net.start()
    want = calm(net, **LONG)
    run = struck(net, lambda: net[0].manta("drain", "m1", "--deadline", 30), "(?s)worker rank=1 .*worker rank=1 .* node=1",  # another one, here
                 lambda: comes_back(net), extra="failure: {max_failures: 0}")
    leaves(net)
    out = run.end()
    assert len(nodes_of(out)) == 2 and weights_of(out) == want and "0 restarts" in out and "0 steps lost" in out, out[-3000:]
    net.stop()


def killed(net):
    net.start()
    want = calm(net, **LONG)
    out = struck(net, net[1].die, "recovered in", lambda: comes_back(net), extra="failure: {max_failures: 1}").end()
    print(re.search("recovered in.*", out).group(0))
    assert len(nodes_of(out)) == 2 and weights_of(out) == want and "1 restarts" in out, out[-3000:]
    net.stop()


def silent(net):
    net.start()
    want = calm(net, **LONG)
    run = struck(net, lambda: net.cut(1), "recovered in", lambda: heard_again(net), extra="failure: {max_failures: 0}")
    net.mend(1)
    out = run.end()
    print(re.search("recovered in.*", out).group(0))
    assert weights_of(out) == want and "0 restarts" in out and "0 steps lost" in out, out[-3000:]
    heard_again(net)
    net.stop()


def heard_again(net):
    net.mend(1)
    wait_until(lambda: net.states().get("m1") == "ALIVE", "the machine is there again")


def spans_of(text):
    """What rank 0 did, by a run's timeline."""
    spans = [json.loads(line.rstrip(",")) for line in text.splitlines() if line.startswith('{"ph":"X"')]
    return [s for s in spans if s["tid"] == RANK_0]


def steps_of(spans):
    """Beginning and end of each step in ms; of one that was made again, of the last time."""
    made = {s["args"]["step"]: (s["ts"] / 1e3, (s["ts"] + s["dur"]) / 1e3) for s in spans if s["name"] == "step"}
    return [made[step] for step in sorted(made)]


def changes_tell(spans, count):
    """The longest times in which no step was under way that counts, and how much of each the state took; beside each the step behind
    it, and how long later ones take."""
    steps = steps_of(spans)
    states = [(s["ts"] / 1e3, s["dur"] / 1e3) for s in spans if s["name"] == "state"]
    pauses = sorted(range(1, len(steps)), key=lambda i: steps[i - 1][1] - steps[i][0])[:count]
    for i in sorted(pauses):
        later = sorted(end - begin for begin, end in steps[i + 1:i + 12])
        state = sum(took for begun, took in states if steps[i - 1][1] <= begun <= steps[i][0])
        print(f"pause {steps[i][0] - steps[i - 1][1]:.1f} ms, {state:.1f} of it for the state, before a step of {steps[i][1] - steps[i][0]:.1f} ms; "
              f"a step later {later[len(later) // 2]:.1f} ms")


def planned(net):
    """A model of 10 MB; each machine has room for one worker."""
    net.start(joined=1)
    model = {"hidden": [1600, 1600], "epochs": 9, "validate": 9, "cpus": 2}
    want = calm(net, **model, min=1, max=1)
    run = Run(net, nodes="1:3", min=1, max=3, run=", timeline: /tmp/timeline.json", extra="failure: {max_failures: 0}", **model)
    run.says("step=[0-9]+ loss")
    for m in list(net)[1:]:
        net.join(m)
        run.says(f"worker rank={m.number} ")
    for m in list(net)[1:]:
        net[0].manta("drain", m.name, "--deadline", 30)
        wait_until(lambda m=m: net.states().get(m.name) in ("LEFT", "DEAD", None), "the drained node leaves")
    assert run.process.poll() is None, "the run has ended before the last change"
    out = run.end()
    changes_tell(spans_of(net[0].read("/tmp/timeline.json")), 4)
    assert weights_of(out) == want and "0 restarts" in out and "0 steps lost" in out, out[-3000:]
    assert len(nodes_of(out)) == 3, out
    assert re.search("workers=[0-9] made ready beside the last ones", out), out[-3000:]  # on a busy machine not each time
    net.stop()


def least(net):
    """Workers that reserve nothing: one machine had room for all three."""
    net.start(joined=1)
    model = LONG | {"min": 1, "max": 3}
    want = calm(net, **model)
    never = Run(net, name="never", nodes="3:3", **model)
    run = Run(net, nodes="2:3", extra="failure: {max_failures: 0}", **model)
    wait_until(lambda: len(actors(net)) == 2 + 1, "the last worker of the one, and two of the other, are kept for machines to come")
    run.says("waits for workers, on at least 2 nodes: ")
    assert "loss" not in run.text(), run.text()
    used, began = cpu_s(never.process.pid), time.monotonic()
    net.join(net[1])
    run.says("worker rank=1 ")
    net[0].manta("drain", "m1", "--deadline", 30)
    leaves(net)
    net.join(net[2])
    run.says("step=[0-9]+ loss")
    out = run.end()
    assert weights_of(out) == want and "0 restarts" in out and "0 steps lost" in out, out[-3000:]
    assert len(nodes_of(out)) == 3, out
    used, waited = cpu_s(never.process.pid) - used, time.monotonic() - began
    print(f"who waits for workers used {used:.2f} s of a CPU in {waited:.1f} s")
    assert used < waited / 10, f"who waits for workers used {used} s of a CPU in {waited} s"
    assert "scaling.min_nodes is 3" in never.end(want=1), never.text()
    net.stop()


def saved(machine):
    """Steps of its whole checkpoints, and what the newest one's tensors are."""
    folder = machine.path("/tmp/storage/run")
    names = sorted(f.name for f in folder.glob("step-*")) if folder.exists() else []
    return [int(n[5:]) for n in names], (folder / names[-1] / "model.safetensors").read_bytes() if names else b""


def doubled(net):
    """The head's machine is not the driver's, so the cluster outlives that."""
    net.start()
    net[0].copy("/tmp/data.csv", net[1], "/tmp/data.csv")
    want = calm(net, **LONG)
    more = LONG | {"run": ", name: run, storage: /tmp/storage", "nodes": "2:2", "extra": "checkpoint: {every_steps: 500}"}
    run = Run(net, on=1, **more)
    run.says("step=[0-9]+ loss")
    wait_until(lambda: saved(net[1])[0] and any(saved(m)[0] for m in (net[0], net[2])), "a checkpoint stands on two machines")
    second, third = (net[0], net[2]) if saved(net[0])[0] else (net[2], net[0])
    assert not saved(third)[0]
    net[1].die()
    run.process.wait(TRAIN_S)
    steps = saved(second)[0]
    if third.number:
        net[0].copy("/tmp/data.csv", third, "/tmp/data.csv")
    wait_until(lambda: net.states().get("m1") != "ALIVE", "the lost machine is known to be lost")
    again = Run(net, name="again", on=third.number, **more)
    out = again.end()
    begun = re.search("resumed from a checkpoint of another machine.* step=([0-9]+)", out)
    assert begun and int(begun.group(1)) >= steps[-1] > 0 and weights_of(out) == want, out[-3000:]
    assert saved(second) == saved(third) and len(saved(third)[0]) == 2, (saved(second)[0], saved(third)[0])
    net.stop()


STORED = "/tmp/storage/run"


def checkpoints(machine):
    """What its folder has while a run writes there: of each step, newest first, of how many parts it is and which of these are there."""
    folder = machine.path(STORED)
    found = {}
    for step in sorted((f.name for f in folder.glob("step-*")) if folder.exists() else [], reverse=True):
        with contextlib.suppress(FileNotFoundError):  # it was an old one, and is gone
            names = [re.fullmatch(r"optimizer-(\d+)-of-(\d+).json", f.name) for f in (folder / step).iterdir()]
            some = [(int(m[1]), int(m[2])) for m in names if m]
            if some:
                found[int(step[5:])] = (some[0][1], {p for p, _ in some})
    return found


def parts(machine):
    """What its newest checkpoint has: its step, of how many parts, which of these."""
    return next(((step, *have) for step, have in checkpoints(machine).items()), (0, 0, set()))


def kept_by(net, *numbers):
    """These machines have a checkpoint of one step, and each of its parts stands on two of them."""
    have = [checkpoints(net[n]) for n in numbers]
    for step in set(have[0]).intersection(*have):
        count = have[0][step][0]
        if sorted(p for h in have for p in h[step][1]) == sorted(2 * list(range(count))):
            return True
    return False


def sharded(net):
    """Each machine has room for one worker. What is lost is neither the head's machine nor the driver's."""
    net.start()
    model = {"hidden": [256, 256], "epochs": 120, "validate": 60, "cpus": 2}
    want = calm(net, **model, min=1, max=1)
    more = model | {"run": ", name: run, storage: /tmp/storage", "min": 2, "max": 3}
    extra = "checkpoint: {every_steps: 100}\noptimizer: {zero: 1}\nfailure: {max_failures: 1}"
    run = Run(net, nodes="2:3", extra=extra, **more)
    wait_until(lambda: kept_by(net, 0, 1, 2), "each shard stands on two of three machines")
    net[0].manta("drain", "m2", "--deadline", 60)
    wait_until(lambda: net.states().get("m2") != "DRAINING", "the drained node leaves")
    left = [checkpoints(net[n]) for n in range(3)]
    whole = [max((step for step, (count, some) in have.items() if some == set(range(count))), default=0) for have in left[:2]]
    assert net.states().get("m2") in ("LEFT", None) and min(whole) >= max(left[2], default=0) > 0, left
    net.join(net[2])
    wait_until(lambda: kept_by(net, 0, 1, 2), "and again")
    assert run.process.poll() is None and "resumed" not in run.text() and "steps lost" not in run.text(), run.text()[-3000:]
    net[1].die()
    run.says("resumed from a checkpoint.* steps lost=[0-9]+")
    out = run.end()
    assert weights_of(out) == want and "1 restarts" in out, out[-3000:]
    again_elsewhere(net, extra, more, want)
    net.stop()


def again_elsewhere(net, extra, more, want):
    """A driver on another machine, where one part is missing and another is damaged."""
    step, count, there = parts(net[2])
    folder = net[2].path(STORED) / f"step-{step:020}"
    assert there == set(range(count)) and (step, count, there) == parts(net[0]), (parts(net[0]), parts(net[2]))
    for name in (f"optimizer-0-of-{count}.safetensors", f"optimizer-0-of-{count}.json"):
        (folder / name).unlink()
    damaged = folder / f"optimizer-1-of-{count}.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    net[0].copy("/tmp/data.csv", net[2], "/tmp/data.csv")
    out = Run(net, name="again", on=2, nodes="2:2", extra=extra, **more | {"max": 2}).end()
    assert f"resumed from a checkpoint at step={step}" in out and "skipped" not in out and weights_of(out) == want, out[-3000:]


def npy(values, shape, kind):
    head = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values


def tables(net, width=2):
    """Records that are mapped, on the first machine alone, and the settings for them."""
    values = b"".join(struct.pack(f"<{width}f", *([i % 7, i % 5] * (width // 2))) for i in range(RECORDS))
    net[0].path("/tmp/data.npy").write_bytes(npy(values, (RECORDS, width), "f4"))
    net[0].path("/tmp/labels.npy").write_bytes(npy(bytes(i % 2 for i in range(RECORDS)), (RECORDS,), "u1"))
    return {"data": "/tmp/data.npy", "label": "labels: /tmp/labels.npy", "min": 1}


def kept(machine):
    """Other machines' files that it keeps, by their sum; each is what its name says."""
    files = sorted(f for f in machine.path(KEPT).iterdir() if len(f.name) == 64)
    assert all(hashlib.sha256(f.read_bytes()).hexdigest() == f.name for f in files), files
    return [f.name for f in files]


def passed(net):
    net.start()
    more = tables(net) | LONG
    net[1].path(KEPT).mkdir(mode=0o755)  # anybody could write there
    net[1].path(KEPT).chmod(0o755)
    out = net.train("lacks", 2, **more)
    other = {n["name"]: n["node"] for n in net[0].json("list", "nodes")}["m1"]
    lines = [line for line in out.splitlines() if f"node {other} has no workers of this run" in line]
    assert len(lines) == 1 and "/tmp/data.npy" in lines[0] and "not this user's alone" in lines[0], out
    assert other not in nodes_of(out) and "0 restarts" in out, out
    for name in ("data.npy", "labels.npy"):
        net[0].copy(f"/tmp/{name}", net[1], f"/tmp/{name}", 0o644)
    assert len(nodes_of(net.train("has", 2, **more))) == 2 and not kept(net[1])
    net[1].manta("stop")
    net.join(net[1], cpus=1)
    out = net.train("small", 2, cpus=2, max=1, min=1, **LONG)
    lines = [line for line in out.splitlines() if "has no workers of this run" in line]
    assert len(lines) == 1 and "a worker reserves 2 CPUs" in lines[0], out
    net.stop()


def types(net):
    """Of a run that is longer than any worker takes to start."""
    net.start(joined=1)
    preload = BIN.parent / "lib" / "other_cpu.so"
    net[1].run("sh", "-ec", f"cp -a /etc /tmp/etc; echo {preload} >/tmp/etc/ld.so.preload; mount --bind /tmp/etc /etc")
    net.join(net[1])
    run = Run(net, nodes="1:2", min=1, epochs=1000 * 1000, validate=1000 * 1000)
    run.says("has no workers of this run: .*its CPU gives other bits .*Prescott")
    before = run.text().count("loss=")
    wait_until(lambda: run.text().count("loss=") > before + 2, "the run goes on without it")
    run.process.kill()
    run.process.wait(machines.CALL_S)
    run.out.close()
    assert len(nodes_of(run.text())) == 1 and run.text().count("has no workers of this run") == 1, run.text()[-3000:]
    net.stop()


def fetched(net):
    """Mapped files come to the machine that lacks them, once; over a link that is cut meanwhile, when it is mended."""
    net.start()
    more = tables(net) | {"min": 2}
    want = weights_of(net.train("one", 1, **more))
    for _ in range(2):
        out = net.train("two", "2:2", **more)
        assert weights_of(out) == want and len(nodes_of(out)) == 2, out
        assert len(kept(net[1])) == 2, kept(net[1])
    more = tables(net, 256) | LONG
    want = weights_of(net.train("wide", 1, **more))
    net.limit(0, "4mbit")  # a file takes 8 s, so that the cut falls while it is on its way
    run = Run(net, extra="failure: {max_failures: 0}", nodes="1:2", **more)
    wait_until(lambda: net[1].path(KEPT + "/part").exists(), "a file is on its way")
    net.cut(1)
    out = run.end()
    assert weights_of(out) == want and "0 restarts" in out and len(nodes_of(out)) == 1, out[-3000:]
    net.mend(1)
    net.limit(0, None)
    wait_until(lambda: net.states().get("m1") == "ALIVE", "the machine is there again")
    out = net.train("again", "2:2", **more | {"min": 2})
    assert weights_of(out) == want and len(nodes_of(out)) == 2 and len(kept(net[1])) == 3, out
    net.stop()


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    sys.exit(machines.main({name: globals()[name] for name in sys.argv[2:]}, lambda: Cluster(3 if {"planned", "least", "doubled", "sharded"} & set(sys.argv) else 2)))
