#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_test.py BIN CASE... - trainings over machines (tests/machines.py); data and checkpoints lie on the first alone.

weights    the same weights on two machines as on one; data that is only on the first goes to the second
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import machines  # noqa: E402
from machines import wait_until  # noqa: E402

RECORDS = 4096


class Cluster(machines.Machines):
    """Machines of two CPUs each, joined over TLS."""

    def __init__(self, count=2):
        super().__init__(count, BIN)

    def start(self):
        head = self[0]
        head.manta("start", "--head", "--num-cpus", 2, "--node-name", "m0", "--bind", head.address)
        for m in list(self)[1:]:
            self.join(m)
        head.path("/tmp/data.csv").write_text("".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(RECORDS)))

    def join(self, m):
        self[0].copy(self[0].folder / "join", m, "/tmp/join")
        m.manta("start", "--join", "/tmp/join", "--num-cpus", 2, "--node-name", m.name)
        wait_until(lambda: self.states().get(m.name) == "ALIVE", f"{m.name} is there")

    def states(self):
        return {n["name"]: n["state"] for n in self[0].json("list", "nodes")}

    def settings(self, nodes, **more):
        options = {"epochs": 2, "batch": 64, "shards": 4, "min": 2, "max": 2, "data": "/tmp/data.csv", "extra": ""} | more
        return f"""model: {{name: mlp, hidden: [16]}}
data: {{path: {options["data"]}, label: -1}}
run: {{epochs: {options["epochs"]}, batch: {options["batch"]}, shards: {options["shards"]}}}
scaling: {{min_workers: {options["min"]}, max_workers: {options["max"]}, nodes: {nodes}}}
{options["extra"]}
seed: 1
"""

    def train(self, name, nodes, want=0, **more):
        self[0].path(f"/tmp/{name}.yaml").write_text(self.settings(nodes, **more))
        return self[0].run(BIN / "manta", "train", f"/tmp/{name}.yaml", want=want, env={"MANTA_ADDRESS": str(self[0].folder)})

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
    one, two = net.train("one", 1), net.train("two", 2)
    assert weights_of(one) == weights_of(two), f"{one}{two}"
    assert len(nodes_of(two)) == 2 and "0 restarts" in two, two
    net.stop()


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv[1]).resolve()
    sys.exit(machines.main({name: globals()[name] for name in sys.argv[2:]}, Cluster))
