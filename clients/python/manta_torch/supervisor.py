# SPDX-License-Identifier: Apache-2.0
#
# supervisor.py - starts ranks, and another process for each that dies. Needs Python alone, so it is there at once and small.
#
# It creates the group and names its generations. To each child it has a socket (MANTA_TORCH_FD in the child's environment)
# with lines of JSON: the child says {"ready": pid} once it can join, then hears {"id", "rank", "size", "generation"}, one such line for each
# generation. A spare says it too, and hears nothing until somebody has died.
#
#   STARTED --ready--> READY --a place is free--> MEMBER --exit 0--> gone, done
#      '------------------'-------------------------'-----else-----> gone, replaced
#
# Thread: one.
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

from . import coll

END_S = 10  # between SIGTERM and SIGKILL
SPARE_S = 1  # from a death to the start of another spare: loading torch would take the CPUs that the others go on with


class Child:
    def __init__(self, command, env):
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        with theirs:
            env = {**os.environ, **env, "MANTA_TORCH_FD": str(theirs.fileno())}
            self.process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()])
        self.pid_fd = os.pidfd_open(self.process.pid)
        self.is_ready, self.rank = False, None

    def close(self):
        self.socket.close()
        os.close(self.pid_fd)


class Supervisor:
    """`size` ranks that run `command`, `spares` more that wait, and at most `restarts` replacements."""

    def __init__(self, command, size, spares=0, restarts=10, timeout_ms=60_000, say=None):
        self.command, self.size, self.spares, self.restarts = command, size, spares, restarts
        self.say = say or (lambda text: print(f"manta_torch: {text}", file=sys.stderr, flush=True))
        self.group = coll.Group(size, coll.LOCAL, "torch", timeout_ms)
        self.generation, self.is_broken, self.done, self.code = 0, True, 0, 0
        self.children, self.selector = [], selectors.DefaultSelector()
        self.owed = []  # when spares are to be started

    def start(self):
        child = Child(self.command, {"WORLD_SIZE": str(self.size), "LOCAL_WORLD_SIZE": str(self.size)})
        self.selector.register(child.pid_fd, selectors.EVENT_READ, (self.ended, child))
        self.selector.register(child.socket, selectors.EVENT_READ, (self.heard, child))
        self.children.append(child)

    def run(self):
        """Until all ranks have ended well, or one can't be replaced. Gives the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, _: sys.exit(128 + caught))
        try:
            for _ in range(self.size + self.spares):
                self.start()
            while self.done < self.size and not self.code:
                for key, _ in self.selector.select(max(0, self.owed[0] - time.monotonic()) if self.owed else None):
                    call, child = key.data
                    if child in self.children:
                        call(child)
                while self.owed and self.owed[0] <= time.monotonic():
                    self.owed.pop(0)
                    self.start()
        finally:
            self.stop()
        return self.code

    def stop(self):
        for child in self.children:
            child.process.terminate()
        until = time.monotonic() + END_S
        for child in self.children:
            try:
                child.process.wait(max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        self.group.free()

    def heard(self, child):
        """It is ready, or has closed its end: then its exit tells more."""
        try:
            child.is_ready = bool(child.socket.recv(4096))
        except OSError:
            pass
        self.selector.unregister(child.socket)
        self.form()

    def ended(self, child):
        code = child.process.wait()
        self.children.remove(child)
        for file in (child.pid_fd, child.socket):
            if file in self.selector.get_map():
                self.selector.unregister(file)
        child.close()
        if child.rank is not None and code == 0:
            self.done += 1
            return
        if self.done:
            self.code = code or 1
            self.say(f"rank {child.rank} ended with {code} after others had finished")
            return
        self.replace(child, code)

    def replace(self, child, code):
        who = "a spare" if child.rank is None else f"rank {child.rank}"
        if child.rank is not None:
            self.group.died(child.rank, child.process.pid)
            self.is_broken = True
        if self.restarts == 0:
            self.code = code if code > 0 else 128 - code if code < 0 else 1
            self.say(f"{who} ended with {code}, and no further replacement is allowed")
            return
        self.restarts -= 1
        has_spare = child.rank is not None and self.waiting()
        if has_spare:
            self.owed.append(time.monotonic() + SPARE_S)
        else:
            self.start()
        self.form()
        then = "a spare takes its place" if has_spare else "started again"
        self.say(f"{who} (process {child.process.pid}) ended with {code}: {then}")

    def waiting(self):
        return [child for child in self.children if child.is_ready and child.rank is None]

    def form(self):
        """The next generation, once there is somebody for each place."""
        members = {child.rank: child for child in self.children if child.rank is not None}
        free = [rank for rank in range(self.size) if rank not in members]
        waiting = self.waiting()
        if not self.is_broken or len(waiting) < len(free):
            return
        for rank, child in zip(free, waiting):
            members[rank], child.rank = child, rank
        id_bytes = self.group.next(self.size) if self.generation else self.group.id()
        self.generation += 1
        self.is_broken = False
        for rank, child in members.items():
            line = {"id": id_bytes.hex(), "rank": rank, "size": self.size, "generation": self.generation}
            try:
                child.socket.sendall(json.dumps(line).encode() + b"\n")
            except OSError:
                pass  # it is dying: the selector says so next
