#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubernetes_test.py BIN CASE... - nodes that are pods: the provider, the real kubectl, and the Kubernetes of api.py.

grows     what waits gets pods that become ready and join by a ticket of their own; all goes again
deleted   somebody else ends a pod: its node drains before that, and what ran there runs on another one
refused   why nothing is started: settings, quota, rights, no machine, no image, a start that fails, a kubectl that hangs or is not there
measure   not in ctest: what a node by Kubernetes takes, beside kubectl until its pod runs
"""
import json
import pathlib
import shutil
import subprocess
import sys
import time

BIN = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import cli_test  # noqa: E402
from cli_test import check, equal, has, wait_until  # noqa: E402

import api  # noqa: E402
import yaml  # noqa: E402

DEPLOY = pathlib.Path(__file__).resolve().parents[3] / "deploy/kubernetes"
IMAGE = "registry.test/manta:0.1.0"


def rights():
    documents = yaml.safe_load_all((DEPLOY / "access.yaml").read_text())
    return next(d["rules"] for d in documents if d["kind"] == "Role")


class World:
    """A head on this machine, and a Kubernetes."""

    def __init__(self, p):
        self.p = p
        self.k = api.Cluster(p.root / "pods", p.base, rights(), {IMAGE})
        self.config("kube", self.k.config())
        p.manta("start", "--head", "--num-cpus", 0, "--tls-dir", p.folder / "tls")

    def config(self, name, text):
        (self.p.root / name).write_text(json.dumps(text))
        (self.p.root / name).chmod(0o600)

    def up(self, types=None, idle_s=0.5, min=0, **settings):
        """`types`: the settings of each; that called `room` has a GPU."""
        provider = {"kind": "kubernetes", "kubeconfig": self.p.root / "kube", "prefix": BIN.parent, "image": IMAGE, "pending_s": 0} | settings
        wanted = {name: {"resources": {"CPU": 2, "memory": "256MiB"} | ({"GPU": 1} if name == "room" else {}), "min": min, "max": 2, "idle_s": idle_s,
                         "boot_s": 30, "settings": {"store_memory": 67108864} | of_type} for name, of_type in (types or {"pod": {}}).items()}
        file = self.p.root / "cluster.yaml"
        file.write_text(json.dumps({"provider": {k: v for k, v in provider.items() if v is not None}, "types": wanted}, default=str))
        self.p.manta("up", file)

    def submit(self, *words, cpus=2):
        go = self.p.root / "go"
        return self.p.manta("submit", "--num-cpus", cpus, *words, "--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done").strip()

    def runs(self, job):
        wait_until(lambda: self.p.json("job", "status", job)["state"] == "RUNNING", "the job runs")

    def explains(self, word, seconds=None):
        wait_until(lambda: word in self.p.manta("scale", "explain") + self.p.manta("scale", "status"), f"it is explained: {word}", seconds)

    def kubectl(self, *words, want=0):
        done = subprocess.run(["kubectl", "--kubeconfig", self.p.root / "kube", *words], capture_output=True, text=True, timeout=60, check=False,
                              env=self.p.env)
        equal(done.returncode, want, f"from kubectl {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def shrinks(self):
        wait_until(lambda: not self.k.objects["pods"], "no pod is left", 40)
        equal(self.k.objects["secrets"], {})
        wait_until(lambda: not [r for r in self.p.json("scale", "status") if r["what"].startswith("instance")], "no record is left")

    def end(self):
        self.p.manta("down")
        self.shrinks()
        equal(self.k.broken, [])
        self.p.manta("stop")


def grows(p, w):
    w.up(tolerate="nvidia.com/gpu,spot", node_selector="disk=ssd", service_account="jobs", priority_class="low", pull="Never", pull_secret="r")
    jobs = [w.submit() for _ in range(2)]
    for job in jobs:
        w.runs(job)
    wait_until(lambda: len(w.k.was_ready) == 2, "both are ready")
    equal(len({p.json("job", "status", job)["node"] for job in jobs}), 2)
    tickets = [o["stringData"]["join"] for o in w.k.made if o["kind"] == "Secret"]
    pods = [o for o in w.k.made if o["kind"] == "Pod"]
    check(len(tickets) == len(pods) == 2 and tickets[0] != tickets[1], "a ticket for each")
    for line in tickets[0].split("\n"):
        check(len(line) < 20 or line not in json.dumps(pods), "a ticket stands in a pod's manifest")
    equal(pods[0]["spec"]["tolerations"], [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}])
    (p.root / "go").touch()
    for job in jobs:
        p.manta("job", "wait", job)
    w.shrinks()
    equal(w.k.killed, [])
    w.end()


def deleted(p, w):
    w.up(idle_s=600, grace_s=14)  # half of it is the job's; the other half is to be enough for all else, on a busy machine too
    job = w.submit("--retries", 0)
    w.runs(job)
    before = p.json("job", "status", job)["node"]
    w.kubectl("delete", "pods", "--selector", "app.kubernetes.io/name=manta", "--wait=false")
    wait_until(lambda: p.json("job", "status", job)["node"] not in (before, None), "it runs on another node, which costs no retry", 60)
    rows = {row["node"]: row for row in p.json("list", "nodes")}
    has("Kubernetes ends its pod", json.dumps(rows[before]))
    (p.root / "go").touch()
    p.manta("job", "wait", job)
    equal([(code, w.k.killed) for _, code, _ in w.k.stops], [(0, [])])
    w.end()


def refused(p, w):
    w.up(image=None)
    job = w.submit()
    w.explains("its settings have no image")
    w.up(grace_s="long")
    w.explains("its setting grace_s (long) is no whole number")
    w.up(kubectl=p.root / "nowhere/kubectl")
    w.explains("nowhere/kubectl: No such file or directory")
    slow = p.root / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o700)
    w.up(kubectl=slow, request_s=1)
    w.explains("slow took too long")
    w.config("stranger", w.k.config("wrong"))
    w.up(kubeconfig=p.root / "stranger")
    w.explains("Unauthorized")
    w.k.quota = 0
    w.up()
    w.explains("exceeded quota: small")
    w.k.quota = 1000
    p.manta("job", "stop", job)
    w.up({"image": {"image": "registry.test/manta:none"}, "program": {"prefix": str(p.root)}, "room": {"tolerate": "x"}}, min=1)
    for reason in ("its container can't be started: ImagePullBackOff: Back-off pulling image \"registry.test/manta:none\"",
                   f"its pod has ended: Error (status 127): {p.root}/bin/manta: 1: exec: {p.root}/bin/manta: not found",
                   "no machine can take its pod: 1 Insufficient nvidia.com/gpu. preemption: \"none\""):
        w.explains(reason)
    w.up({"room": {}}, pending_s=1000)
    job = w.submit("--num-gpus", 1)
    wait_until(lambda: "Pending" in w.kubectl("get", "pods", "--output", "jsonpath={.items[*].status.phase}"), "it waits for a machine")
    w.k.has["nvidia.com/gpu"] = 1
    (p.root / "go").touch()
    p.manta("job", "wait", job)
    w.end()


def measure(p, w):
    """Not a test: from the submit of a job until it has run on a pod that was made for it, beside two kubectl that make and list."""
    w.up()
    job = ("submit", "--follow", "--num-cpus", 2, "--", "true")
    taken, floors = [], []
    for _ in range(5):
        w.shrinks()
        begun = time.monotonic()
        p.manta(*job)
        taken.append(time.monotonic() - begun)
        begun = time.monotonic()
        w.kubectl("get", "pods")
        floors.append(time.monotonic() - begun)
    print(f"scale_kubernetes {sorted(taken)[2] * 1000:.0f} ms, one kubectl {sorted(floors)[2] * 1000:.0f} ms")
    w.end()


def with_world(case):
    def run(p):
        w = World(p)
        try:
            case(p, w)
        except AssertionError:
            for log in (p.root / "pods").glob("*/log"):
                print(f"-- {log}\n{log.read_text(errors='replace')[-1000:]}")
            print(p.manta("scale", "history"))
            raise
        finally:
            w.k.close()
    return run


def why_not():
    if not shutil.which("kubectl"):
        return "no kubectl here (kubernetes-client)"
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/run"], capture_output=True, text=True, check=False)
    return f"namespaces can't be made here: {done.stderr.strip()}" if done.returncode else None


if __name__ == "__main__":
    if why_not():
        print(why_not())
        sys.exit(77)
    cases = {name: with_world(globals()[name]) for name in sys.argv[2:]}
    sys.exit(0 if all([cli_test.run_case(name, cases) for name in cases]) else 1)
