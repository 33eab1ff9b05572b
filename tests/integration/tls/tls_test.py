#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# tls_test.py BIN DRIVER CASE... - two machines (tests/machines.py) run one cluster with TLS.
# Every packet on the wire is looked at. Each case fails where it leaves a process or a file.
import json
import os
import pathlib
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
import machines  # noqa: E402
from gone import has_gone  # noqa: E402
from machines import CALL_S, wait_until  # noqa: E402

HERE = pathlib.Path(__file__).resolve()
WAIT_S = 20 * machines.SLOWER  # longest wait for anything that must happen
MIB = 16
ADDRESS = [machines.address(n) for n in range(2)]
ADDRESS_6 = [machines.address_6(n) for n in range(2)]


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(got, wanted, text=""):
    check(got == wanted, f"{got!r} instead of {wanted!r} {text}")


def has(word, text):
    check(word in text, f"{word!r} is not in: {text}")


class Pair(machines.Machines):
    """Two machines, and who listens to what is between them."""

    def __init__(self):
        super().__init__(2, BIN, [DRIVER.parent])
        self.ear, self.token = None, ""
        self.mark = "mark-" + secrets.token_hex(16)

    def listen(self):
        """From now on every packet is looked at."""
        self.ear = subprocess.Popen(self[0].inside(sys.executable, HERE, "listen", network_only=True), stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        equal(self.ear.stdout.readline(), "ready\n")

    def heard(self, *words):
        """Which of the words stood on the wire in clear; and that it heard anything."""
        out, _ = self.ear.communicate("".join(f"{word}\n" for word in words), timeout=CALL_S)
        found = json.loads(out)
        self.ear = None
        check(found["bytes"] > MIB << 20, f"the listener has heard too little: {found}")
        return found["words"]

    def start_head(self, *words):
        out = self[0].manta("start", "--head", "--num-cpus", 2, "--node-name", "m0", "--bind", ADDRESS[0], *words)
        self.token = self[0].read(self[0].folder / "token").strip()
        return out

    def join(self, *words):
        """Copies the file as an operator would."""
        self[0].copy(self[0].folder / "join", self[1], "/tmp/copy")
        return self[1].manta("start", "--join", "/tmp/copy", "--num-cpus", 2, "--node-name", "m1", *words)

    def nodes(self):
        return {n["name"]: n for n in self[0].json("list", "nodes")}

    def work(self, m=0):
        """From machine m to the other one."""
        other = self.nodes()[f"m{1 - m}"]["node"]
        out = self[m].run(DRIVER, other, MIB, self.mark, env={"MANTA_ADDRESS": str(self[m].folder)})
        equal(sorted(out.split("\n")[4:6]), ["node here is near", "node there is remote"])
        equal(out.split("\n")[:4], [f"tasks {sum(range(50)) * 1000 + 50 * other}", "actor 100", f"value there {MIB << 20}",
                                    f"value here {MIB << 20}"])

    def stop(self):
        self[1].manta("stop", "--purge")
        self[0].manta("stop", "--purge")
        for m in self:
            wait_until(lambda: not m.processes(), f"all processes of machine {m.number} end")
            equal([str(path) for path in m.path("/tmp/run").rglob("*")], [], "is left over")

    def close(self):
        if getattr(self, "ear", None):
            self.ear.kill()
            self.ear.wait()
        super().close()


def listen():
    """Keeps what stands on the wire; then tells which of the words that come in stood there."""
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ear.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
    ear.bind(("wire", 0))
    print("ready", flush=True)
    packets = []
    while True:
        ready, _, _ = select.select([ear, sys.stdin], [], [])
        if ear in ready:
            packets.append(ear.recv(1 << 17))
        elif ready:
            break
    words = sys.stdin.read().split()
    whole = b"\n".join(packets)
    print(json.dumps({"bytes": len(whole), "words": [word for word in words if word.encode() in whole]}))


# ---- cases ----
def joined(p):
    out = p.start_head()
    has(str(p[0].folder / "join"), out)
    p.listen()
    p.join()
    for m in p:
        status = m.manta("status")
        has("TLS", status)
        check("WARNING" not in status, status)
        equal([n["name"] for n in m.json("list", "nodes")], ["m0", "m1"])
    for name, m in zip(("m0", "m1"), p):
        has(m.address, p.nodes()[name]["address"])
    p.work(0)
    p.work(1)
    has("it ran", p[1].manta("submit", "-f", "--num-cpus", "1", "--", "echo", "it ran"))
    equal(p.heard(p.token, p.mark), [], "stood on the wire in clear")
    for m in p:
        for log in m.path(m.folder).glob("*.log"):
            check(p.token not in log.read_text(errors="replace"), f"the token is in {log}")
    p.stop()


def in_clear(p):
    """--insecure, spelled out on both sides, and said by status; the listener finds then what it did not find with TLS."""
    has("WARNING", p.start_head("--insecure"))
    check(not p[0].path(p[0].folder / "join").exists(), "there is a file to join with")
    address = p.nodes()["m0"]["address"].rsplit(":", 1)[0]
    equal(address, ADDRESS[0])
    head = p[0].read(p[0].folder / "head.addr").splitlines()[0]
    copy = "/tmp/token"
    p[0].copy(p[0].folder / "token", p[1], copy)
    p[1].manta("start", "--address", head, "--token-file", copy, want=1)
    has("--insecure", p[1].errors)
    check(not p[1].path(p[1].folder).exists(), "a start that failed has left its folder")
    p.listen()
    p[1].manta("start", "--address", head, "--token-file", copy, "--insecure", "--num-cpus", 2, "--node-name", "m1")
    has("WARNING", p[0].manta("status"))
    p.work(0)
    equal(p.heard(p.token, p.mark), [p.token, p.mark])
    p.stop()


def head_returns(p):
    """The head is killed and comes back: its certificates and its address are the same, the other machine finds it again."""
    p.start_head()
    p.join()
    before = p[0].read(p[0].folder / "join")
    pid = p[0].daemon("head")
    os.kill(pid, signal.SIGKILL)
    check(has_gone(pid, WAIT_S), "the head does not die")
    wait_until(lambda: p[0].daemon("head") not in (0, pid), "its keeper starts it again")
    equal(p[0].read(p[0].folder / "join"), before)
    wait_until(lambda: [n["state"] for n in p.nodes().values()] == ["ALIVE", "ALIVE"], "both nodes are back")
    p.work(0)
    p.stop()


def training(p):
    """A training that wants two nodes has a worker on each."""
    p.start_head()
    p.join()
    p[0].path("/tmp/data.csv").write_text("".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(512)))
    p[0].path("/tmp/train.yaml").write_text(f"""model: {{name: mlp, hidden: [8]}}
data: {{path: /tmp/data.csv, label: -1}}
run: {{epochs: 2, batch: 64}}
scaling: {{min_workers: 2, max_workers: 2, nodes: 2}}
failure: {{max_failures: 0}}
seed: 1
""")
    out = p[0].run(BIN / "manta-train", "/tmp/train.yaml", env={"MANTA_ADDRESS": str(p[0].folder)})
    has("worker rank=1", out)
    equal(len(set(re.findall("node=([0-9]+)", out))), 2, out)
    has("0 restarts", out)
    p.stop()


