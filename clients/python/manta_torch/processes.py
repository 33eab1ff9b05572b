# SPDX-License-Identifier: Apache-2.0
#
# processes.py - processes of this machine that are ranks, or are to be: their start, their lines, their ends. What these mean is said by who
# inherits: supervisor.py, and on other machines than its own nodes.py, which passes it on. Needs no torch.
#
# Always: a process of these dies with this one, however that ends; what it has started is its own.
#
# Thread: one, with which they die.
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

END_S = 10  # between SIGTERM and SIGKILL
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with(parent):
    """Run in the child, before its program: SIGKILL when its parent dies, which may have died meanwhile."""
    if _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(127)


class Child:
    """A process of this machine."""

    node = number = 0

    def __init__(self, command, env):
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        parent = os.getpid()
        with theirs:
            env = {**os.environ, **env, "MANTA_TORCH_FD": str(theirs.fileno())}
            self.process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()], preexec_fn=lambda: _die_with(parent))
        self.pid = self.process.pid
        self.pid_fd = os.pidfd_open(self.pid)
        self.is_ready, self.rank, self.address, self.joined, self.over, self.said = False, None, None, 0, 0, b""

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


class Processes:
    """Those that run `command`. hears_line(child, line) and gone(child, exit code) are told of them."""

    code = None  # of this process

    def __init__(self, command):
        self.command, self.children, self.selector = command, [], selectors.DefaultSelector()

    def start_here(self, env):
        child = Child(self.command, env)
        self.selector.register(child.pid_fd, selectors.EVENT_READ, (self.ended, child))
        self.selector.register(child.socket, selectors.EVENT_READ, (self.heard, child))
        self.children.append(child)
        return child

    def look(self, seconds):
        for key, _ in self.selector.select(seconds):
            call, child = key.data
            if not isinstance(child, Child) or child in self.children:
                call(child)

    def heard(self, child):
        lines = child.hear()
        if lines is None:
            self.selector.unregister(child.socket)
        for line in lines or []:
            self.hears_line(child, line)

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

    def run(self):
        """work(), and then none of them is left. Gives the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, _: sys.exit(128 + caught))
        try:
            self.work()
        except BaseException:
            self.code = self.code or 1  # other machines hear it
            raise
        finally:
            self.stop()
        return self.code

    def stop(self):
        children = [child for child in self.children if isinstance(child, Child)]
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
