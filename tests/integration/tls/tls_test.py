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

    def stop(self, server=None):
        self[1].manta("stop", "--purge")
        self[0].manta("stop", "--purge")
        if server:
            server.terminate()
            server.wait(CALL_S)
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


def dialled(p, port, code, to=0):
    """Runs `code`, which gets a connected socket s, on the other machine."""
    text = f"import socket, ssl\ns = socket.create_connection(({ADDRESS[to]!r}, {port}), 10)\ns.settimeout(20)\n{code}"
    return p[1 - to].run(sys.executable, "-c", text)


GARBAGE = "s.sendall(bytes(range(256)) * 4)\n"
PLAINTEXT = "s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))\n"
CONTEXT = ("c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\nc.check_hostname = False\nc.verify_mode = ssl.CERT_NONE\n"
           "c.set_alpn_protocols(['h2'])\n")
WRAP = "try:\n s = c.wrap_socket(s)\n s.sendall(b'hello')\nexcept OSError:\n pass\n"
IS_ENDED = ("try:\n while s.recv(4096):\n  pass\nexcept TimeoutError:\n raise SystemExit('it was not dropped')\n"
            "except OSError:\n pass\n")


def rogue_certificate(p):
    """Another cluster's, which says the same names: its join file, and its node's certificate."""
    m, other = p[1], pathlib.Path("/tmp/rogue")
    m.path(other).mkdir(mode=0o700)
    m.manta("start", "--head", "--bind", ADDRESS[1], "--dir", other / "run", "--num-cpus", 1)
    join, node = m.read(other / "run/join"), m.read(other / "run/tls/node.pem")
    m.manta("stop", "--dir", other / "run")
    return join, node


def checked(text):
    """A join file with the check that fits it: as a forger would."""
    first, address, _, rest = text.split("\n", 3)
    value = 0xcbf29ce484222325
    for byte in (address.removeprefix("address=") + "\0" + rest).encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{first}\n{address}\ncheck={value:016x}\n{rest}"


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
    rogue, rogue_node = rogue_certificate(p)
    pem = private_file(p[1], "/tmp/rogue.pem", rogue_node)
    ticket = private_file(p[1], "/tmp/ticket.pem", ours[ours.index("-----BEGIN"):])
    head, raylet = (ports_of(p[0].daemon(name)) for name in ("head", "raylet"))
    equal((len(head), len(raylet)), (1, 2), "listeners")
    for port in head | raylet:
        dialled(p, port, GARBAGE + IS_ENDED)
        dialled(p, port, PLAINTEXT + IS_ENDED)
        dialled(p, port, CONTEXT + WRAP + IS_ENDED)
        dialled(p, port, CONTEXT + f"c.load_cert_chain({str(pem)!r})\n" + WRAP + IS_ENDED)
        if port in raylet:  # which takes no ticket
            dialled(p, port, CONTEXT + f"c.load_cert_chain({str(ticket)!r})\n" + WRAP + IS_ENDED)
        dialled(p, port, CONTEXT + f"c.load_cert_chain({str(pem)!r})\nc.maximum_version = ssl.TLSVersion.TLSv1_2\n" + WRAP + IS_ENDED)
    for name in ("head", "raylet"):
        told = [int(n) for n in re.findall(r"tls_refused.*so_far=(\d+)", p[0].read(p[0].folder / f"{name}.log"))]
        check(told, f"{name}.log does not tell of refusals")
    bad_clients(p, ours, rogue)
    p.work(0)
    p.stop()


