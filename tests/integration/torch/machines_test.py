#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""machines_test.py BUILD_FOLDER CASE... - ranks on two machines (tests/machines.py).

coll     without torch: members that meet by themselves, over TLS; one with another secret, and one who is cut off
survive  `python -m manta_torch` on both: ranks are killed, then a machine; the weights are those of a calm run on one
torchrun  ranks that torchrun starts: collectives, messages, and weights that are bit by bit those of one machine; what is wrong is told
"""
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import machines  # noqa: E402
import where  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PORT, EACH = 29500, 2  # ranks of a machine
RUN_S = machines.CALL_S * 3  # of a run: each of its processes loads torch, which takes 3 s of a CPU


# ---- without torch ----


def peers(net, what):
    """One on each machine, and where it listens."""
    made = [m.start(sys.executable, HERE / "coll_member.py", BUILD, "peer", m.address, what, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for m in net]
    return [(child, child.stdout.readline().strip()) for child in made]


def meet(found, generation, other=None, limit_ms=60_000):
    for rank, (child, _) in enumerate(found):
        told = {"generation": generation, "rank": rank, "addresses": [at for _, at in found], "limit_ms": limit_ms,
                "secret": (b"y" if rank == other else b"x").hex() * 32}
        child.stdin.write(json.dumps(told) + "\n")
        child.stdin.flush()
    return [child.stdout.readline() for child, _ in found]


def coll(net):
    found = peers(net, "moves+messages")
    assert meet(found, 1) == ["ok\n"] * len(found)
    said = meet(found, 2, other=1, limit_ms=2000)
    assert "EAUTH" in said[1] and "another secret" in said[1] and "ETIMEDOUT" in said[0], said
    assert meet(found, 3) == ["ok\n"] * len(found), "with one secret again"
    net.cut(1)
    said = meet(found, 4, limit_ms=1000)
    assert all("ETIMEDOUT" in text for text in said), said
    net.mend(1)


# ---- with torch ----


def torchrun(net, program, secrets, **env):
    """What each machine's ranks print."""
    started = []
    for m, secret in zip(net, secrets, strict=True):
        m.path("/tmp/secret").write_text(secret)
        m.path("/tmp/secret").chmod(0o600)
        words = ["--nnodes", len(secrets), "--nproc-per-node", EACH, "--node-rank", m.number, "--master-addr", net[0].address,
                 "--master-port", PORT, HERE / "programs.py", program]
        here = where.environment(BUILD) | {"MANTA_TORCH_SECRET": "/tmp/secret"} | env
        started.append(m.start(PYTHON, "-m", "torch.distributed.run", *words, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    return [child.communicate(timeout=RUN_S)[0] for child in started]


def one_machine(program):
    words = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(2 * EACH), HERE / "programs.py", program]
    return subprocess.run(words, env=where.environment(BUILD), capture_output=True, text=True, check=True, timeout=RUN_S).stdout


def digests(text):
    return re.findall("weights ([0-9a-f]{64})", text)


def with_torchrun(net):
    same = ["s" * 40, "s" * 40]
    want = set(digests(one_machine("weights")))
    assert len(want) == 1, want
    said = torchrun(net, "weights", same)
    assert [digests(text) for text in said] == [list(want) * EACH] * 2, said
    for program in ("collectives", "messages"):
        said = torchrun(net, program, same)
        assert all(f"ok {rank}\n" in said[rank // EACH] for rank in range(2 * EACH)), (program, said)
    said = torchrun(net, "weights", ["s" * 40, "short"])
    assert any("a secret has 32 to" in text for text in said), said


def supervised(net, name, kills):
    """`python -m manta_torch` on each machine, and the folder of each run's files."""
    started = []
    for m in net:
        m.path("/tmp/secret").write_text("s" * 40)
        m.path("/tmp/secret").chmod(0o600)
        m.path(f"/tmp/{name}").mkdir()
        words = ["--nproc", EACH, "--nnodes", 2, "--node-rank", m.number, "--rdzv", f"{net[0].address}:{PORT + 1}",
                 HERE / "survivor.py", f"/tmp/{name}", kills]
        here = where.environment(BUILD) | {"MANTA_TORCH_SECRET": "/tmp/secret"}
        started.append(m.start(PYTHON, "-m", "manta_torch", *words, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    return started


def ends(started):
    said = [child.communicate(timeout=RUN_S)[0] for child in started]
    return said, [child.returncode for child in started]


def same_weights(net, name, ranks_on):
    """Of each rank, with those of a run on one machine in which nobody died."""
    for rank, m in enumerate(ranks_on):
        calm, got = net[0].read(f"/tmp/calm/{rank}.weights"), m.read(f"/tmp/{name}/{rank}.weights")
        assert calm == got, (rank, calm, got)


def survive(net):
    m0, m1 = net
    m0.path("/tmp/calm").mkdir()
    words = ["--nproc", 2 * EACH, HERE / "survivor.py", "/tmp/calm", ""]
    m0.run(PYTHON, "-m", "manta_torch", *words, env=where.environment(BUILD), seconds=RUN_S)
    said, codes = ends(supervised(net, "killed", "1@3,3@7,0@11"))
    assert codes == [0, 0] and said[0].count("ended with -9") == 3, (codes, said)
    same_weights(net, "killed", [m0, m0, m1, m1])
    started = supervised(net, "lost", "hold@12")
    machines.wait_until(lambda: m0.path("/tmp/lost/events").exists() and m0.read("/tmp/lost/events").count("hold") == EACH, "all are there",
                        RUN_S)
    m1.die()
    m0.path("/tmp/lost/go").touch()
    said, codes = ends(started)
    assert codes[0] == 0 and "machine 1 is lost" in said[0], (codes, said)
    same_weights(net, "lost", [m0] * 4)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    PYTHON = where.python_with_torch() if {"torchrun", "survive"} & set(sys.argv) else None
    sys.exit(machines.main({name: {"coll": coll, "survive": survive, "torchrun": with_torchrun}[name] for name in sys.argv[2:]},
                           lambda: machines.Machines(2, BUILD / "bin")))
