# SPDX-License-Identifier: Apache-2.0
#
# nodes.py - ranks of `python -m manta_torch` on several machines: the supervisor of machine 0 decides for all (supervisor.py); on each
# other one a host starts what it says, and tells it what becomes of that.
#
#   host                                           supervisor of machine 0
#      {"node": 1, "address": "10.0.0.2"}  -->
#                                          <--     {"start": 7, "env": {...}}
#      {"heard": 7, "line": {"ready"...}}  -->                                  each line of the child's
#                                          <--     {"tell": 7, "line": {generation, peers, rank, ...}}, and the others (supervisor.py)
#      {"ended": 7, "pid": 4711, "code": -9} -->
#                                          <--     {"stop": 0}
#
# Neither outlives the other for more than net.SILENT_S: a host without its supervisor ends its ranks, and the supervisor counts those of
# a lost host as dead.
#
# Thread: one.
import selectors
import signal
import socket
import sys
import time

from . import coll, net, secret
from .processes import Processes
from .supervisor import Supervisor

MEET_S = 300  # for all machines to come
STRANGERS_MAX = 32  # that have not shown the secret


class Far:
    """A process on another machine, as the supervisor has it: what Child is for one here."""

    def __init__(self, node, number, link):
        self.node, self.number, self.link, self.pid = node, number, link, 0
        self.is_ready, self.rank, self.address, self.joined, self.over = False, None, None, 0, 0

    def tell(self, line):
        self.link.say(tell=self.number, line=line)


