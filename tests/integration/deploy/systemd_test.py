#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# systemd_test.py BIN CASE - the units of deploy/systemd: systemd-analyze finds nothing to say about them; and a systemd of our
# own (a user's manager, in mounts and below a control group of its own) runs them while their daemons are killed.
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from gone import has_gone  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
UNITS = pathlib.Path(__file__).parents[3] / "deploy" / "systemd"
WAIT_S = 60 * int(os.environ.get("TEST_SLOWER", 1))
SKIP = 77


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def wait_until(condition, text):
    end = time.monotonic() + WAIT_S
    while not condition():
        check(time.monotonic() < end, f"this did not happen: {text}")
        time.sleep(0.05)


def write_units(folder, change=lambda text: text):
    for path in UNITS.glob("*.service.in"):
        text = path.read_text().replace("@CMAKE_INSTALL_FULL_BINDIR@", str(BIN))
        (folder / path.stem).write_text(change(text.replace("@CMAKE_INSTALL_FULL_DATADIR@", "/usr/share")))


def analyzed(folder):
    return [subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=WAIT_S)
            for path in sorted(folder.glob("*.service"))]


def verify(folder):
    if not shutil.which("systemd-analyze"):
        return SKIP
    write_units(folder)
    for done in analyzed(folder):
        check(done.returncode == 0 and not done.stderr, f"{done.args}: {done.stderr}")
    write_units(folder, lambda text: text.replace("LimitNOFILE=", "LimitNOFILES="))  # it is heard
    check(all("LimitNOFILES" in done.stderr for done in analyzed(folder)), "an option that is none passes")
    return 0


# ---- a systemd of our own ----

class Manager:
    """A user's manager, whose /run/manta and /var/lib/manta are those of the units, but nobody else's."""

    TARGETS = ("basic", "default", "shutdown", "exit", "sockets", "paths", "timers")

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.groups = [pathlib.Path("/sys/fs/cgroup/systemd"), pathlib.Path("/sys/fs/cgroup/unified")]
        self.groups = [g / f"manta-test-{os.getpid()}" for g in self.groups if g.is_dir()]
        self.program = shutil.which("systemd", path="/lib/systemd:/usr/lib/systemd")
        self.is_possible = (os.getuid() == 0 and self.program and shutil.which("systemctl") and len(self.groups) > 0 and
                            os.access("/sys/fs/cgroup/systemd", os.W_OK) and libc.unshare(0x00020000) == 0 and
                            libc.mount(b"none", b"/", None, 0x44000, None) == 0)
        if not self.is_possible:
            return
        for path in ("/run", "/var/lib"):
            subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
        for path in ("/run/systemd/system", "/var/lib/manta"):
            os.makedirs(path, mode=0o755)
        for target in self.TARGETS:
            shutil.copy(f"/usr/lib/systemd/user/{target}.target", folder)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_RUNTIME_DIR": "/run", "XDG_CONFIG_HOME": "/var/lib",
                    "SYSTEMD_UNIT_PATH": str(folder), "MANTA_ADDRESS": "/run/manta"}
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen([self.program, "--user", "--log-target=console"], env=self.env, stdout=self.log,
                                        stderr=self.log, preexec_fn=self.enter)
        wait_until(pathlib.Path("/run/systemd/private").exists, "the manager is there")

    def enter(self):
        for group in self.groups:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(os.getpid()))

    def run(self, *words):
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=WAIT_S)
        check(done.returncode == 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def control(self, *words):
        return self.run("systemctl", "--user", *words)

    def told(self, unit, name):
        return self.control("show", "-P", name, unit).strip()

    def kill(self, unit):
        """Its main process; waits until there is another."""
        before, pid = int(self.told(unit, "NRestarts")), int(self.told(unit, "MainPID"))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: int(self.told(unit, "NRestarts")) > before and int(self.told(unit, "MainPID")) not in (0, pid),
                   f"{unit} is started again")

    def processes(self):
        """All below it but itself."""
        found = set()
        for path in (pathlib.Path(root, "cgroup.procs") for group in self.groups for root, _, _ in os.walk(group)):
            with contextlib.suppress(OSError):  # it goes while it is looked at
                found |= {int(pid) for pid in path.read_text().split()}
        return found - {self.process.pid}

    def close(self):
        self.process.kill()
        self.process.wait()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # of our own groups
        for group in self.groups:
            for path in sorted([*group.rglob("*/"), group], reverse=True):
                wait_until(lambda: not path.exists() or removed(path), f"{path} is empty")


def removed(path):
    try:
        if path.is_dir():
            path.rmdir()
        return True
    except OSError:
        return False


def of_this_machine(text):
    """The user `manta` is not here; and what is hidden from the head may hold its program here."""
    text = text.replace("User=manta\n", "")
    if str(BIN).startswith(("/home", "/root")):
        text = text.replace("ProtectHome=yes", "ProtectHome=read-only")
    return text.replace("PrivateTmp=yes", "PrivateTmp=no") if str(BIN).startswith(("/tmp", "/var/tmp")) else text


def run(folder):
    write_units(folder, of_this_machine)
    m = Manager(folder)
    if not m.is_possible:
        return SKIP
    try:
        manta = str(BIN / "manta")
        m.control("start", "manta-head", "manta-raylet")
        wait_until(lambda: has_node(m, manta), "the cluster is there")
        out = folder / "out"
        job = m.run(manta, "submit", "--retries", "1", "--", "sh", "-c",
                    f"echo $MANTA_JOB_ATTEMPT >> {out}; env -i setsid sleep 1000 & [ $MANTA_JOB_ATTEMPT = 2 ] || sleep 1000").strip()
        wait_until(lambda: len(processes_called("sleep", m)) == 2, "the job and what it has started run")
        sleepers = processes_called("sleep", m)
        m.kill("manta-head")
        wait_until(lambda: has_node(m, manta), "the head is back, with its node")
        check(all(os.path.exists(f"/proc/{pid}") for pid in sleepers), "the head's death ends a job")
        m.kill("manta-raylet")
        check(all(has_gone(pid, 0) for pid in sleepers), "what jobs have started outlives their raylet")
        m.run(manta, "job", "wait", job)
        check(out.read_text().split() == ["1", "2"], out.read_text())
        m.control("stop", "manta-raylet", "manta-head")
        for unit in ("manta-head", "manta-raylet"):
            check(m.told(unit, "Result") == "success", f"{unit}: {m.told(unit, 'Result')}")
        check(not m.processes(), f"left over: {m.processes()}")
        return 0
    except AssertionError:
        print((folder / "log").read_text(errors="replace")[-6000:])
        raise
    finally:
        m.close()


def has_node(m, manta):
    done = subprocess.run([manta, "healthcheck"], env=m.env, capture_output=True, text=True, timeout=WAIT_S)
    return "nodes alive: 1" in done.stdout


def processes_called(name, m):
    found = []
    for pid in m.processes():
        with contextlib.suppress(OSError):  # it has ended
            found += [pid] if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name else []
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="msys.") as place:
        sys.exit(globals()[sys.argv[2]](pathlib.Path(place)))
