# SPDX-License-Identifier: Apache-2.0
#
# net.py - lines of JSON between the supervisors of several machines: signed, so that who has no secret says nothing that is believed.
# They carry nothing secret: who runs where, and where ranks listen.
#
# Each side begins with a line of 16 random bytes; the key of a connection is made of the secret and both. A line is JSON, a blank, and an
# HMAC-SHA256 over who says it, its number and the JSON: none can be changed, left out, repeated or sent back. Needs Python alone.
#
# Thread: one per link.
import hashlib
import hmac
import json
import os
import socket
import time

from . import coll, secret

LINE_MAX = 1 << 20
BEAT_S, SILENT_S = 1, 10  # a sign of life so often; without one for so long the other is lost


class Lost(Exception):
    """The other side has gone, is silent, or has another secret."""


class Link:
    """One end. `takes` is called with each message; a sign of life is none."""

    def __init__(self, sock, root, is_dialler, takes):
        self.socket, self.takes, self.is_dialler, self.broken = sock, takes, is_dialler, None
        self.root, self.mine, self.key = root, os.urandom(16).hex(), None
        self.said = self.heard = 0
        self.buffer, self.heard_at, self.beat_at = b"", time.monotonic(), 0.0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(SILENT_S)
        sock.sendall(self.mine.encode() + b"\n")
        self.waiting = []  # said before the other's number came

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()

    def _sign(self, is_dialler, number, text):
        side = "dialler" if is_dialler else "listener"
        return hmac.new(self.key, f"{side} {number} {text}".encode(), hashlib.sha256).hexdigest()

    def say(self, **message):
        if self.broken:
            return
        if self.key is None:
            self.waiting.append(message)
            return
        text = json.dumps(message)
        line = f"{text} {self._sign(self.is_dialler, self.said, text)}\n"
        self.said += 1
        try:
            self.socket.sendall(line.encode())
        except OSError as error:
            self.broken = str(error)  # who looks next is told

    def beat(self):
        """Called now and then: a sign of life when it is time, and a look for the other's."""
        now = time.monotonic()
        if self.broken:
            raise Lost(self.broken)
        if now - self.heard_at > SILENT_S:
            raise Lost(f"silent for {SILENT_S} s")
        if now - self.beat_at >= BEAT_S:
            self.beat_at = now
            self.say()

    def _line(self, text):
        if self.key is None:
            first, second = (self.mine, text) if self.is_dialler else (text, self.mine)
            if len(text) != len(self.mine) or text == self.mine:
                raise Lost("no supervisor speaks there")
            self.key = secret.key(self.root, "supervisors", first, second)
            waiting, self.waiting = self.waiting, []
            for message in waiting:
                self.say(**message)
            return
        message, _, signed = text.rpartition(" ")
        if not hmac.compare_digest(signed, self._sign(not self.is_dialler, self.heard, message)):
            raise Lost("it has another secret, or somebody has changed what it said")
        self.heard += 1
        if message != "{}":
            self.takes(self, json.loads(message))

    def readable(self):
        """The socket has something."""
        if self.socket.fileno() < 0:
            return
        try:
            came = self.socket.recv(1 << 16)
        except ConnectionError:  # it went with words of ours unread
            came = b""
        except OSError as error:
            raise Lost(str(error)) from None
        if not came:
            raise Lost("it has gone")
        self.heard_at = time.monotonic()
        *lines, self.buffer = (self.buffer + came).split(b"\n")
        if len(self.buffer) > LINE_MAX:
            raise Lost("a line without an end")
        for line in lines:
            try:
                self._line(line.decode())
            except (ValueError, KeyError, TypeError):
                raise Lost("what it said is no message") from None


def place_of(text):
    """HOST:PORT, as ("10.0.0.1", 29400)."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise coll.BadArgument(f"{text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def dial(place, seconds):
    """Connects, again and again until somebody listens."""
    until = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(place, timeout=SILENT_S)
        except OSError as error:
            if time.monotonic() > until:
                raise coll.TimedOut(f"nobody listens at {place[0]}:{place[1]} within {seconds} s: {error}") from None
            time.sleep(0.2)
