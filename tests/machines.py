# SPDX-License-Identifier: Apache-2.0
#
# machines.py - machines for tests: namespaces with a network, a /tmp and a /dev/shm of their own, joined by a switch.
#
#     with Machines(2, BIN) as net:         # the folder with `manta`
#         net[0].manta("start", "--head", "--bind", net[0].address)
#         net[0].copy("/tmp/run/manta/join", net[1], "/tmp/join")
#         net.cut(1)                # pull its plug; net.mend(1)
#         net.deafen(1)             # what others send it is lost, what it sends arrives
#         net.limit(1, "100mbit")   # it sends no faster
#         net[1].die()              # all its processes at once, as by a power cut
#
# Machines share no file that anybody writes: the tree of programs is there to read, and that is all. What a machine has in /tmp is
# seen from outside as `machine.path("/tmp/...")`. Wires and losses are a bridge's and iproute2's, no other program is needed.
# Where namespaces can't be made (not root, no iproute2, a sandbox) Machines raises Unavailable with the reason: skip with 77 then.
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from failed import tell_failure  # noqa: E402
from gone import wait_gone  # noqa: E402

SLOWER = int(os.environ.get("TEST_SLOWER", 1))  # tests/sanitized.py
CALL_S = 60 * SLOWER  # longest life of one command
LIFE_S = 900 * SLOWER  # of a machine that nobody turns off
IN_TMP = pathlib.Path("/tmp")


class Unavailable(Exception):
    """Why there can be no machines here."""


# Each machine's address; numbers are from 0.
def address(number):
    return f"10.77.0.{number + 1}"


def address_6(number):
    return f"fd77::{number + 1}"


def reports():
    """Where sanitizers write what they find (tests/sanitized.py)."""
    options = [os.environ.get(f"{kind}_OPTIONS", "") for kind in ("ASAN", "TSAN", "UBSAN")]
    return {pathlib.Path(path).parent for text in options for path in re.findall(r"log_path=([^:]+)", text)}


class Machine:
    """Namespaces, and what runs in them. The switch is one too, without files of its own."""

    def __init__(self, root, name, number=None, programs=None, visible=()):
        self.name, self.number, self.programs = name, number, programs
        self.folder = pathlib.Path("/tmp/run/manta")  # of its daemons, where nothing else is said
        self.base = root / name
        self.base.mkdir(mode=0o755)
        self.tmp = self.base / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)
        for folder in ("run", "home"):
            (self.tmp / folder).mkdir(mode=0o700)
        self.errors = ""
        self.keeper = subprocess.Popen(["unshare", "-n", "-m", "--propagation", "private", "sh", "-ec", self.beginning(visible)],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        if self.keeper.stdout.readline() != "ready\n":
            raise Unavailable(f"namespaces can't be made here: {self.keeper.stderr.read().strip()}")
        self.is_in = os.readlink(f"/proc/{self.keeper.pid}/ns/mnt")

    def beginning(self, visible):
        """What its first process does. Programs that lie below /tmp stay to be seen, and so does the folder where sanitizers report."""
        words = []
        for path in map(pathlib.Path, visible):
            if path.is_relative_to(IN_TMP):
                place = self.tmp / path.relative_to(IN_TMP)
                place.mkdir(parents=True, exist_ok=True)
                words.append(f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(place))}")
        words += [f"mount --rbind {shlex.quote(str(self.tmp))} /tmp", "mount -t tmpfs -o mode=1777 none /dev/shm", "ip link set lo up",
                  "echo ready", f"exec sleep {LIFE_S}"]
        return "\n".join(words)

    def path(self, inside):
        """Where a file of its /tmp stands outside."""
        return self.tmp / pathlib.Path(inside).relative_to(IN_TMP)

    def inside(self, *words, network_only=False):
        mounts = [] if network_only else ["-m"]
        return ["nsenter", "-t", str(self.keeper.pid), "-n", *mounts, *map(str, words)]

    def environment(self, more=None):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MANTA_") or k == "MANTA_TEST_RUN"}
        return kept | {"XDG_RUNTIME_DIR": "/tmp/run", "TMPDIR": "/tmp", "HOME": "/tmp/home"} | (more or {})

    def start(self, *words, env=None, **options):
        """A process on it; the caller's."""
        return subprocess.Popen(self.inside("env", "-C", "/tmp", *words), env=self.environment(env), text=True,
                                **{"stdin": subprocess.DEVNULL} | options)

    def run(self, *words, want=0, env=None, seconds=CALL_S):
        """What a command prints; it must end with `want`, within the time. Its errors stand in .errors."""
        process = self.start(*words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, self.errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, self.errors = process.communicate()
            raise AssertionError(f"{words} did not end on {self.name}: {out}{self.errors}") from None
        if process.returncode != want:
            raise AssertionError(f"exit {process.returncode} instead of {want} from {words} on {self.name}: {out}{self.errors}")
        return out

    def manta(self, *words, **more):
        return self.run(self.programs / "manta", *words, **more)

    def json(self, *words):
        return json.loads(self.manta(*words, "-o", "json"))

    def read(self, path):
        return self.path(path).read_text(errors="replace")

    def daemon(self, name):
        """Its pid; 0: it is about to be started again."""
        return int(self.read(self.folder / "daemons" / name).split()[1])

    def copy(self, path, to, there, mode=0o600):
        """A file of its /tmp to another machine, as an operator would."""
        shutil.copyfile(self.path(path), to.path(there))
        to.path(there).chmod(mode)

    def processes(self):
        """All of it but the one that keeps its namespaces: who is in its mounts, whatever it has made of itself."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns/mnt") == self.is_in and int(entry.name) != self.keeper.pid:
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def commands(self):
        """The words of each of its processes, but of those that end meanwhile."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                found.append(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0"))
        return found

    def die(self):
        """All its processes, at once: first they are stopped, so that none sees another one die."""
        while found := self.processes():
            for sent in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    try:
                        os.kill(pid, sent)
                    except ProcessLookupError:
                        continue
            wait_gone(found, 10)

    def off(self):
        self.die()
        self.keeper.kill()
        self.keeper.communicate()


