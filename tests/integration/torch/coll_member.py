#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# coll_member.py BUILD_FOLDER PROGRAM [ARGUMENT...] - what the processes of coll_test.py do. They are many, and most of their time is
# Python's own start: so nothing is imported here that only the test needs.
#
#   member ID RANK WHAT   prints "ok", or the error that it got; WHAT is one call after another, as "moves+messages"
#   peer HOST WHAT        meets the others by itself: prints where it listens, and is told the rest by standard input
#   make SIZE             the memory of a group
#   supervised, gives_up, goes, apart, idles: ranks of `python -m manta_torch`
import array
import json
import os
import signal
import sys
import time

os.environ["MANTA_HOME"] = sys.argv[1]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), *[os.pardir] * 3, "clients", "python"))
from manta_torch import coll, ranks  # noqa: E402

SIZE, LIMIT_S, NOBODY = 3, 60, 65534
LARGE = 300_000  # elements: more than a mail


def at(data):
    return coll.address(data)


# ---- what members do ----


def reductions(member):
    rank = member.rank()
    for letter, kind in (("f", coll.F32), ("d", coll.F64), ("i", coll.I32), ("q", coll.I64), ("B", coll.U8)):
        for count in (1, 1000, LARGE):
            for op, want in ((coll.SUM, 1 + 2 + 3), (coll.MEAN, 2), (coll.MAX, 3), (coll.MIN, 1)):
                data, out = array.array(letter, [rank + 1]) * count, array.array(letter, [0]) * count
                member.all_reduce(at(data), at(data), count, kind, op)
                assert data == array.array(letter, [want]) * count, ("all_reduce", letter, count, op)
                data = array.array(letter, [rank + 1]) * count
                member.reduce(at(data), at(out) if rank == 1 else None, count, kind, op, 1)
                assert out == array.array(letter, [want if rank == 1 else 0]) * count, ("reduce", letter, count, op)
        parts, mine = array.array(letter, [rank] * 5 + [rank + 1] * 5 + [rank + 2] * 5), array.array(letter, [0] * 5)
        member.reduce_scatter(at(parts), at(mine), 5, kind, coll.SUM)
        assert mine == array.array(letter, [3 + 3 * rank] * 5), ("reduce_scatter", letter)


def moves(member):
    rank, size = member.rank(), member.size()
    for count in (1, 4096, LARGE):
        mine, everyone = array.array("i", [rank]) * count, array.array("i", [9]) * (count * size)
        member.all_gather(at(mine), at(everyone), count, coll.I32)
        assert everyone == sum((array.array("i", [r]) * count for r in range(size)), array.array("i")), "all_gather"
        for root in range(size):
            data = array.array("i", [rank * 10]) * count
            member.broadcast(at(data), count, coll.I32, root)
            assert data == array.array("i", [root * 10]) * count, "broadcast"
        there = sum((array.array("i", [rank * 10 + r]) * count for r in range(size)), array.array("i"))
        here = array.array("i", [9]) * (count * size)
        member.all_to_all(at(there), at(here), count, coll.I32)
        assert here == sum((array.array("i", [r * 10 + rank]) * count for r in range(size)), array.array("i")), "all_to_all"
        member.barrier()


def messages(member):
    rank, size = member.rank(), member.size()
    for count in (1, LARGE):
        data = array.array("d", [rank]) * count
        if rank == 0:
            member.send(at(data), count, coll.F64, 1)
            member.receive(at(data), count, coll.F64, size - 1)
        else:
            member.receive(at(data), count, coll.F64, rank - 1)
            member.send(at(data), count, coll.F64, (rank + 1) % size)
        assert data == array.array("d", [0]) * count, "a ring of messages"


def disagree(member):
    data = array.array("f", [0]) * 8
    member.all_reduce(at(data), at(data), 7 if member.rank() == 1 else 8, coll.F32, coll.SUM)


def bad_calls(member):
    data = array.array("f", [0]) * 8
    for call in (
        lambda: member.all_reduce(at(data), at(data), 8, 77, coll.SUM),
        lambda: member.all_reduce(None, at(data), 8, coll.F32, coll.SUM),
        lambda: member.broadcast(at(data), 8, coll.F32, 3),
        lambda: member.send(at(data), 8, coll.F32, member.rank()),
    ):
        try:
            call()
            raise AssertionError("was taken")
        except coll.BadArgument:
            pass
    member.barrier()  # nobody else was told of any of that


def die(member):
    member.barrier()
    if member.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    data = array.array("f", [0]) * LARGE
    while True:
        member.all_reduce(at(data), at(data), LARGE, coll.F32, coll.SUM)


def go_on(member):
    """After a death in the first generation, in the next one: its id comes by standard input."""
    try:
        die(member)
    except coll.MemberDied:
        print("died", flush=True)
    member.regroup(bytes.fromhex(sys.stdin.readline()), member.rank())
    reductions(member)


