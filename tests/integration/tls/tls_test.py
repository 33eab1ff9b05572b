#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# tls_test.py BIN DRIVER CASE... - two machines, made of two network namespaces with a wire between them, run one cluster with TLS.
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
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from gone import has_gone  # noqa: E402

HERE = pathlib.Path(__file__).resolve()
SLOWER = int(os.environ.get("TEST_SLOWER", 1))  # tests/sanitized.py
WAIT_S = 20 * SLOWER  # longest wait for anything that must happen
CALL_S = 60 * SLOWER  # longest life of one command
MIB = 16
ADDRESS = ["10.77.0.1", "10.77.0.2"]
ADDRESS_6 = ["fd77::1", "fd77::2"]


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(got, wanted, text=""):
    check(got == wanted, f"{got!r} instead of {wanted!r} {text}")


def has(word, text):
    check(word in text, f"{word!r} is not in: {text}")


def wait_until(condition, text):
    end = time.monotonic() + WAIT_S
    while not condition():
        check(time.monotonic() < end, f"this did not happen: {text}")
        time.sleep(0.02)


# ---- two machines ----
class Machine:
    """A network namespace, and a runtime folder for what runs in it."""

    def __init__(self, root, number):
        self.number, self.address = number, ADDRESS[number]
        self.keeper = subprocess.Popen(["unshare", "-n", "sleep", "900"])
        self.base = root / f"m{number}"
        self.base.mkdir(mode=0o700)
        self.folder = self.base / "manta"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MANTA_") or k == "MANTA_TEST_RUN"}
        self.env |= {"XDG_RUNTIME_DIR": str(self.base), "HOME": str(root)}

    def inside(self, *words):
        return ["nsenter", "-t", str(self.keeper.pid), "-n", *map(str, words)]

    def run(self, *words, want=0, env=None):
        done = subprocess.run(self.inside(*words), env=self.env | (env or {}), timeout=CALL_S, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, cwd=BIN)
        equal(done.returncode, want, f"from {words} on machine {self.number}: {done.stdout}{done.stderr}")
        self.errors = done.stderr
        return done.stdout

    def manta(self, *words, **more):
        return self.run(BIN / "manta", *words, **more)

    def json(self, *words):
        return json.loads(self.manta(*words, "-o", "json"))

    def driver(self, node, mark):
        return self.run(DRIVER, node, MIB, mark, env={"MANTA_ADDRESS": str(self.folder)})

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def processes(self):
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