def bad_clients(p, ours, rogue):
    m, address = p[1], re.search("address=(.*)", ours).group(1)
    token = private_file(m, "/tmp/token", m.read(m.folder / "token"))
    good = private_file(m, "/tmp/node.pem", m.read(m.folder / "tls.pem"))
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
    m.manta("status", "--address", address, "--token-file", token, "--tls-file", "/tmp/ticket.pem", want=1)
    has("refuses the token", m.errors)  # a ticket opens nothing but the way to a certificate
    m.path(good).chmod(0o644)
    m.manta("status", "--address", address, "--token-file", token, "--tls-file", good, want=1)
    has("0600", m.errors)
    mixed = ours[:ours.index("-----BEGIN")] + rogue[rogue.index("-----BEGIN"):]
    shared = f"manta-join 1\naddress={address}\ntoken={m.read(token).strip()}\n{m.read('/tmp/rogue.pem')}"
    for text, word in ((mixed, "altered"), (checked(mixed), "another cluster's"), (shared, "another cluster's"), ("hello\n", "manta-join 1"),
                       (ours[:-200], "altered"), (ours.replace("-join 2", "-join 3"), "version")):
        folder = "/tmp/second"
        m.manta("start", "--join", private_file(m, "/tmp/bad", text), "--dir", folder, want=1)
        has(word, m.errors)
        check(not m.path(folder).exists(), "a start that failed has left its folder")
    m.path("/tmp/bad").chmod(0o640)
    m.manta("start", "--join", "/tmp/bad", "--dir", "/tmp/second", want=1)
    has("0600", m.errors)
    shutil.rmtree(m.path("/tmp/second"), ignore_errors=True)


# ---- tickets, and certificates of one node ----
def ticket(p, *words):
    return p[0].manta("token", "create", *words)


def use(m, text, *words, want=0, folder="/tmp/run/manta"):
    """By standard input: it lies in no file of that machine."""
    m.path("/tmp/pipe").write_text(text)
    try:
        return m.run("sh", "-c", 'exec "$@" < /tmp/pipe', "sh", m.programs / "manta", "start", "--join", "-", "--num-cpus", 1, "--dir",
                     folder, *words, want=want)
    finally:
        m.path("/tmp/pipe").unlink()


def states(p):
    return {t["name"]: t["state"] for t in p[0].json("token", "list")}


def kill_head(p):
    """Another one serves when this is back: who joins has 5 s for it."""
    pid = p[0].daemon("head")
    os.kill(pid, signal.SIGKILL)
    check(has_gone(pid, WAIT_S), "the head does not die")
    wait_until(lambda: p[0].daemon("head") not in (0, pid), "its keeper starts it again")
    wait_until(lambda: says(p[0], "address"), "it serves")


def refused(m, text, word):
    use(m, text, folder="/tmp/second", want=1)
    has(word, m.errors)
    check(not m.path("/tmp/second").exists(), "a start that failed has left its folder")


