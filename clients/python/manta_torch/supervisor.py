# SPDX-License-Identifier: Apache-2.0
#
# supervisor.py - starts the ranks of a program on this machine, and another process for each that dies. Needs no torch.
#
# It creates the group and names its generations. To each child it has a socket (MANTA_TORCH_FD in the child's environment)
# with lines of JSON: the child says {"ready": pid} once it can join, then hears {"id", "rank", "size", "generation"}, one such line for each
# generation, and says {"joined": generation}, and {"over": generation} when its calls have ended there. A spare says that it is ready
# too, and hears nothing until somebody has died. On several machines (nodes.py) the child says where it listens as well, and hears
# {"peers", "key", ...} instead of the id.
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
# A generation that has ended for all of its members, and none of them has died (a call's time was over, a connection broke), is followed by
# another one of the same processes, which counts as a replacement.
#
# Always: processes without a place, with those that are owed, are at least as many as the free places. Once one has finished they are just
# as many, or no place is free.
#
# Thread: one.
import sys
import time

from . import coll
from .processes import Processes

SPARE_S = 1  # from a death to the start of another spare: loading torch would take the CPUs that the others go on with


def status_of(code):
    """The exit status that a shell would give, of a child's that is not 0."""
    return code if code > 0 else 128 - code


class Supervisor(Processes):
    """`size` ranks that run `command`, `spares` more that wait, and at most `restarts` replacements."""

    def __init__(self, command, size, spares=0, restarts=10, timeout_ms=60_000, say=None):
        super().__init__(command)
        self.size, self.spares, self.restarts, self.timeout_ms = size, spares, restarts, timeout_ms
        self.say = say or (lambda text: print(f"manta_torch: {text}", file=sys.stderr, flush=True))
        self.group = None
        self.generation, self.is_broken, self.is_begun, self.code = 0, True, False, 0
        self.finished = []  # ranks, in the order of their ends
        self.owed = []  # when spares are to be started

    def sizes(self):
        return {"WORLD_SIZE": str(self.size), "LOCAL_WORLD_SIZE": str(self.size)}

    def start(self, node=None):
        """Another process, on the machine where one has died."""
        self.start_here(self.sizes())

    def begin(self):
        self.is_begun = True
        for _ in range(self.size + self.spares):
            self.start()

    def work(self):
        """Until all ranks have ended well, or one can't be replaced."""
        self.begin()
        while len(self.finished) < self.size and not self.code:
            self.look(max(0, self.owed[0] - time.monotonic()) if self.owed else None)
            while self.owed and self.owed[0] <= time.monotonic():
                self.owed.pop(0)
                self.start()

    def stop(self):
        super().stop()
        if self.group:
            self.group.free()

    def hears_line(self, child, line):
        if "ready" in line:
            child.is_ready, child.address, child.pid = True, line.get("address"), child.pid or int(line["ready"])
            if self.finished:
                self.tell_closed(child)
            self.form()
        elif "over" in line:
            self.gives_up(child, line["over"])
        else:
            child.joined = line.get("joined", 0)

    def gives_up(self, child, generation):
        child.over = generation
        members = [other for other in self.children if other.rank is not None]
        if self.is_broken or self.finished or len(members) < self.size or any(other.over < self.generation for other in members):
            return
        if self.restarts == 0:
            self.code = 1
            self.say(f"generation {self.generation} has ended for all ranks, and no further one is allowed")
            return
        self.restarts -= 1
        self.say(f"generation {self.generation} has ended for all ranks, and none of them has died: they meet again")
        self.is_broken = True
        self.form()

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