def supervised(deaths, place=None):
    """A rank of `python -m manta_torch`, as manta_torch.survive is one: rank 1 dies in so many generations. In later ones they
    begin when this file is there."""
    mine = ranks.Ranks()
    while True:
        told = mine.next()
        try:
            member = mine.enter(told)
            if told["generation"] <= int(deaths):
                die(member)
            while place and not os.path.exists(place):
                time.sleep(0.01)
            (reductions if told["size"] == SIZE else moves)(member)
            print(f"ok {told['rank']} of generation {told['generation']}\n", end="", flush=True)
            member.barrier()
            return member.leave()  # or the others may take its end for a death
        except ranks.ENDINGS as error:
            print(f"{error}\n", end="", flush=True)


def comes(place):
    """How many such processes have come before this one, each of which has left its number there."""
    for number in range(100):
        try:
            os.symlink(str(os.getpid()), f"{place}.{number}")
            return number
        except FileExistsError:
            pass
    return sys.exit("far too many processes")


def gives_up(how, place=None):
    """A rank of such. Nobody dies, but rank 1 comes to the first call when all others have given it up, or ends what they are in."""
    mine = ranks.Ranks()
    while True:
        told = mine.next()
        rank, size, is_first = told["rank"], told["size"], told["generation"] == 1
        try:
            member = mine.enter(told)
            if is_first and rank == 1 and how == "aborts":
                member.abort()
            while is_first and rank == 1 and how == "late" and not all(os.path.exists(f"{place}.{other}") for other in (0, 2)):
                time.sleep(0.01)
            member.barrier()
            member.barrier()  # by TCP rank 1 may find in the first one what the others had said before they gave up
            print(f"ok {rank} of {size}\n", end="", flush=True)
            return member.leave()
        except ranks.ENDINGS:
            if how == "late":
                open(f"{place}.{rank}", "w", encoding="ascii").close()


def idles(place):
    """A process that loads for ever."""
    comes(place)
    while True:
        signal.pause()


def apart(place):
    """A process that never says that it can join. The first one ends well, the next one fails when it knows that, all others end well."""
    if comes(place) == 1:
        while os.path.exists("/proc/" + os.readlink(f"{place}.0")):
            time.sleep(0.01)
        sys.exit(1)


def goes(how, place=None):
    """A rank of such. One ends without leaving, in a way of its own: no further generation can come for the others. That is rank 1; or the
    first process of all, before it takes part, or the one that is started again."""
    number = comes(place) if place else None
    if number == (SIZE if how == "again" else 0):
        return None
    signal.signal(signal.SIGTERM, lambda *_: None)  # they don't end by it
    mine = ranks.Ranks()
    try:
        told = mine.next()
        if told["rank"] == 1 and how == "never":
            return None  # the others wait for it in the joining
        member = mine.enter(told)
        member.barrier()
        if told["rank"] == 1:
            return os.kill(os.getpid(), signal.SIGKILL) if how in ("dies", "again") else None
        while True:
            member.barrier()
    except ranks.ENDINGS:
        wait_in_vain(mine, told["rank"], how)
    except coll.NoGeneration as end:
        hears_end(end, None, how)


def wait_in_vain(mine, rank, how):
    try:
        mine.next()
    except coll.NoGeneration as end:
        hears_end(end, rank, how)


def hears_end(end, rank, how):
    print(f"rank {rank}: {end}\n", end="", flush=True)
    sys.exit(3 if "fails" in how else 0)


def do(member, what):
    for one in what.split("+"):
        globals()[one](member)


def act(id_text, rank, what):
    if what == "as_nobody":
        coll.library()
        os.setresuid(NOBODY, NOBODY, NOBODY)
    try:
        member = coll.Member(bytes.fromhex(id_text), int(rank))
        do(member, what)
        print("ok", flush=True)
        member.leave()
    except coll.MantaError as error:
        print(error, flush=True)


def make(size):
    """The memory of a group, for as long as standard input is there."""
    group = coll.Group(int(size), timeout_ms=LIMIT_S * 1000)
    print(group.id().hex(), flush=True)
    sys.stdin.read()


def peer(host, what):
    """Each line of standard input is a generation: its number, rank, addresses and secret."""
    member, address = coll.Member.listen(host)
    print(address.hex(), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        try:
            addresses = [bytes.fromhex(one) for one in told["addresses"]]
            member.meet(bytes.fromhex(told["secret"]), 7, told["generation"], told["rank"], addresses, "peers", told["limit_ms"])
            do(member, what if told["generation"] == 1 else "moves")
            print("ok", flush=True)
        except coll.MantaError as error:
            print(error, flush=True)
    member.leave()


PROGRAMS = {"member": act, "peer": peer, "make": make, "supervised": supervised, "gives_up": gives_up, "goes": goes, "apart": apart, "idles": idles}
PROGRAMS[sys.argv[2]](*sys.argv[3:])
