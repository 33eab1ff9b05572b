#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# coll_test.py BUILD_FOLDER - the collectives from Python, without torch and without a cluster: processes that share nothing but a user.
#
# Members are coll_member.py.
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
os.environ["MANTA_HOME"] = str(BUILD)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from manta_torch import coll, net, ranks  # noqa: E402
from gone import wait_gone  # noqa: E402

SIZE, LIMIT_S, MEMBER = 3, 60, str(pathlib.Path(__file__).resolve().with_name("coll_member.py"))


def waits_in_group(pid):
    """It has a group's memory, and sleeps: in the joining, for those who have not come."""
    maps, call = (pathlib.Path(f"/proc/{pid}/{name}").read_text() for name in ("maps", "syscall"))
    return "/memfd:" in maps and call.startswith("202 ")  # futex


class Plain:
    """A socket that is none of TCP's."""

    def __init__(self, sock):
        self.sock = sock

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def setsockopt(self, *_):
        pass


class Coll(unittest.TestCase):
    def setUp(self):
        self.children, self.folder = [], tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()
        for child in self.children:
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()

    def start(self, id_bytes, rank, what, **options):
        command = [sys.executable, MEMBER, str(BUILD), "member", id_bytes.hex(), str(rank), what]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.children.append(child)
        return child

    def run_all(self, what, size=SIZE, **options):
        group = coll.Group(size, timeout_ms=LIMIT_S * 1000)
        children = [self.start(group.id(), rank, what, **options) for rank in range(size)]
        said = [child.communicate(timeout=LIMIT_S)[0] for child in children]
        group.free()
        return said

    def test_calls(self):
        self.assertEqual(self.run_all("reductions+moves+bad_calls+messages"), ["ok\n"] * SIZE)

    def test_members_disagree(self):
        for said in self.run_all("disagree"):
            self.assertIn("EINVAL", said)
            self.assertIn("rank 1 called all_reduce(7 float32, sum)", said)

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

    def test_who_joins_does_not_wait_for_the_dead(self):
        """Who made the memory dies before all have joined, or one dies that has joined: the others hear of it at once."""
        for dead, error in ((None, "EFENCED: group \"torch\": its creator has gone before all had joined"), (1, "EWORKER_DIED")):
            maker = subprocess.Popen([sys.executable, MEMBER, str(BUILD), "make", str(SIZE)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
            self.children.append(maker)
            group = bytes.fromhex(maker.stdout.readline())
            waiting = [self.start(group, rank, "moves") for rank in range(SIZE - 1)]
            until = time.monotonic() + LIMIT_S
            while not all(waits_in_group(child.pid) for child in waiting) and time.monotonic() < until:
                time.sleep(0.01)
            (maker if dead is None else waiting[dead]).kill()
            self.assertIn(error, waiting[0].communicate(timeout=LIMIT_S)[0])
            maker.kill()

    # ---- members that meet by themselves ----

    def peers(self, what, size=SIZE, host="127.0.0.1"):
        command = [sys.executable, MEMBER, str(BUILD), "peer", host, what]
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
        self.assertEqual(self.meet(self.peers("reductions+moves+messages")), ["ok\n"] * SIZE)
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

    def supervise(self, how, *options, what="supervised", more=()):
        command = [sys.executable, "-m", "manta_torch", "--nproc", str(SIZE), *options, MEMBER, str(BUILD), what, str(how), *more]
        env = {**os.environ, "PYTHONPATH": str(pathlib.Path(coll.__file__).parents[1])}
        return subprocess.run(command, env=env, timeout=LIMIT_S, capture_output=True, text=True, check=False)

    def test_supervisor_replaces(self):
        for options in ([], ["--spares", "1"]):
            done = self.supervise(2, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            for rank in range(SIZE):
                self.assertIn(f"ok {rank} of generation 3\n", done.stdout)
            self.assertEqual(done.stderr.count("rank 1 (process"), 2, done.stderr)

    def test_a_generation_ends_and_nobody_has_died(self):
        """All meet again, which counts as a replacement."""
        again, place = "none of them has died: they meet again", os.path.join(self.folder.name, "late")
        done = self.supervise("late", "--timeout", "1", what="gives_up", more=[place])
        self.assertEqual((done.returncode, done.stdout.count("ok ")), (0, SIZE), done.stdout + done.stderr)
        self.assertIn(again, done.stderr)
        secret = self.secret("s" * 40)
        said = [one.communicate(timeout=LIMIT_S)[0] for one in self.on_two("aborts", [secret, secret], what="gives_up")]
        self.assertTrue(again in said[0] and all(text.count("ok ") == 2 for text in said), said)
        done = self.supervise("aborts", "--max-restarts", "0", what="gives_up")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("no further one is allowed", done.stderr)

    def test_supervisor_has_no_replacement_left(self):
        done = self.supervise(2, "--max-restarts", "1")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertIn("no further replacement is allowed", done.stderr)

    def test_who_has_finished_is_not_started_again(self):
        """That is, who ends with 0; also before it has said that it can join, or without ever saying so."""
        place = os.path.join(self.folder.name, "apart")
        done = self.supervise(place, what="apart")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count(": started again"), 1, done.stderr)
        self.assertEqual(len(os.listdir(self.folder.name)), SIZE + 1)
        word = "EEND: rank {} has finished (exit status 0)"
        for how, rank, code, times, options in (("early", 0, 0, 2, []), ("early fails", 0, 3, 1, []), ("again", 1, 0, 2, []),
                                                ("spare", 1, 0, 2, ["--spares", "1"])):  # fmt: skip
            done = self.supervise(how, *options, what="goes", more=[os.path.join(self.folder.name, how)])
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertGreaterEqual(done.stdout.count(word.format(rank)), times, done.stdout + done.stderr)
            self.assertEqual(done.stderr.count(": started again"), int(how == "again"), done.stderr)
            self.assertEqual(done.stderr.count("a spare (process"), int(how == "spare"), done.stderr)

    def test_who_waits_is_told_that_no_generation_comes(self):
        """One has finished: who ends well then has too, and who does not is not replaced. Or one died, and nobody replaces it."""
        for how, code, options in (("finishes", 0, []), ("never", 0, []), ("fails", 3, ["--spares", "1"]), ("dies", 137, ["--max-restarts", "0"])):
            done = self.supervise(how, *options, what="goes")
            self.assertEqual(done.returncode, code, done.stderr)
            word = "EEND: the ranks are being ended" if how == "dies" else "EEND: rank 1 has finished (exit status 0)"
            self.waited(how, word, (0, 2), done.stdout)
            self.assertNotIn("started again", done.stderr)

    def waited(self, how, word, among, text):
        """These ranks were told so. Where one never joins, another one may hear of its end as soon as of its own rank."""
        self.assertEqual(text.count(word), len(among), text)
        for rank in among if how != "never" else ():
            self.assertIn(f"rank {rank}: {word}", text)

    # ---- supervisors of two machines, here both on loopback ----

    def secret(self, text, mode=0o600):
        path = os.path.join(self.folder.name, f"secret-{len(os.listdir(self.folder.name))}")
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
        return path

    def port(self):
        """One that nobody else is given until the test has ended: bound, where a listener with SO_REUSEADDR may stand beside it."""
        held = socket.socket()
        self.addCleanup(held.close)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]

    def on_two(self, how, secrets, *options, what="supervised", more=()):
        """`python -m manta_torch` on each; rank 1 dies in so many generations."""
        place, started = f"127.0.0.1:{self.port()}", []
        for node, path in enumerate(secrets):
            command = [sys.executable, "-m", "manta_torch", "--nproc", "2", "--nnodes", "2", "--node-rank", str(node), "--rdzv", place,
                       *options, MEMBER, str(BUILD), what, str(how), *more]
            env = {**os.environ, "PYTHONPATH": str(pathlib.Path(coll.__file__).parents[1]), "MANTA_TORCH_SECRET": path}
            child = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.children.append(child)
            started.append(child)
        return started

    def test_ranks_of_two_machines_are_replaced(self):
        secret = self.secret("s" * 40)
        first, second = self.on_two(2, [secret, secret])
        said, other = first.communicate(timeout=LIMIT_S)[0], second.communicate(timeout=LIMIT_S)[0]
        self.assertEqual((first.returncode, second.returncode), (0, 0), said + other)
        self.assertEqual(said.count("rank 1 (process"), 2, said)
        for rank, where in enumerate((said, said, other, other)):
            self.assertIn(f"ok {rank} of generation 3\n", where)

    def test_who_waits_on_two_machines_is_told_that_no_generation_comes(self):
        secret = self.secret("s" * 40)
        early = os.path.join(self.folder.name, "early")
        first, second = self.on_two("early", [secret, secret], what="goes", more=[early])
        said = "".join(one.communicate(timeout=LIMIT_S)[0] for one in (first, second))
        self.assertEqual((first.returncode, second.returncode), (0, 0), said)
        self.assertEqual(said.count("EEND: rank 0 has finished (exit status 0)"), 3, said)
        for how, code, options in (("finishes", 0, []), ("never", 0, []), ("dies", 137, ["--max-restarts", "0"])):
            first, second = self.on_two(how, [secret, secret], *options, what="goes")
            said, other = first.communicate(timeout=LIMIT_S)[0], second.communicate(timeout=LIMIT_S)[0]
            self.assertEqual((first.returncode, second.returncode), (code, code), said + other)
            word = "EEND: the ranks are being ended" if how == "dies" else "EEND: rank 1 has finished (exit status 0)"
            self.waited(how, word, (0,), said)
            self.waited(how, word, (2, 3), other)

    def test_a_machine_that_is_lost(self):
        """Its ranks begin again on the other one. No rank came to its end before: all waited for a word that it had gone."""
        secret, gone = self.secret("s" * 40), os.path.join(self.folder.name, "gone")
        first, second = self.on_two(1, [secret, secret], more=[gone])
        while not re.search("EWORKER_DIED|ECANCELLED", second.stdout.readline()):  # all have met
            self.assertIsNone(second.poll())
        second.kill()
        second.wait()  # and its ranks can't run any more
        open(gone, "w", encoding="ascii").close()
        said = first.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(first.returncode, 0, said)
        self.assertIn("machine 1 is lost", said)
        self.assertTrue(all(f"ok {rank} of generation" in said for rank in range(2)), said)

    def test_ranks_end_with_their_supervisor(self):
        """However it ends, and whatever they do: these will never look for it."""
        place, secret = os.path.join(self.folder.name, "idles"), self.secret("s" * 40)
        supervisors, numbers = self.on_two(place, [secret, secret], what="idles"), range(4)
        self.until(lambda: all(os.path.islink(f"{place}.{number}") for number in numbers))
        for supervisor in supervisors:
            supervisor.kill()
        left = wait_gone([int(os.readlink(f"{place}.{number}")) for number in numbers], LIMIT_S)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [])

    def test_a_supervisor_that_is_ended_ends_the_others_with_an_error(self):
        place, secret = os.path.join(self.folder.name, "idles"), self.secret("s" * 40)
        first, second = self.on_two(place, [secret, secret], what="idles")
        self.until(lambda: os.path.islink(f"{place}.3"))
        first.terminate()
        said = [one.communicate(timeout=LIMIT_S)[0] for one in (first, second)]
        self.assertEqual((first.returncode, second.returncode), (128 + signal.SIGTERM, 1), said)

    def until(self, condition):
        end = time.monotonic() + LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_rank_hears_that_its_supervisor_has_gone(self):
        """Wherever that died: before it had read a rank's words, or in the middle of a line."""
        for case in ("unread", "half a line"):
            with self.subTest(case):
                theirs, ours = socket.socketpair()
                os.environ["MANTA_TORCH_FD"] = str(ours.detach())
                mine = ranks.Ranks()
                if case == "half a line":
                    theirs.recv(4096)
                    theirs.sendall(b'{"gene')
                theirs.close()
                with self.assertRaises(coll.MantaError) as caught:
                    self.assertIsNotNone(mine.next(LIMIT_S), "it would wait for ever")
                self.assertEqual(caught.exception.name, "ECONN")

    def test_another_secret_or_none(self):
        first, second = self.on_two(0, [self.secret("s" * 40), self.secret("t" * 40)])
        said = second.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(second.returncode, 1, said)
        self.assertRegex(said, "another secret|it has gone")
        self.assertIn("was refused", first.stdout.readline())  # which it may say when the other one has long gone
        first.terminate()
        first.wait(LIMIT_S)
        for text, mode, word in (("s" * 31, 0o600, "32 to"), ("s" * 40, 0o644, "no private file")):
            _, bad = self.on_two(0, [self.secret("s" * 40), self.secret(text, mode)])
            self.assertIn(word, bad.communicate(timeout=LIMIT_S)[0])
            self.assertEqual(bad.returncode, 1)

    def test_lines_are_signed(self):
        """What is changed, repeated or sent back is not believed."""
        for spoil in (lambda line: line.replace(b"1", b"2", 1), lambda line: line + line, lambda line: b"no message\n"):
            ends = socket.socketpair(socket.AF_UNIX)
            heard, between = [], socket.socketpair(socket.AF_UNIX)
            one = net.Link(Plain(ends[0]), b"s" * 40, True, lambda _, message: None)
            two = net.Link(Plain(between[1]), b"s" * 40, False, lambda _, message: heard.append(message))
            between[0].sendall(ends[1].recv(4096))  # the dialler's number, to the listener, and its own back
            ends[1].sendall(between[0].recv(4096))
            two.readable()
            one.readable()
            one.say(value=1)
            line = ends[1].recv(4096)
            between[0].sendall(line)
            two.readable()
            self.assertEqual(heard, [{"value": 1}])
            one.say(value=1)
            between[0].sendall(spoil(ends[1].recv(4096)))
            self.assertRaises(net.Lost, two.readable)
            self.assertLessEqual(len(heard), 2)
            for end in (*ends, *between):
                end.close()

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
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