class Pair:
    """Both machines, the wire, and who listens to it."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="mtls."))  # short: it holds unix sockets
        self.machines = [Machine(self.root, 0), Machine(self.root, 1)]
        self.ear, self.words, self.token = None, [], b""
        self.mark = "mark-" + secrets.token_hex(16)
        a, b = (m.keeper.pid for m in self.machines)
        self.wait_for_namespaces()
        subprocess.run(["ip", "link", "add", "wire", "netns", str(a), "type", "veth", "peer", "name", "wire", "netns", str(b)],
                       check=True)
        for m in self.machines:
            for words in (["addr", "add", f"{m.address}/24", "dev", "wire"], ["link", "set", "lo", "up"],
                          ["link", "set", "wire", "up"]):
                subprocess.run(m.inside("ip", *words), check=True)
            subprocess.run(m.inside("ip", "addr", "add", f"{ADDRESS_6[m.number]}/64", "dev", "wire", "nodad"), capture_output=True)

    def wait_for_namespaces(self):
        own = os.readlink("/proc/self/ns/net")
        for m in self.machines:
            wait_until(lambda: os.readlink(f"/proc/{m.keeper.pid}/ns/net") != own, "a network namespace is made")

    def listen(self):
        """From now on every packet is looked at."""
        self.ear = subprocess.Popen(self.machines[0].inside(sys.executable, HERE, "listen"), stdin=subprocess.PIPE,
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
        out = self.machines[0].manta("start", "--head", "--num-cpus", 2, "--node-name", "m0", "--bind", ADDRESS[0], *words)
        self.token = (self.machines[0].folder / "token").read_text().strip()
        return out

    def join(self, *words):
        """Copies the file as an operator would."""
        copy = self.root / "copy"
        shutil.copyfile(self.machines[0].folder / "join", copy)
        copy.chmod(0o600)
        return self.machines[1].manta("start", "--join", copy, "--num-cpus", 2, "--node-name", "m1", *words)

    def nodes(self):
        return {n["name"]: n for n in self.machines[0].json("list", "nodes")}

    def work(self, m=0):
        """From machine m to the other one."""
        other = self.nodes()[f"m{1 - m}"]["node"]
        out = self.machines[m].driver(other, self.mark)
        equal(sorted(out.split("\n")[4:6]), ["node here is near", "node there is remote"])
        equal(out.split("\n")[:4], [f"tasks {sum(range(50)) * 1000 + 50 * other}", "actor 100", f"value there {MIB << 20}",
                                    f"value here {MIB << 20}"])

    def stop(self):
        self.machines[1].manta("stop", "--purge")
        self.machines[0].manta("stop", "--purge")
        for m in self.machines:
            wait_until(lambda: not m.processes(), f"all processes of machine {m.number} end")
            equal([str(path) for path in m.base.rglob("*")], [], "is left over")

    def close(self):
        if self.ear:
            self.ear.kill()
            self.ear.wait()
        for m in self.machines:
            for pid in m.processes():
                os.kill(pid, signal.SIGKILL)
            m.keeper.kill()
            m.keeper.wait()
        shutil.rmtree(self.root, ignore_errors=True)


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
    has(str(p.machines[0].folder / "join"), out)
    p.listen()
    p.join()
    for m in p.machines:
        status = m.manta("status")
        has("TLS", status)
        check("WARNING" not in status, status)
        equal([n["name"] for n in m.json("list", "nodes")], ["m0", "m1"])
    for name, m in zip(("m0", "m1"), p.machines):
        has(m.address, p.nodes()[name]["address"])
    p.work(0)
    p.work(1)
    has("it ran", p.machines[1].manta("submit", "-f", "--num-cpus", "1", "--", "echo", "it ran"))
    equal(p.heard(p.token, p.mark), [], "stood on the wire in clear")
    for m in p.machines:
        for log in m.folder.glob("*.log"):
            check(p.token not in log.read_text(errors="replace"), f"the token is in {log}")
    p.stop()


def in_clear(p):
    """--insecure, spelled out on both sides, and said by status; the listener finds then what it did not find with TLS."""
    has("WARNING", p.start_head("--insecure"))
    check(not (p.machines[0].folder / "join").exists(), "there is a file to join with")
    address = p.nodes()["m0"]["address"].rsplit(":", 1)[0]
    equal(address, ADDRESS[0])
    head = (p.machines[0].folder / "head.addr").read_text().splitlines()[0]
    copy = p.root / "token"
    shutil.copyfile(p.machines[0].folder / "token", copy)
    copy.chmod(0o600)
    p.machines[1].manta("start", "--address", head, "--token-file", copy, want=1)
    has("--insecure", p.machines[1].errors)
    check(not p.machines[1].folder.exists(), "a start that failed has left its folder")
    p.listen()
    p.machines[1].manta("start", "--address", head, "--token-file", copy, "--insecure", "--num-cpus", 2, "--node-name", "m1")
    has("WARNING", p.machines[0].manta("status"))
    p.work(0)
    equal(p.heard(p.token, p.mark), [p.token, p.mark])
    p.stop()


def daemon_of(machine, name):
    """Its pid; 0: it is about to be started again."""
    return int((machine.folder / "daemons" / name).read_text().split()[1])


def head_returns(p):
    """The head is killed and comes back: its certificates and its address are the same, the other machine finds it again."""
    p.start_head()
    p.join()
    before = (p.machines[0].folder / "join").read_bytes()
    pid = daemon_of(p.machines[0], "head")
    os.kill(pid, signal.SIGKILL)
    check(has_gone(pid, WAIT_S), "the head does not die")
    wait_until(lambda: daemon_of(p.machines[0], "head") not in (0, pid), "its keeper starts it again")
    equal((p.machines[0].folder / "join").read_bytes(), before)
    wait_until(lambda: [n["state"] for n in p.nodes().values()] == ["ALIVE", "ALIVE"], "both nodes are back")
    p.work(0)
    p.stop()


def training(p):
    """Collectives are of one machine as yet: a training that wants two nodes takes the one that it can, and does not hang."""
    p.start_head()
    p.join()
    data = p.root / "data.csv"
    data.write_text("".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(512)))
    file = p.root / "train.yaml"
    file.write_text(f"""model: {{name: mlp, hidden: [8]}}