class Machines:
    """So many machines at one switch; in it, port N is machine N's."""

    def __init__(self, count, programs, visible=()):
        visible = {programs, *visible, *reports()}
        if os.getuid() != 0:
            raise Unavailable("namespaces can't be made here: not root")
        if not shutil.which("ip") or not shutil.which("bridge"):
            raise Unavailable("namespaces can't be joined here: no iproute2")
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="machines."))
        self.root.chmod(0o755)
        self.all = []
        try:
            self.switch = Machine(self.root, "switch")
            self.all.append(self.switch)
            self.machines = []
            for number in range(count):
                self.machines.append(Machine(self.root, f"m{number}", number, programs, visible))
                self.all.append(self.machines[-1])
            self.wire()
        except BaseException:
            self.close()
            raise

    def __getitem__(self, number):
        return self.machines[number]

    def __iter__(self):
        return iter(self.machines)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ip(self, machine, *words, program="ip"):
        done = subprocess.run(machine.inside(program, *words, network_only=True), capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{program} {' '.join(map(str, words))}: {done.stderr.strip()}")

    def wire(self):
        self.ip(self.switch, "link", "add", "name", "switch", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        self.ip(self.switch, "link", "set", "switch", "up")
        for m in self.machines:
            port = f"port{m.number}"
            self.ip(self.switch, "link", "add", "name", port, "type", "veth", "peer", "name", "wire", "netns", m.keeper.pid)
            self.ip(self.switch, "link", "set", port, "master", "switch", "up")
            m.address, m.address_6 = address(m.number), address_6(m.number)
            self.ip(m, "addr", "add", f"{m.address}/24", "dev", "wire")
            self.ip(m, "link", "set", "wire", "up")
            m.has_6 = self.try_ip(m, "addr", "add", f"{m.address_6}/64", "dev", "wire", "nodad")

    def try_ip(self, machine, *words):
        try:
            self.ip(machine, *words)
            return True
        except Unavailable:
            return False

    def cut(self, number):
        self.ip(self.switch, "link", "set", f"port{number}", "down")

    def mend(self, number):
        self.ip(self.switch, "link", "set", f"port{number}", "up")

    def deafen(self, number, is_deaf=True):
        """What the others send it is lost from now on, and nothing of what it sends: the switch has forgotten where it stands, and
        lets no frame of unknown place through that port."""
        word = "off" if is_deaf else "on"
        self.ip(self.switch, "link", "set", f"port{number}", "type", "bridge_slave", "learning", word, "flood", word,
                "mcast_flood", word, "bcast_flood", word)
        self.ip(self.switch, "link", "set", f"port{number}", "type", "bridge_slave", "fdb_flush")

    def limit(self, number, rate, burst="64kb"):
        """What it sends comes no faster; None: as fast as it can."""
        words = ["replace", "dev", "wire", "root", "tbf", "rate", rate, "burst", burst, "latency", "100ms"] if rate else \
            ["del", "dev", "wire", "root"]
        self.ip(self.machines[number], "qdisc", *words, program="tc")

    def close(self):
        for machine in self.all:
            machine.off()
        shutil.rmtree(self.root, ignore_errors=True)


def wait_until(condition, text, seconds=60 * SLOWER):
    """Until it holds; AssertionError if that does not happen."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"this did not happen: {text}"
        time.sleep(0.02)


def median_ms(rounds, action, before=lambda: None):
    """Of so many rounds of it, each after `before`."""
    taken = []
    for _ in range(rounds):
        before()
        begun = time.monotonic()
        action()
        taken.append((time.monotonic() - begun) * 1000)
    return sorted(taken)[rounds // 2]


def main(cases, make):
    """Runs each case (name -> function of machines) on machines of its own, which `make` makes. Returns the test's exit status."""
    worst = 0
    for name, case in cases.items():
        begun = time.monotonic()
        try:
            with make() as net:
                worst = max(worst, run_case(name, case, net))
        except Unavailable as reason:
            print(reason)
            return 77
        print(f"{name}: {time.monotonic() - begun:.1f} s")
    return worst


def run_case(name, case, net):
    try:
        case(net)
        print(f"ok   {name}")
        return 0
    except (AssertionError, subprocess.TimeoutExpired) as error:
        tell_failure(name, error, net.root, 3000)
        return 1