def version_6(p):
    head, other = p
    if not (head.has_6 and other.has_6):
        raise machines.Unavailable("no IPv6 here")
    head.manta("start", "--head", "--num-cpus", 2, "--node-name", "m0", "--bind", ADDRESS_6[0])
    p.join()
    has("[fd77::2]", p.nodes()["m1"]["address"])
    p.work(0)
    p.work(1)
    p.stop()


def ports_of(pid):
    """TCP ports that a process listens on."""
    listening = {}
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            listening[fields[9]] = int(fields[1].rsplit(":", 1)[1], 16)
    found = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd))
        except OSError:
            continue
        if match and match.group(1) in listening:
            found.add(listening[match.group(1)])
    return found


def dialled(p, port, code):
    """Runs `code`, which gets a connected socket s, on the second machine."""
    text = f"import socket, ssl\ns = socket.create_connection(({ADDRESS[0]!r}, {port}), 10)\ns.settimeout(20)\n{code}"
    return p[1].run(sys.executable, "-c", text)


GARBAGE = "s.sendall(bytes(range(256)) * 4)\n"
PLAINTEXT = "s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))\n"
CONTEXT = ("c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\nc.check_hostname = False\nc.verify_mode = ssl.CERT_NONE\n"
           "c.set_alpn_protocols(['h2'])\n")
WRAP = "try:\n s = c.wrap_socket(s)\n s.sendall(b'hello')\nexcept OSError:\n pass\n"
IS_ENDED = ("try:\n while s.recv(4096):\n  pass\nexcept TimeoutError:\n raise SystemExit('it was not dropped')\n"
            "except OSError:\n pass\n")


def rogue_certificate(p):
    """Another cluster's, which says the same names."""
    m, other = p[1], pathlib.Path("/tmp/rogue")
    m.path(other).mkdir(mode=0o700)
    m.manta("start", "--head", "--bind", ADDRESS[1], "--dir", other / "run", "--num-cpus", 1)
    join = m.read(other / "run/join")
    m.manta("stop", "--dir", other / "run")
    return join


def private_file(machine, path, text):
    machine.path(path).write_text(text)
    machine.path(path).chmod(0o600)
    return path