data: {{path: {data}, label: -1}}
run: {{epochs: 2, batch: 64}}
scaling: {{min_workers: 2, max_workers: 2, nodes: 2}}
failure: {{max_failures: 0}}
seed: 1
""")
    out = p.machines[0].run(BIN / "manta-train", file, env={"MANTA_ADDRESS": str(p.machines[0].folder)})
    has("worker rank=1", out)
    has("0 restarts", out)
    p.stop()


def version_6(p):
    head, other = p.machines
    if subprocess.run(head.inside("ip", "-6", "addr", "show", "dev", "wire", "scope", "global"), capture_output=True).stdout == b"":
        print("no IPv6 here")
        sys.exit(77)
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
    return p.machines[1].run(sys.executable, "-c", text)


GARBAGE = "s.sendall(bytes(range(256)) * 4)\n"
PLAINTEXT = "s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))\n"
CONTEXT = ("c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\nc.check_hostname = False\nc.verify_mode = ssl.CERT_NONE\n"
           "c.set_alpn_protocols(['h2'])\n")
WRAP = "try:\n s = c.wrap_socket(s)\n s.sendall(b'hello')\nexcept OSError:\n pass\n"
IS_ENDED = ("try:\n while s.recv(4096):\n  pass\nexcept TimeoutError:\n raise SystemExit('it was not dropped')\n"
            "except OSError:\n pass\n")


def rogue_certificate(p):
    """Another cluster's, which says the same names."""
    other = p.root / "rogue"
    other.mkdir(mode=0o700)
    m = p.machines[1]
    m.manta("start", "--head", "--bind", ADDRESS[1], "--dir", other / "run", "--num-cpus", 1)
    join = (other / "run/join").read_text()
    m.manta("stop", "--dir", other / "run")
    return join


