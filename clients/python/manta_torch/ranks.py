# SPDX-License-Identifier: Apache-2.0
#
# ranks.py - a process's line to whoever supervises the ranks, and its member of their group, from one generation to the next. Needs
# no torch.
#
# The other end is supervisor.py, or the driver of a gang (clients/gang/plan/meet.h has the lines). There a rank makes the group's memory,
# by the driver's word; here the supervisor has.
#
# Thread: a thread hears the lines; all else is the caller's.
import json
import os
import socket
import threading

from . import coll

AGAIN_S = 0.05
ENDINGS = (coll.MemberDied, coll.Fenced, coll.TimedOut, coll.Aborted)  # of a generation; another one follows


class Ranks:
    """This process's line to its supervisor (supervisor.py, or `manta run --restart-rank`), and its end of the group."""

    def __init__(self):
        fd = os.environ.get("MANTA_TORCH_FD")
        if fd is None:
            raise coll.BadArgument("this process has no supervisor: start the script with `manta run -n N --restart-rank -- python SCRIPT`, "
                                   "or with `python -m manta_torch --nproc N SCRIPT`")
        self.socket = socket.socket(fileno=int(fd))
        os.set_inheritable(int(fd), False)
        self.generation, self.over, self.entering, self.told, self.news = 0, 0, 0, None, threading.Condition()
        self.given_up = 0  # the last generation of which was said that it is over here
        self.none, self.is_alone = None, False  # why no generation comes any more; no supervisor is left to say so
        self.saying = threading.Lock()
        self.member, self.group, self.failure, self.ends = None, None, None, threading.Lock()  # `ends`: over the member's and the group's
        address, host = None, os.environ.get("MANTA_TORCH_PEERS")
        if host:
            self.member, address = coll.Member.listen(host)
        self._say({"ready": os.getpid(), "address": address and address.hex()})
        threading.Thread(target=self._hear, args=(bool(host),), daemon=True).start()

    def _say(self, line):
        try:
            with self.saying:
                self.socket.sendall(json.dumps(line).encode() + b"\n")
        except OSError:
            pass  # the supervisor has gone: who hears its lines finds that out

    def _hear(self, has_peers):
        """The supervisor may die in the middle of a line, and with words of ours unread, which is an error here: `next` waits for it no more."""
        try:
            for line in self.socket.makefile("rb"):
                self._hears(json.loads(line), has_peers)
        except (OSError, ValueError):
            pass
        finally:
            with self.news:
                self.is_alone = True
                self.news.notify_all()

    def _hears(self, told, has_peers):
        """A later generation ends this one also where its members wait for somebody who is not there to tell them."""
        if "make" in told:
            self._make(told)
            return
        if "closed" in told:  # the present generation may end well still
            with self.news:
                self.none = self.none or coll.NoGeneration(told["closed"])
                self.news.notify_all()
            return
        if has_peers or "over" in told:
            self._end(told.get("over", told.get("generation", 1) - 1))  # first: who hears of the next one may be in it at once
        if "over" not in told:
            with self.news:
                self.told = told
                self.news.notify_all()

    def _end(self, generation):
        """Ends that generation and those before. An abort has no effect on who is just about to meet the others: so again, until it has."""
        with self.news:
            self.over = max(self.over, generation)
        self._abort()
        with self.news:
            while self.entering and not self.news.wait_for(lambda: not 0 < self.entering <= self.over, AGAIN_S):
                self._abort()

    def _abort(self):
        with self.ends:
            if self.member:
                self.member.abort()
            if self.group:
                self.group.abort()

    def _make(self, told):
        """The memory of a generation, for all of them; that of the last one is needed no more."""
        try:
            group = coll.Group(told["size"], coll.LOCAL, "torch", told["timeout_ms"])
        except coll.MantaError as error:
            with self.news:
                self.failure = error
                self.news.notify_all()
            return
        with self.ends:
            if self.group:
                self.group.free()
            self.group = group
        self._say({"made": told["make"], "id": group.id().hex()})

    def next(self, seconds=None):
        """Waits until a generation is formed with a place for this process. None: it was not within so many seconds. NoGeneration: none comes
        any more, since a rank has finished, or all are being ended. Who asks has given up the present one."""
        if self.given_up < self.generation:
            self.given_up = self.generation
            self._say({"over": self.generation})
        with self.news:
            if not self.news.wait_for(lambda: self.is_alone or self.failure or self.none or self._is_new(), seconds):
                return None
            if self.failure or self.none:
                raise self.failure or self.none
            if self.is_alone:
                raise coll.MantaError("the supervisor has gone", 45, "ECONN")
            self.generation = self.told["generation"]
            return self.told

    def _is_new(self):
        return self.told is not None and self.told["generation"] > max(self.generation, self.over)

    def enter(self, told):
        """Joins that generation. Gives this process's member of it."""
        with self.news:
            if self.none:  # all meet in the joining: who has finished won't come there
                raise self.none
            if told["generation"] <= self.over:
                raise coll.Aborted("a rank of this generation is gone already")
            self.entering = told["generation"]
        try:
            member = self._enter(told, told["rank"])
            self._say({"joined": told["generation"]})
            return member
        finally:
            with self.news:
                self.entering = 0
                self.news.notify_all()

    def _enter(self, told, rank):
        if "peers" in told:
            peers = [bytes.fromhex(peer) for peer in told["peers"]]
            key = bytes.fromhex(told["key"])
            self.member.meet(key, told["group"], told["generation"], rank, peers, "torch", told["timeout_ms"])
        elif "afresh" in told:
            with self.ends:
                last, self.member = self.member, None
            if last:
                last.leave()
            member = coll.Member(bytes.fromhex(told["afresh"]), rank)
            with self.ends:
                self.member = member
        elif self.member:
            self.member.regroup(bytes.fromhex(told["id"]), rank)
        else:
            self.member = coll.Member(bytes.fromhex(told["id"]), rank)
        return self.member
