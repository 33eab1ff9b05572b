# SPDX-License-Identifier: Apache-2.0
#
# supervisor.py - starts the ranks of a program on this machine, and another process for each that dies. Needs no torch.
#
# It creates the group and names its generations. To each child it has a socket (MANTA_TORCH_FD in the child's environment)
# with lines of JSON: the child says {"ready": pid} once it can join, then hears {"id", "rank", "size", "generation"}, one such line for each
# generation, and says {"joined": generation}. A spare says that it is ready too, and hears nothing until somebody has died. On several
# machines (nodes.py) the child says where it listens as well, and hears {"peers", "key", ...} instead of the id.
#
# {"closed": rank}: that one has finished, so no further generation comes; {"closed": null}: all are being ended. {"over": generation}: who
# has finished won't come to that one.
#
#   STARTED --ready--> READY --a place is free--> MEMBER
#      '------------------'--------------------------'----exit 0----> gone, finished
#                                                    '-----else-----> gone, replaced; a failure of all where one has finished
#
# Who ends with 0 is not begun again. Where that one had no place, it has finished as the lowest rank that is free; but where there are enough
# others for all places it was a spare, and nobody waits for it.
#
# Always: processes without a place, with those that are owed, are at least as many as the free places. Once one has finished they are just
# as many, or no place is free.
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
    """A process of this machine."""

    node = number = 0

    def __init__(self, command, env):
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        with theirs:
            env = {**os.environ, **env, "MANTA_TORCH_FD": str(theirs.fileno())}
            self.process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()])
        self.pid = self.process.pid
        self.pid_fd = os.pidfd_open(self.pid)
        self.is_ready, self.rank, self.address, self.joined, self.said = False, None, None, 0, b""

    def hear(self):
        """The lines that have come. None: it has closed its end, and its exit tells more."""
        try:
            more = self.socket.recv(4096)
            *lines, self.said = (self.said + more).split(b"\n")
            return [json.loads(line) for line in lines] if more else None
        except BlockingIOError:
            return []
        except (OSError, ValueError):
            return None

    def tell(self, line):
        try:
            self.socket.sendall(json.dumps(line).encode() + b"\n")
        except OSError:
            pass  # it is dying: the selector says so next

    def close(self):
        self.socket.close()
        os.close(self.pid_fd)


def status_of(code):
    """The exit status that a shell would give, of a child's that is not 0."""
    return code if code > 0 else 128 - code


def stop_all(children):
    for child in children:
        child.process.terminate()
        child.tell({"closed": None})  # who does not end by that, and waits for a generation, need not wait
    until = time.monotonic() + END_S
    for child in children:
        try:
            child.process.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()