def private_file(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


def strangers(p):
    """Without a certificate, with a rogue authority's, with the certificate and no token, in clear, and garbage: all refused and
    counted, at every port; and the cluster goes on."""
    p.start_head()
    p.join()
    ours = (p.machines[0].folder / "join").read_text()
    rogue = rogue_certificate(p)
    pem = private_file(p.root / "rogue.pem", rogue[rogue.index("-----BEGIN"):])
    head, raylet = (ports_of(daemon_of(p.machines[0], name)) for name in ("head", "raylet"))
    equal((len(head), len(raylet)), (1, 2), "listeners")
    for port in head | raylet:
        dialled(p, port, GARBAGE + IS_ENDED)
        dialled(p, port, PLAINTEXT + IS_ENDED)
        dialled(p, port, CONTEXT + WRAP + IS_ENDED)
        dialled(p, port, CONTEXT + f"c.load_cert_chain({str(pem)!r})\n" + WRAP + IS_ENDED)
        dialled(p, port, CONTEXT + f"c.load_cert_chain({str(pem)!r})\nc.maximum_version = ssl.TLSVersion.TLSv1_2\n" + WRAP + IS_ENDED)
    for name in ("head", "raylet"):
        told = [int(n) for n in re.findall(r"tls_refused.*so_far=(\d+)", p.machines[0].log(name))]
        check(told, f"{name}.log does not tell of refusals")
    bad_clients(p, ours, rogue)
    p.work(0)
    p.stop()


def bad_clients(p, ours, rogue):
    m, address = p.machines[1], re.search("address=(.*)", ours).group(1)
    token = private_file(p.root / "token", re.search("token=(.*)", ours).group(1) + "\n")
    good = private_file(p.root / "node.pem", ours[ours.index("-----BEGIN"):])
    wrong = private_file(p.root / "wrong", secrets.token_hex(32) + "\n")
    short = {"MANTA_TLS_FILE": str(good)}
    has("m1", m.manta("status", "--address", address, "--token-file", token, env=short))
    m.manta("status", "--address", address, "--token-file", wrong, "--tls-file", good, want=1)
    has("refuses the token", m.errors)
    m.manta("status", "--address", address, "--token-file", token, want=1)
    has("no TLS file is named", m.errors)
    m.manta("status", "--address", address, "--token-file", token, "--tls-file", p.root / "rogue.pem", want=1)
    has("another cluster's", m.errors)
    m.manta("status", "--address", address, "--token-file", token, "--insecure", want=1)
    good.chmod(0o644)
    m.manta("status", "--address", address, "--token-file", token, "--tls-file", good, want=1)
    has("0600", m.errors)
    mixed = ours[:ours.index("-----BEGIN")] + rogue[rogue.index("-----BEGIN"):]
    for text, word in ((mixed, "another cluster's"), ("hello\n", "manta-join 1"), (ours[:-200], ""), (ours.replace("-join 1", "-join 2"), "version")):
        folder = m.base / "second"
        m.manta("start", "--join", private_file(p.root / "bad", text), "--dir", folder, want=1)
        has(word, m.errors)
        check(not folder.exists(), "a start that failed has left its folder")
    (p.root / "bad").chmod(0o640)
    m.manta("start", "--join", p.root / "bad", "--dir", m.base / "second", want=1)
    has("0600", m.errors)
    m.base.joinpath("second").rmdir() if m.base.joinpath("second").exists() else None


def bad_words(p):
    """What is not served: all addresses at once; a node beyond loopback without a certificate; contradictions."""
    m = p.machines[0]
    for host in ("0.0.0.0", "::"):
        m.manta("start", "--head", "--bind", host, want=1)
        has("the one address", m.errors)
        shutil.rmtree(m.folder, ignore_errors=True)
    m.manta("start", "--head", "--bind", "198.51.100.7", want=1)  # not this machine's
    shutil.rmtree(m.folder, ignore_errors=True)
    m.manta("start", "--head", "--join", "x", want=2)
    m.manta("start", "--join", "x", "--insecure", want=2)
    m.manta("start", "--join", "x", "--address", "y:1", want=2)
    m.manta("start", "--join", p.root / "none", want=1)
    shutil.rmtree(m.folder, ignore_errors=True)
    m.manta("start", "--head", "--num-cpus", 1)  # on loopback, in clear
    m.manta("start", "--address", m.folder, "--bind", ADDRESS[0], "--dir", m.base / "second", want=1)
    has("--insecure", m.errors)
    shutil.rmtree(m.base / "second", ignore_errors=True)
    m.manta("stop")
    wait_until(lambda: not m.processes(), "all processes end")


def run_case(name):
    try:
        pair = Pair()
    except (OSError, subprocess.CalledProcessError, AssertionError) as error:
        print(f"network namespaces can't be made here: {error}")
        return 77
    begun = time.monotonic()
    try:
        globals()[name](pair)
        print(f"ok   {name} ({time.monotonic() - begun:.1f} s)")
        return 0
    except (AssertionError, subprocess.TimeoutExpired) as error:
        print(f"FAIL {name}: {error}")
        for m in pair.machines:
            for log in m.base.rglob("*.log"):
                print(f"-- {log}\n{log.read_text(errors='replace')[-3000:]}")
        return 1
    finally:
        pair.close()


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen()
    else:
        BIN, DRIVER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
        if os.getuid() != 0 or not shutil.which("ip"):
            print("network namespaces can't be made here: not root, or no iproute2")
            sys.exit(77)
        sys.exit(max(run_case(name) for name in sys.argv[3:]))
