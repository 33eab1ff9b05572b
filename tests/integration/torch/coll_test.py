#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# coll_test.py BUILD_FOLDER - the collectives from Python, without torch and without a cluster: processes that share nothing but a user.
#
# Members are this file again: coll_test.py BUILD_FOLDER member ID RANK WHAT. Each prints "ok", or the error that it got. One that meets the
# others by itself is coll_test.py BUILD_FOLDER peer HOST WHAT: it prints where it listens, and is told the rest by standard input.
import array
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
os.environ["MANTA_HOME"] = str(BUILD)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"))
from manta_torch import coll  # noqa: E402

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


def supervised(deaths):
    """A rank of `python -m manta_torch`, as manta_torch.survive is one: rank 1 dies in so many generations."""
    lines = socket.socket(fileno=int(os.environ["MANTA_TORCH_FD"])).makefile("rwb")
    lines.write(b'{"ready": 1}\n')
    lines.flush()
    member = None
    while True:
        told = json.loads(lines.readline())
        place = bytes.fromhex(told["id"]), told["rank"]
        try:
            if member:
                member.regroup(*place)
            else:
                member = coll.Member(*place)
            if told["generation"] <= int(deaths):
                die(member)
            reductions(member)
            print(f"ok {told['rank']} of generation {told['generation']}\n", end="", flush=True)
            return member.barrier()
        except coll.MemberDied as error:
            print(f"{error}\n", end="", flush=True)


def act(id_text, rank, what):
    if what == "as_nobody":
        coll.library()
        os.setresuid(NOBODY, NOBODY, NOBODY)
    try:
        member = coll.Member(bytes.fromhex(id_text), int(rank))
        globals()[what](member)
        print("ok", flush=True)
        member.leave()
    except coll.MantaError as error:
        print(error, flush=True)