class Supervisor:
    """`size` ranks that run `command`, `spares` more that wait, and at most `restarts` replacements."""

    def __init__(self, command, size, spares=0, restarts=10, timeout_ms=60_000, say=None):
        self.command, self.size, self.spares, self.restarts, self.timeout_ms = command, size, spares, restarts, timeout_ms
        self.say = say or (lambda text: print(f"manta_torch: {text}", file=sys.stderr, flush=True))
        self.group = None
        self.generation, self.is_broken, self.is_begun, self.code = 0, True, False, 0
        self.children, self.selector = [], selectors.DefaultSelector()
        self.finished = []  # ranks, in the order of their ends
        self.owed = []  # when spares are to be started

    def sizes(self):
        return {"WORLD_SIZE": str(self.size), "LOCAL_WORLD_SIZE": str(self.size)}

    def start(self, node=None):
        """Another process, on the machine where one has died."""
        self.start_here(self.sizes())

    def start_here(self, env):
        child = Child(self.command, env)
        self.selector.register(child.pid_fd, selectors.EVENT_READ, (self.ended, child))
        self.selector.register(child.socket, selectors.EVENT_READ, (self.heard, child))
        self.children.append(child)

    def begin(self):
        self.is_begun = True
        for _ in range(self.size + self.spares):
            self.start()

    def look(self, seconds):
        for key, _ in self.selector.select(seconds):
            call, child = key.data
            if not isinstance(child, Child) or child in self.children:
                call(child)

    def run(self):
        """Until all ranks have ended well, or one can't be replaced. Gives the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, _: sys.exit(128 + caught))
        try:
            self.begin()
            while len(self.finished) < self.size and not self.code:
                self.look(max(0, self.owed[0] - time.monotonic()) if self.owed else None)
                while self.owed and self.owed[0] <= time.monotonic():
                    self.owed.pop(0)
                    self.start()
        finally:
            self.stop()
        return self.code

    def stop(self):
        stop_all([child for child in self.children if isinstance(child, Child)])
        if self.group:
            self.group.free()

    def heard(self, child):
        lines = child.hear()
        if lines is None:
            self.selector.unregister(child.socket)
        for line in lines or []:
            self.hears_line(child, line)

    def hears_line(self, child, line):
        if "ready" in line:
            child.is_ready, child.address, child.pid = True, line.get("address"), child.pid or int(line["ready"])
            if self.finished:
                self.tell_closed(child)
            self.form()
        else:
            child.joined = line.get("joined", 0)

    def ended(self, child):
        code = child.process.wait()
        if child.socket in self.selector.get_map():
            self.heard(child)  # what it said before
        self.children.remove(child)
        for file in (child.pid_fd, child.socket):
            if file in self.selector.get_map():
                self.selector.unregister(file)
        child.close()
        self.gone(child, code)

    def gone(self, child, code):
        if code == 0:
            self.finish(child)
        elif not self.finished:
            self.replace(child, code)
        elif child.rank is not None or (child.is_ready and self.free()):
            self.code = status_of(code)
            self.say(f"{self.name_of(child)} ended with {code} after others had finished")
        elif self.free():  # it took no part yet, and may end well
            self.replace(child, code)

    def name_of(self, child):
        return f"rank {child.rank}" if child.rank is not None else "a process without a rank" if self.free() else "a spare"

    def free(self):
        """The places that nobody has, or has had to the end."""
        taken = {child.rank for child in self.children}.union(self.finished)
        return [rank for rank in range(self.size) if rank not in taken]

    def finish(self, child):
        free = self.free()
        if child.rank is not None:
            free.remove(child.rank)
            if free and not self.finished:
                self.code = 1
                self.say(f"rank {child.rank} has finished, and so another one, which has died, can't go on: nobody has its state any more")
                return
            self.leave_generation(child)
        elif len(free) <= sum(other.rank is None for other in self.children) + len(self.owed):
            self.say(f"a spare (process {child.pid}) has finished, and is not started again")
            return
        else:
            child.rank = free[0]
        self.finished.append(child.rank)
        if len(self.finished) == 1:
            for other in self.children:
                self.tell_closed(other)

    def leave_generation(self, child):
        """The last generation is not whole where who has finished had not joined it."""
        if child.joined == self.generation:
            return
        if self.group:
            self.group.died(child.rank, child.pid)
            return
        for other in self.children:
            if other.rank is not None:
                self.tell(other, {"over": self.generation})

    def tell_closed(self, child):
        """To who takes part: no generation comes any more. A spare is not told, since it waits for nobody."""
        if child.is_ready and (child.rank is not None or self.free()):
            self.tell(child, {"closed": self.finished[0]})

    def replace(self, child, code):
        who = self.name_of(child)
        if child.rank is not None:
            self.is_broken = True
            if self.group:
                self.group.died(child.rank, child.pid)
        if self.restarts == 0:
            self.code = status_of(code)
            self.say(f"{who} ended with {code}, and no further replacement is allowed")
            return
        self.restarts -= 1
        has_spare = child.rank is not None and self.waiting()
        if has_spare:
            self.owed.append(time.monotonic() + SPARE_S)
        else:
            self.start(child.node)
        self.form()
        then = "a spare takes its place" if has_spare else "started again"
        self.say(f"{who} (process {child.pid}) ended with {code}: {then}")

    def waiting(self):
        return sorted((child for child in self.children if child.is_ready and child.rank is None), key=lambda child: child.node)

    def form(self):
        """The next generation, once there is somebody for each place."""
        members = {child.rank: child for child in self.children if child.rank is not None}
        free, waiting = self.free(), self.waiting()
        if not self.is_broken or self.finished or len(waiting) < len(free):
            return
        for rank, child in zip(free, waiting):
            members[rank], child.rank = child, rank
        self.generation += 1
        self.is_broken = False
        for child in members.values():
            self.tell(child, self.line_for(child, members))

    def line_for(self, child, _members):
        """What a member hears of the generation."""
        if self.group is None:
            self.group = coll.Group(self.size, coll.LOCAL, "torch", self.timeout_ms)
            self.named = 1, self.group.id()
        if self.named[0] != self.generation:
            self.named = self.generation, self.group.next(self.size)
        return {"id": self.named[1].hex(), "rank": child.rank, "size": self.size, "generation": self.generation}

    def tell(self, child, line):
        child.tell(line)