def tickets(p):
    """Good once; late, altered, revoked, used, another cluster's: refused with what to do; and of two at once one wins."""
    other, _ = rogue_certificate(p)
    p.start_head()
    p.listen()
    first = ticket(p, "--name", "first")
    has("This machine has joined", use(p[1], first, "--node-name", "m1"))
    key = p[1].read(p[1].folder / "tls.pem").split("-----")[-3].strip()
    for pem in ("head.pem", "node.pem", "ca.pem"):
        check(key not in p[0].read(p[0].folder / "tls" / pem), "the node's key is not its own")
    p.work(0)
    equal(p.heard(p.token, p.mark, key.split()[0]), [], "stood on the wire in clear")
    refused(p[1], first, "was used already")
    kill_head(p)
    refused(p[1], first, "was used already")
    late = ticket(p, "--name", "late", "--valid-s", 1)
    wait_until(lambda: states(p)["late"] == "ENDED", "the ticket ends")
    refused(p[1], late, "ended")
    gone = ticket(p, "--name", "gone")
    p[0].manta("token", "revoke", next(t["id"] for t in p[0].json("token", "list") if t["name"] == "gone"))
    refused(p[1], gone, "was revoked")
    kill_head(p)
    refused(p[1], gone, "was revoked")
    good = ticket(p, "--name", "good")
    for at in (30, len(good) // 2, len(good) - 60):
        refused(p[1], good[:at] + chr(ord(good[at]) ^ 1) + good[at + 1:], "")
    mixed = good[:good.index("-----BEGIN")] + other[other.index("-----BEGIN"):]
    refused(p[1], checked(mixed), "another cluster's")
    private_file(p[0], "/tmp/t", good)
    private_file(p[1], "/tmp/t", good)
    both = [m.start(m.programs / "manta", "start", "--join", "/tmp/t", "--num-cpus", 1, "--dir", "/tmp/both", stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE) for m in p]
    errors = [process.communicate(timeout=CALL_S)[1] for process in both]
    equal(sorted(process.returncode for process in both), [0, 1], errors)
    has("was used already", errors[0] + errors[1])
    p[0 if both[0].returncode == 0 else 1].manta("stop", "--dir", "/tmp/both")
    equal(states(p), {"join file": "GOOD", "first": "USED", "late": "ENDED", "gone": "REVOKED", "good": "USED"})
    p[1].manta("token", "create", "--uses", 0, want=2)
    p[0].manta("token", "revoke", "0000000000001234", want=1)
    has("no such ticket", p[0].errors)
    p.stop()


def shown(p, name, to=0, daemons=("head", "raylet"), patience_s=1):
    """Whether the head of a machine, and the raylet beside it, take a connection with this file from the other machine. A raylet says
    nothing to whom it takes: so does one that is late with its refusal, and is to be asked again. A head speaks at once in both cases."""
    code = (CONTEXT + f"c.load_cert_chain({str(name)!r})\n" + "s = c.wrap_socket(s)\n"
            f"s.settimeout({patience_s})\ntry:\n s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes(9))\n print(len(s.recv(1)))\n"
            "except TimeoutError:\n print(1)\nexcept OSError:\n print(0)\n")
    return [int(dialled(p, port, code, to)) for daemon in daemons for port in sorted(ports_of(p[to].daemon(daemon)))]


def connected(p):
    """Connections of daemons of the first machine with the second."""
    wanted = "".join(f"{int(part):02X}" for part in reversed(ADDRESS[1].split(".")))
    return [line for line in pathlib.Path(f"/proc/{p[0].daemon('raylet')}/net/tcp").read_text().splitlines()[1:]
            if line.split()[2].startswith(wanted) and line.split()[3] == "01"]


def revoked(p):
    """A node that does not obey: it is stopped when it is shut out. Its connections end, its certificate opens no port; and it comes
    back with a new ticket only."""
    p.start_head()
    p.join()
    p.work(0)
    pem = private_file(p[1], "/tmp/kept.pem", p[1].read(p[1].folder / "tls.pem"))
    equal(shown(p, pem), [1, 1, 1])
    check(connected(p), "the two are not connected")
    raylet = p[1].daemon("raylet")
    os.kill(raylet, signal.SIGSTOP)
    has("revoked", p[0].manta("node", "revoke", "m1", "--reason", "lost"))
    wait_until(lambda: shown(p, pem) == [0, 0, 0], "the certificate is refused")
    wait_until(lambda: not connected(p), "its connections end")
    has("revoked: lost", p[0].manta("status"))
    p[1].manta("status", want=1)
    os.kill(raylet, signal.SIGCONT)
    check(has_gone(raylet, WAIT_S), "its raylet does not end")
    kill_head(p)
    equal(shown(p, pem, daemons=["head"], patience_s=WAIT_S), [0])
    wait_until(lambda: shown(p, pem) == [0, 0, 0], "it is refused after the head's restart")
    p[0].manta("node", "revoke", "m0", want=1)
    has("manta stop", p[0].errors)
    p[0].manta("node", "revoke", "77", want=1)
    has("no node 77", p[0].errors)
    p[1].manta("stop")
    p.join("--dir", "/tmp/run/manta")
    p[1].path(pem).unlink()
    wait_until(lambda: [n["state"] for n in p[0].json("list", "nodes") if n["name"] == "m1"].count("ALIVE") == 1, "it is back")
    p[1].manta("status")
    p.stop()


def signed(p, *words, folder=pathlib.Path("/tmp/run/manta")):
    """A certificate of the number and key of a node on the second machine, by the first one's authority."""
    tool = shutil.which("openssl")
    if not tool:
        raise machines.Unavailable("no tool openssl")
    work, pem = p[0].path("/tmp"), p[1].path(folder / "tls.pem")
    serial = subprocess.check_output([tool, "x509", "-in", pem, "-noout", "-serial"], text=True).split("=")[1].strip()
    cluster = p[0].manta("status", "-o", "json")
    name = f"node.{json.loads(cluster)['cluster']}.manta"
    ca = p[0].path(p[0].folder / "tls/ca.pem")
    (work / "e").write_text(f"subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth\n")
    subprocess.check_call([tool, "req", "-new", "-key", pem, "-subj", "/CN=n", "-out", work / "r"], stderr=subprocess.DEVNULL)
    subprocess.check_call([tool, "x509", "-req", "-in", work / "r", "-CA", ca, "-CAkey", ca, "-set_serial", "0x" + serial, "-extfile",
                           work / "e", "-out", work / "c", *words], stderr=subprocess.DEVNULL)
    key = subprocess.check_output([tool, "pkey", "-in", pem], text=True)
    authority = subprocess.check_output([tool, "x509", "-in", ca], text=True)
    text = (work / "c").read_text() + authority + key
    for file in "erc":
        (work / file).unlink()
    return text


def restart_raylet(p, pem, folder=pathlib.Path("/tmp/run/manta")):
    private_file(p[1], folder / "tls.pem", pem)
    pid = int(p[1].read(folder / "daemons/raylet").split()[1])
    os.kill(pid, signal.SIGKILL)
    check(has_gone(pid, WAIT_S), "the raylet does not die")


def renewed(p):
    """A certificate that ends soon is replaced over the connection that is there, and the node works on; one that is over is refused."""
    p.start_head()
    p.join()
    first = p[1].read(p[1].folder / "tls.pem")
    short = signed(p, "-days", "1")
    restart_raylet(p, short)
    wait_until(lambda: p[1].read(p[1].folder / "tls.pem") != short, "the certificate is renewed")
    wait_until(lambda: "certificate_renewed" in p[1].read(p[1].folder / "raylet.log"), "and the log says so")
    now = p[1].read(p[1].folder / "tls.pem")
    check(all(part not in now for part in first.split("-----")[2::4][:1]), "it is the same certificate")
    wait_until(lambda: sorted(n["name"] for n in p[0].json("list", "nodes") if n["state"] == "ALIVE") == ["m0", "m1"], "it is back")
    alive = [n for n in p[0].json("list", "nodes") if n["state"] == "ALIVE"]
    check(all(n["certificate_ends"] for n in alive), alive)
    has("Certificates:", p[0].manta("status"))
    has("CERTIFICATE ENDS", p[0].manta("list", "nodes", "-o", "wide"))
    over = signed(p, "-days", "-1")
    restart_raylet(p, over)
    p[1].manta("status", want=1)
    has("not valid at this time", p[1].errors)
    wait_until(lambda: "not valid at this time" in p[1].read(p[1].folder / "raylet.log"), "the raylet says why")
    private_file(p[1], p[1].folder / "tls.pem", now)
    wait_until(lambda: [n["state"] for n in p[0].json("list", "nodes") if n["name"] == "m1"].count("ALIVE") == 1, "it is back")
    p.work(0)
    p.work(1)
    p.stop()


# ---- several heads ----
def start_redis(p):
    """A store that both machines reach; and its URL."""
    tool = shutil.which("redis-server")
    if not tool:
        raise machines.Unavailable("no tool redis-server")
    p[0].path("/tmp/redis").mkdir()
    server = p[0].start(tool, "--bind", ADDRESS[0], "--port", 6390, "--protected-mode", "no", "--dir", "/tmp/redis", "--save", "",
                        "--appendonly", "yes", "--appendfsync", "always", stdout=subprocess.DEVNULL)
    ping = f"redis-cli -h {ADDRESS[0]} -p 6390 ping || true"
    wait_until(lambda: "PONG" in p[0].run("sh", "-c", ping), "redis-server answers")
    return server, f"redis://{ADDRESS[0]}:6390/0?cluster=tls"


def start_standby(p, store):
    """On the second machine, with copies of what the first one's head has; without the authority's key it does not start."""
    words = ("start", "--head", "--standby", "--store", store, "--token-file", "/tmp/keys/token", "--tls-dir", "/tmp/keys", "--bind",
             ADDRESS[1], "--num-cpus", 1, "--node-name", "m1")
    p[1].path("/tmp/keys").mkdir(mode=0o700)
    p[0].copy(p[0].folder / "token", p[1], "/tmp/keys/token")
    for name in ("head.pem", "node.pem"):
        p[0].copy(p[0].folder / "tls" / name, p[1], f"/tmp/keys/{name}")
    p[1].manta(*words, want=1)
    has("ca.pem is missing", p[1].errors)
    p[0].copy(p[0].folder / "tls/ca.pem", p[1], "/tmp/keys/ca.pem")
    has("stands by", p[1].manta(*words))
    heads = [m.read(m.folder / "head.addr").splitlines()[0] for m in p]
    wait_until(lambda: f"address={heads[0]},{heads[1]}\n" in p[0].read(p[0].folder / "join"), "the join file names both heads")
    return heads


def says(m, name):
    """What status tells; "" where no head leads."""
    try:
        return m.json("status")[name]
    except AssertionError:
        return ""


def lead_ends(p, heads):
    """The first head stands still until the second one leads; then it stands by."""
    pid = p[0].daemon("head")
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: says(p[1], "address") == heads[1], "the second head leads")
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: says(p[1], "standbys") == heads[0], "the first one stands by")


