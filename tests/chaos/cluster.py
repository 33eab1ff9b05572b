# SPDX-License-Identifier: Apache-2.0
#
# cluster.py - one head and two raylets on this machine, as children of the test, to be killed and started again.
import collections
import os
import pathlib
import select
import signal
import subprocess
import time

START_S = 60 * int(os.environ.get("TEST_SLOWER", 1))


def stat_of(pid):
    """(state, parent, start time) of a process; None when it is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return fields[0], int(fields[1]), fields[19]


def processes():
    """Maps pid to parent, zombies left out."""
    found = {}
    for entry in os.listdir("/proc"):
        stat = stat_of(entry) if entry.isdigit() else None
        if stat and stat[0] not in "ZX":
            found[int(entry)] = stat[1]
    return found


def pss_kib(pid):
    """KiB of each kind of memory: what is private, each sort of memfd, all files (which others share more or less)."""
    found, kind = collections.Counter(), ""
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):
            name = (line.split(maxsplit=5) + [""])[5]
            kind = name.split(":")[1].split()[0] if name.startswith("/memfd:") else "files" if name[:1] == "/" else "private"
        elif first == "Pss:":
            found[kind] += int(line.split()[1])
    return found


class Cluster:
    def __init__(self, build, folder, cpus, *options, before=None):
        """`options` are further ones of both raylets; `before` maps a daemon's name to the words that its command begins with."""
        self.build, self.folder, self.cpus, self.options = pathlib.Path(build), pathlib.Path(folder), cpus, options
        self.before = before or {}
        self.daemons = {}
        self.fds = {}  # of each daemon when it was ready
        self.log = open(self.folder / "daemons.log", "ab", buffering=0)
        self.start("head")
        for i in range(2):
            (self.folder / f"n{i}").mkdir(mode=0o700)
            self.start(f"raylet{i}")

    def command(self, name):
        if name == "head":
            return [self.build / "bin/manta-head", "--dir", self.folder / "head"]
        number = name[-1]
        return [self.build / "bin/manta-raylet", "--dir", self.folder / f"n{number}", "--node-name", f"n{number}",
                "--head-file", self.folder / "head/head.addr", "--token-file", self.folder / "head/token", "--num-cpus",
                str(self.cpus), "--resources", f"at{number}=100", "--store-memory", str(256 << 20), *self.options]

    def start(self, name, meanwhile=lambda: None):
        """Waits until it is ready; what must go on while it starts (a head that is stopped now) is `meanwhile`."""
        ours, theirs = os.pipe()
        process = subprocess.Popen([*self.before.get(name, []), *map(str, self.command(name)), "--ready-fd", str(theirs)], pass_fds=[theirs],
                                   stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(theirs)
        until, said = time.monotonic() + START_S, b""
        while not said and process.poll() is None and time.monotonic() < until:
            meanwhile()
            if select.select([ours], [], [], 0.02)[0]:
                said = os.read(ours, 200)
        os.close(ours)
        if not said:
            raise SystemExit(f"chaos: {name} did not start; see {self.folder}/daemons.log")
        self.daemons[name] = process
        self.fds[name] = self.fds_of(name)
        return process

    def fds_of(self, name):
        """How many descriptors of each sort it has open."""
        folder, found = f"/proc/{self.daemons[name].pid}/fd", collections.Counter()
        for fd in os.listdir(folder):
            try:
                found[os.readlink(f"{folder}/{fd}").split("[")[0]] += 1
            except OSError:
                pass  # closed meanwhile
        return found

    def below(self, name):
        """The zygotes of a raylet, and their workers."""
        parents, root = processes(), self.daemons[name].pid
        zygotes = [pid for pid, parent in parents.items() if parent == root]
        return zygotes, [pid for pid, parent in parents.items() if parent in zygotes]

    def kill(self, name):
        self.daemons[name].kill()
        self.daemons[name].wait()

    def stop(self):
        """The end of all daemons by SIGTERM; what did not end well."""
        bad = []
        for name in ("raylet1", "raylet0", "head"):
            process = self.daemons[name]
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            if status:
                bad.append(f"{name} ended with status {status}")
        self.log.close()
        return bad


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