class Over(Supervisor):
    """Ranks on `nodes` machines, so many on each; this is machine 0."""

    def __init__(self, command, each, nodes, place, **options):
        super().__init__(command, each * nodes, **options)
        self.each, self.nodes, self.place, self.root = each, nodes, place, secret.root()
        self.links, self.addresses = {}, {0: place[0]}  # of the other machines
        self.newcomers, self.numbers, self.number = [], 0, int.from_bytes(secret.key(self.root, "run", time.time_ns())[:8], "big")

    # ---- where processes are ----

    def place_for(self, node):
        """On that machine, or where the fewest are when it has gone."""
        there = [0, *self.links]
        return node if node in there else min(there, key=lambda n: sum(child.node == n for child in self.children))

    def start(self, node=None):
        here = len(self.children)
        node = self.place_for(here // self.each if node is None and here < self.size else node if node is not None else here % self.nodes)
        env = {"MANTA_TORCH_PEERS": self.addresses[node], "WORLD_SIZE": str(self.size), "LOCAL_WORLD_SIZE": str(self.each)}
        if node == 0:
            return super().start_here(env)
        self.numbers += 1
        self.children.append(Far(node, self.numbers, self.links[node]))
        self.links[node].say(start=self.numbers, env=env)
        return None

    def line_for(self, child, members):
        same = sorted(rank for rank, other in members.items() if other.node == child.node)
        return {
            "peers": [members[rank].address for rank in sorted(members)], "key": self.key_of(self.generation).hex(), "group": self.number,
            "rank": child.rank, "size": self.size, "generation": self.generation, "local_rank": same.index(child.rank),
            "local_size": len(same), "timeout_ms": self.timeout_ms,
        }  # fmt: skip

    def key_of(self, generation):
        return secret.key(self.root, "ranks", self.number, generation)

    def tell(self, child, line):
        """A key never travels: the other machine makes it of the same secret."""
        child.tell(line if child.node == 0 else {name: value for name, value in line.items() if name != "key"})

    # ---- the other machines ----

    def listen(self):
        family = socket.AF_INET6 if ":" in self.place[0] else socket.AF_INET
        try:
            self.listener = socket.create_server(self.place, family=family)
        except OSError as error:
            raise coll.BadArgument(f"--rdzv {self.place[0]}:{self.place[1]} is not to be had here: {error.strerror}") from None
        self.selector.register(self.listener, selectors.EVENT_READ, (self.comes, None))
        until = time.monotonic() + MEET_S
        while len(self.links) < self.nodes - 1:
            self.look(1)
            if time.monotonic() > until:
                lacking = sorted(set(range(1, self.nodes)) - set(self.links))
                raise coll.TimedOut(f"no supervisor of machines {lacking} has come within {MEET_S} s")

    def comes(self, _):
        sock, _ = self.listener.accept()
        if len(self.newcomers) >= STRANGERS_MAX:
            self.lose(self.newcomers[0], "others want in")
        try:
            link = net.Link(sock, self.root, False, self.hears)
        except OSError:
            sock.close()
            return
        link.node = None
        self.newcomers.append(link)
        self.selector.register(link, selectors.EVENT_READ, (self.speaks, link))

    def speaks(self, link):
        try:
            link.readable()
        except net.Lost as why:
            self.lose(link, why)

    def hears(self, link, message):
        if link.node is None:
            self.enters(link, int(message["node"]), str(message["address"]))
            return
        number = message.get("heard", message.get("ended"))
        child = next((c for c in self.children if c.node == link.node and c.number == number), None)
        if child is None:
            return
        if "heard" in message:
            self.hears_line(child, message["line"])
        else:
            child.pid = int(message["pid"])
            self.children.remove(child)
            self.gone(child, int(message["code"]))

    def enters(self, link, node, address):
        """What it said was signed, so it has the secret."""
        self.newcomers.remove(link)
        if not 0 < node < self.nodes or node in self.links or self.generation or self.is_begun:
            self.say(f"a supervisor that says it is of machine {node} was sent away: there is one, or it comes too late")
            link.say(stop=1)
            link.node = -1
            self.newcomers.append(link)
            return
        link.node, self.links[node], self.addresses[node] = node, link, address

    def lose(self, link, why):
        if link.fileno() < 0:
            return
        self.selector.unregister(link)
        link.close()
        if link in self.newcomers:
            self.newcomers.remove(link)
            if link.node is None:
                self.say(f"somebody who wanted to be a machine's supervisor was refused: {why}")
            return
        del self.links[link.node]
        self.say(f"machine {link.node} is lost: {why}")
        lost = [child for child in self.children if child.node == link.node]
        self.children = [child for child in self.children if child not in lost]  # all: none of them is in the next generation
        for child in lost:
            self.gone(child, -int(signal.SIGKILL))

    def begin(self):
        self.listen()
        super().begin()

    def look(self, seconds):
        super().look(min(seconds if seconds is not None else net.BEAT_S, net.BEAT_S))
        for link in [*self.links.values(), *self.newcomers]:
            try:
                link.beat()
            except net.Lost as why:
                self.lose(link, why)

    def stop(self):
        for link in self.links.values():
            link.say(stop=self.code)
        super().stop()


class Host(Processes):
    """Of machine `node`, which is not 0."""

    def __init__(self, command, node, place):
        super().__init__(command)
        self.root = secret.root()
        sock = net.dial(place, MEET_S)
        self.link = net.Link(sock, self.root, True, self.hears)
        self.link.say(node=node, address=sock.getsockname()[0])
        self.selector.register(self.link, selectors.EVENT_READ, (self.speaks, None))

    def speaks(self, _):
        self.link.readable()

    def hears(self, _, message):
        if "stop" in message:
            self.code = int(message["stop"])
        elif "start" in message:
            self.start_here(message["env"]).number = int(message["start"])
        elif "tell" in message:
            for child in [child for child in self.children if child.number == message["tell"]]:
                self.tell(child, message["line"])

    def tell(self, child, line):
        if "generation" in line:
            line["key"] = secret.key(self.root, "ranks", line["group"], line["generation"]).hex()
        child.tell(line)

    def hears_line(self, child, line):
        self.link.say(heard=child.number, line=line)

    def gone(self, child, code):
        self.link.say(ended=child.number, pid=child.pid, code=code)

    def work(self):
        """Until the supervisor says so."""
        try:
            while self.code is None:
                self.look(net.BEAT_S)
                self.link.beat()
        except net.Lost as why:
            print(f"manta_torch: the supervisor of machine 0 is lost: {why}", file=sys.stderr, flush=True)
            self.code = 1