def peer(host, what):
    """Each line of standard input is a generation: its number, rank, addresses and secret."""
    member, address = coll.Member.listen(host)
    print(address.hex(), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        try:
            addresses = [bytes.fromhex(one) for one in told["addresses"]]
            member.meet(bytes.fromhex(told["secret"]), 7, told["generation"], told["rank"], addresses, "peers", told["limit_ms"])
            globals()[what if told["generation"] == 1 else "moves"](member)
            print("ok", flush=True)
        except coll.MantaError as error:
            print(error, flush=True)
    member.leave()


# ---- the tests ----


class Coll(unittest.TestCase):
    def setUp(self):
        self.children = []

    def tearDown(self):
        for child in self.children:
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()

    def start(self, id_bytes, rank, what, **options):
        command = [sys.executable, __file__, str(BUILD), "member", id_bytes.hex(), str(rank), what]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.children.append(child)
        return child

    def run_all(self, what, size=SIZE, **options):
        group = coll.Group(size, timeout_ms=LIMIT_S * 1000)
        children = [self.start(group.id(), rank, what, **options) for rank in range(size)]
        said = [child.communicate(timeout=LIMIT_S)[0] for child in children]
        group.free()
        return said

    def test_reductions(self):
        self.assertEqual(self.run_all("reductions"), ["ok\n"] * SIZE)

    def test_moves_and_messages(self):
        self.assertEqual(self.run_all("moves"), ["ok\n"] * SIZE)
        self.assertEqual(self.run_all("messages"), ["ok\n"] * SIZE)

    def test_members_disagree(self):
        for said in self.run_all("disagree"):
            self.assertIn("EINVAL", said)
            self.assertIn("rank 1 called all_reduce(7 float32, sum)", said)

    def test_bad_calls(self):
        self.assertEqual(self.run_all("bad_calls"), ["ok\n"] * SIZE)

    def test_a_death_ends_the_others_calls(self):
        said = self.run_all("die")
        for rank in (0, 2):
            self.assertIn("EWORKER_DIED", said[rank])
            self.assertIn("rank 1 died", said[rank])

    def test_a_replacement_joins_the_survivors(self):
        group = coll.Group(SIZE, timeout_ms=LIMIT_S * 1000)
        first = [self.start(group.id(), rank, "go_on") for rank in range(SIZE)]
        first[1].wait(LIMIT_S)
        group.died(1, first[1].pid)
        for rank in (0, 2):
            self.assertEqual(first[rank].stdout.readline(), "died\n")
        following = group.next(SIZE)
        replacement = self.start(following, 1, "reductions")
        for rank in (0, 2):
            first[rank].stdin.write(following.hex() + "\n")
            first[rank].stdin.flush()
        said = [first[rank].communicate(timeout=LIMIT_S)[0] for rank in (0, 2)]
        said.append(replacement.communicate(timeout=LIMIT_S)[0])
        self.assertEqual(said, ["ok\n"] * SIZE)
        group.free()

    def test_the_creator_tells_a_death_before_the_joining(self):
        group = coll.Group(2, timeout_ms=LIMIT_S * 1000)
        waiting = self.start(group.id(), 0, "moves")
        gone = subprocess.Popen(["true"])
        gone.wait()
        group.died(1, gone.pid)
        self.assertIn("EWORKER_DIED", waiting.communicate(timeout=LIMIT_S)[0])
        for rank, pid in ((-1, 5), (2, 5), (0, 0)):
            self.assertRaises(coll.BadArgument, group.died, rank, pid)
        group.free()

    # ---- members that meet by themselves ----

    def peers(self, what, size=SIZE, host="127.0.0.1"):
        command = [sys.executable, __file__, str(BUILD), "peer", host, what]
        made = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(size)]
        self.children += made
        return [(child, child.stdout.readline().strip()) for child in made]

    def meet(self, peers, generation=1, other=None, limit_ms=LIMIT_S * 1000):
        """What each says of a generation; rank `other` has another secret."""
        for rank, (child, _) in enumerate(peers):
            secret = bytes(coll.SECRET_BYTES) if rank == other else b"x" * coll.SECRET_BYTES
            told = {"generation": generation, "rank": rank, "addresses": [address for _, address in peers], "secret": secret.hex(),
                    "limit_ms": limit_ms}
            child.stdin.write(json.dumps(told) + "\n")
            child.stdin.flush()
        return [child.stdout.readline() for child, _ in peers]

    def test_peers_meet_by_themselves(self):
        for what in ("reductions", "moves", "messages"):
            self.assertEqual(self.meet(self.peers(what)), ["ok\n"] * SIZE, what)
        self.assertEqual(self.meet(self.peers("moves", 10)), ["ok\n"] * 10)  # not each connected with each

    def test_a_peer_dies_and_is_replaced(self):
        peers = self.peers("die")
        said = self.meet(peers)
        for rank in (0, 2):
            self.assertIn("EWORKER_DIED", said[rank])
            self.assertIn("rank 1 died", said[rank])
        peers[1] = self.peers("moves", 1)[0]
        self.assertEqual(self.meet(peers, 2), ["ok\n"] * SIZE)

    def test_a_peer_with_another_secret_is_refused(self):
        said = self.meet(self.peers("moves"), other=0, limit_ms=2000)
        self.assertTrue(all("EAUTH" in text or "ETIMEDOUT" in text or "EWORKER_DIED" in text for text in said), said)

    def test_peers_are_told_what_is_wrong(self):
        for host in ("nowhere", "10.0.0", "256.1.1.1"):
            self.assertRaises(coll.BadArgument, coll.Member.listen, host)
        with self.assertRaises(coll.MantaError) as caught:
            coll.Member.listen("192.0.2.1")  # nobody's
        self.assertEqual(caught.exception.name, "ESYS", caught.exception)
        member, address = coll.Member.listen("")
        secret = b"x" * coll.SECRET_BYTES
        self.assertEqual((member.rank(), member.size()), (-1, 0))
        self.assertRaises(coll.MantaError, member.barrier)
        for rank, generation, addresses in ((1, 1, [address]), (0, 0, [address]), (0, 1, [bytes(32)]), (0, 1, [])):
            self.assertRaises(coll.BadArgument, member.meet, secret, 1, generation, rank, addresses)
        member.meet(secret, 1, 3, 0, [address])
        member.barrier()
        self.assertRaises(coll.BadArgument, member.meet, secret, 1, 3, 0, [address])
        self.assertRaises(coll.Unsupported, member.shrink)
        self.assertRaises(coll.Unsupported, member.agree, 1)
        member.leave()

    # ---- the supervisor, which needs no torch ----

    def supervise(self, deaths, *options):
        command = [sys.executable, "-m", "manta_torch", "--nproc", str(SIZE), *options, __file__, str(BUILD), "supervised", str(deaths)]
        env = {**os.environ, "PYTHONPATH": str(pathlib.Path(coll.__file__).parents[1])}
        return subprocess.run(command, env=env, timeout=LIMIT_S, capture_output=True, text=True, check=False)

    def test_supervisor_replaces(self):
        for options in ([], ["--spares", "1"]):
            done = self.supervise(2, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            for rank in range(SIZE):
                self.assertIn(f"ok {rank} of generation 3\n", done.stdout)
            self.assertEqual(done.stderr.count("rank 1 (process"), 2, done.stderr)

    def test_supervisor_has_no_replacement_left(self):
        done = self.supervise(2, "--max-restarts", "1")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertIn("no further replacement is allowed", done.stderr)

    # ---- ids that are none ----

    def test_bad_ids(self):
        group = coll.Group(2, timeout_ms=LIMIT_S * 1000)
        whole = group.id()
        self.assertRaises(coll.BadArgument, coll.Member, whole[:-1], 0)
        self.assertRaises(coll.BadArgument, coll.Member, bytes(len(whole)), 0)
        self.assertRaises(coll.BadArgument, coll.Member, whole, 2)
        self.assertRaises(coll.BadArgument, coll.Group, 0)
        self.assertRaises(coll.BadArgument, coll.Group, coll.MEMBERS_MAX + 1)
        self.assertRaises(coll.BadArgument, coll.Group, 2, transport=7)
        group.free()

    def place_of(self, id_bytes):
        """Where the id says whose memory it is: this process's number, and its descriptor behind it."""
        for found in range(0, len(id_bytes) - 8, 4):
            pid, fd = struct.unpack_from("=II", id_bytes, found)
            if pid == os.getpid() and os.path.exists(f"/proc/self/fd/{fd}"):
                if "manta-coll" in os.readlink(f"/proc/self/fd/{fd}"):
                    return found, fd
        self.fail("an id without a place")

    def test_an_id_that_was_changed_leads_nowhere(self):
        group, other = coll.Group(2), coll.Group(2)
        whole = bytearray(group.id())
        found, fd = self.place_of(bytes(whole))
        _, other_fd = self.place_of(other.id())
        for pid, there in ((os.getpid(), other_fd), (os.getpid(), 0)):
            struct.pack_into("=II", whole, found, pid, there)
            with self.assertRaises(coll.MantaError) as caught:
                coll.Member(whole, 0)
            self.assertEqual(caught.exception.name, "EAUTH", caught.exception)
        struct.pack_into("=II", whole, found, 2**22 - 1, fd)  # nobody's
        self.assertRaises(coll.Fenced, coll.Member, whole, 0)
        struct.pack_into("=II", whole, found, os.getpid(), fd)
        whole[found - 8] ^= 1
        with self.assertRaises(coll.BadArgument) as caught:
            coll.Member(whole, 0)
        self.assertIn("another machine", str(caught.exception))
        group.free()
        other.free()

    @unittest.skipIf(os.geteuid() != 0, "not root: there is no other user to try")
    def test_another_user_gets_nothing(self):
        group = coll.Group(2, timeout_ms=LIMIT_S * 1000)
        child = self.start(group.id(), 0, "as_nobody")
        self.assertIn("EAUTH", child.communicate(timeout=LIMIT_S)[0])
        group.free()


if __name__ == "__main__":
    if sys.argv[2:3] == ["member"]:
        act(*sys.argv[3:6])
    elif sys.argv[2:3] == ["peer"]:
        peer(*sys.argv[3:5])
    elif sys.argv[2:3] == ["supervised"]:
        supervised(sys.argv[3])
    else:
        unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