def strangers(p):
    """Without a certificate, with a rogue authority's, with the certificate and no token, in clear, and garbage: all refused and
    counted, at every port; and the cluster goes on."""
    p.start_head()
    p.join()
    ours = p[0].read(p[0].folder / "join")
    rogue = rogue_certificate(p)
    pem = private_file(p[1], "/tmp/rogue.pem", rogue[rogue.index("-----BEGIN"):])
    head, raylet = (ports_of(p[0].daemon(name)) for name in ("head", "raylet"))
    equal((len(head), len(raylet)), (1, 2), "listeners")
    for port in head | raylet:
        dialled(p, port, GARBAGE + IS_ENDED)
        dialled(p, port, PLAINTEXT + IS_ENDED)
        dialled(p, port, CONTEXT + WRAP + IS_ENDED)
        dialled(p, port, CONTEXT + f"c.load_cert_chain({str(pem)!r})\n" + WRAP + IS_ENDED)
        dialled(p, port, CONTEXT + f"c.load_cert_chain({str(pem)!r})\nc.maximum_version = ssl.TLSVersion.TLSv1_2\n" + WRAP + IS_ENDED)
    for name in ("head", "raylet"):
        told = [int(n) for n in re.findall(r"tls_refused.*so_far=(\d+)", p[0].read(p[0].folder / f"{name}.log"))]
        check(told, f"{name}.log does not tell of refusals")
    bad_clients(p, ours, rogue)
    p.work(0)
    p.stop()


def bad_clients(p, ours, rogue):
    m, address = p[1], re.search("address=(.*)", ours).group(1)
    token = private_file(m, "/tmp/token", re.search("token=(.*)", ours).group(1) + "\n")
    good = private_file(m, "/tmp/node.pem", ours[ours.index("-----BEGIN"):])
    wrong = private_file(m, "/tmp/wrong", secrets.token_hex(32) + "\n")
    short = {"MANTA_TLS_FILE": good}
    has("m1", m.manta("status", "--address", address, "--token-file", token, env=short))
    m.manta("status", "--address", address, "--token-file", wrong, "--tls-file", good, want=1)
    has("refuses the token", m.errors)
    m.manta("status", "--address", address, "--token-file", token, want=1)
    has("no TLS file is named", m.errors)
    m.manta("status", "--address", address, "--token-file", token, "--tls-file", "/tmp/rogue.pem", want=1)
    has("another cluster's", m.errors)
    m.manta("status", "--address", address, "--token-file", token, "--insecure", want=1)
    m.path(good).chmod(0o644)
    m.manta("status", "--address", address, "--token-file", token, "--tls-file", good, want=1)
    has("0600", m.errors)
    mixed = ours[:ours.index("-----BEGIN")] + rogue[rogue.index("-----BEGIN"):]
    for text, word in ((mixed, "another cluster's"), ("hello\n", "manta-join 1"), (ours[:-200], ""), (ours.replace("-join 1", "-join 2"), "version")):
        folder = "/tmp/second"
        m.manta("start", "--join", private_file(m, "/tmp/bad", text), "--dir", folder, want=1)
        has(word, m.errors)
        check(not m.path(folder).exists(), "a start that failed has left its folder")
    m.path("/tmp/bad").chmod(0o640)
    m.manta("start", "--join", "/tmp/bad", "--dir", "/tmp/second", want=1)
    has("0600", m.errors)
    shutil.rmtree(m.path("/tmp/second"), ignore_errors=True)


def bad_words(p):
    """What is not served: all addresses at once; a node beyond loopback without a certificate; contradictions."""
    m = p[0]
    for host in ("0.0.0.0", "::"):
        m.manta("start", "--head", "--bind", host, want=1)
        has("the one address", m.errors)
        shutil.rmtree(m.path(m.folder), ignore_errors=True)
    m.manta("start", "--head", "--bind", "198.51.100.7", want=1)  # not this machine's
    shutil.rmtree(m.path(m.folder), ignore_errors=True)
    m.manta("start", "--head", "--join", "x", want=2)
    m.manta("start", "--join", "x", "--insecure", want=2)
    m.manta("start", "--join", "x", "--address", "y:1", want=2)
    m.manta("start", "--join", "/tmp/none", want=1)
    shutil.rmtree(m.path(m.folder), ignore_errors=True)
    m.manta("start", "--head", "--num-cpus", 1)  # on loopback, in clear
    m.manta("start", "--address", m.folder, "--bind", ADDRESS[0], "--dir", "/tmp/second", want=1)
    has("--insecure", m.errors)
    shutil.rmtree(m.path("/tmp/second"), ignore_errors=True)
    m.manta("stop")
    wait_until(lambda: not m.processes(), "all processes end")


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen()
    else:
        BIN, DRIVER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
        sys.exit(machines.main({name: globals()[name] for name in sys.argv[3:]}, Pair))