def takeover(p):
    """Whoever leads: tickets stay used and revoked, the revoked stay shut out, and certificates are signed and renewed."""
    server, store = start_redis(p)
    p.start_head("--store", store)
    heads = start_standby(p, store)
    made = {name: ticket(p, "--name", name) for name in ("used", "lost", "gone", "good")}
    for name in ("used", "lost"):
        use(p[1], made[name], "--node-name", name, folder=f"/tmp/{name}")
    p[0].manta("token", "revoke", next(t["id"] for t in p[0].json("token", "list") if t["name"] == "gone"))
    lost = p[1].read("/tmp/lost/tls.pem")
    private_file(p[0], "/tmp/kept.pem", lost)
    p[0].manta("node", "revoke", "lost")
    wait_until(lambda: sum(shown(p, "/tmp/kept.pem", to=1)) == 1, "only the head that stands by, which serves nobody, takes it")
    lead_ends(p, heads)
    wait_until(lambda: sum(shown(p, "/tmp/kept.pem", to=1)) == 0, "the new leader shuts it out, and the raylet beside it")
    refused(p[1], made["used"], "was used already")
    refused(p[1], made["lost"], "was used already")
    refused(p[1], made["gone"], "was revoked")
    has("has joined", use(p[1], made["good"], "--node-name", "good", folder="/tmp/good"))
    equal(states(p), {"join file": "GOOD", "used": "USED", "lost": "USED", "gone": "REVOKED", "good": "USED"})
    short = signed(p, "-days", "1", folder=pathlib.Path("/tmp/good"))
    restart_raylet(p, short, pathlib.Path("/tmp/good"))
    wait_until(lambda: p[1].read("/tmp/good/tls.pem") != short, "the new leader renews a certificate")
    p[1].copy("/tmp/used/tls.pem", p[0], "/tmp/used.pem")
    check(sum(shown(p, "/tmp/used.pem", to=1)) > 0, "a good certificate is refused")
    p[0].manta("node", "revoke", "used")
    wait_until(lambda: sum(shown(p, "/tmp/used.pem", to=1)) == 0, "it is shut out by the new leader")
    has("leads now", p[1].manta("head", "step-down"))
    refused(p[1], made["good"], "was used already")
    for name in ("/tmp/kept.pem", "/tmp/used.pem"):
        private_file(p[1], name, p[0].read(name))
        wait_until(lambda: sum(shown(p, name)) == 0, "the first head knows it too")
    p[1].copy(p[1].folder / "join", p[0], "/tmp/copy")
    p[0].manta("start", "--join", "/tmp/copy", "--dir", "/tmp/late", "--num-cpus", 1, "--node-name", "late")
    p[0].manta("stop", "--dir", "/tmp/late")
    for name in ("used", "lost", "good"):
        p[1].manta("stop", "--dir", f"/tmp/{name}", "--purge")
    p.stop(server)


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
