# SPDX-License-Identifier: Apache-2.0
"""An independent client (grpcio) against test_server: right token, wrong token, none, garbage, every method.

usage: token_test.py TEST_SERVER
"""
import importlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import grpc
from grpc_tools import protoc

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 30  # limit of each call


def compile_proto(folder):
    """Makes the Python stubs of echo.proto in `folder` and imports them."""
    if protoc.main(["protoc", f"-I{HERE}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                    os.path.join(HERE, "echo.proto")]) != 0:
        raise RuntimeError("grpcio-tools cannot compile echo.proto")
    sys.path.insert(0, folder)
    return importlib.import_module("echo_pb2"), importlib.import_module("echo_pb2_grpc")


class Server:
    """test_server as a child; `methods` is its service table, as it prints it."""

    def __init__(self, program, folder):
        self.token_file = os.path.join(folder, "cluster", "token")
        self.process = subprocess.Popen([program, self.token_file, "0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.methods = []
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "method":
                self.methods.append((words[1], words[2] == "open", words[3] == "stream"))
            if words[0] == "port":
                self.port = int(words[1])
                break
        with open(self.token_file, encoding="ascii") as file:
            self.token = file.read().strip()

    def channel(self):
        return grpc.insecure_channel(f"127.0.0.1:{self.port}", options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0),
            ("grpc.max_send_message_length", -1)])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SECONDS)
        self.process.stdin.close()
        self.process.stdout.close()
        return code


def bearer(token):
    return ("authorization", f"Bearer {token}"), ("manta-wire", "2-2")


class TokenTest(unittest.TestCase):
    def setUp(self):
        self.channel = server.channel()

    def tearDown(self):
        self.channel.close()

    def code_of(self, name, is_stream, metadata, request=b"", **options):
        """The status code of one raw call, on a connection of its own (headers too large break it)."""
        try:
            with server.channel() as channel:
                if is_stream:
                    list(channel.stream_stream(name)(iter([request]), metadata=metadata, timeout=SECONDS))
                else:
                    channel.unary_unary(name)(request, metadata=metadata, timeout=SECONDS, **options)
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            return error.code()

    def test_right_token(self):
        stub = pb_grpc.EchoStub(self.channel)
        good = bearer(server.token)
        reply = stub.Say(pb.EchoRequest(text="héllo", number=41), metadata=good, timeout=SECONDS)
        self.assertEqual((reply.text, reply.number), ("héllo", 42))
        replies = list(stub.Chat((pb.EchoRequest(number=i) for i in range(2000)), metadata=good, timeout=SECONDS))
        self.assertEqual([r.number for r in replies], list(range(1, 2001)))
        with self.assertRaises(grpc.RpcError) as caught:
            stub.Fail(pb.EchoRequest(), metadata=good, timeout=SECONDS)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(caught.exception.details(), "no node has that")
        self.assertIn(("manta-code", "4"), [tuple(m) for m in caught.exception.trailing_metadata()])

    def test_every_method_wants_the_token(self):
        token = server.token
        flipped = token[:-1] + ("0" if token[-1] != "0" else "1")
        bad = {
            "none": (),
            "wrong": bearer(flipped),
            "cut": bearer(token[:-1]),
            "longer": bearer(token + "0"),
            "empty": bearer(""),
            "upper case": bearer(token.upper() if token != token.upper() else flipped),
            "other scheme": (("authorization", f"Basic {token}"),),
            "bare": (("authorization", token),),
            "other header": (("x-authorization", f"Bearer {token}"),),
            "twice": bearer(token) + bearer(token),
            "right and wrong": bearer(token) + bearer(flipped),
        }
        self.assertGreaterEqual(len(server.methods), 4)
        self.assertTrue(any(is_stream for _, _, is_stream in server.methods))
        for what, metadata in bad.items():
            for name, is_open, is_stream in server.methods:
                wanted = grpc.StatusCode.OK if is_open else grpc.StatusCode.UNAUTHENTICATED
                with self.subTest(what=what, method=name):
                    self.assertEqual(self.code_of(name, is_stream, metadata), wanted)
        for what, versions in {"before versions": (), "newer": (("manta-wire", "1000-1001"),), "none": (("manta-wire", "x"),)}.items():
            for name, is_open, is_stream in server.methods:
                wanted = grpc.StatusCode.OK if is_open else grpc.StatusCode.FAILED_PRECONDITION
                with self.subTest(what=what, method=name):
                    self.assertEqual(self.code_of(name, is_stream, bearer(token)[:1] + versions), wanted)
        for name, _, is_stream in server.methods:
            with self.subTest(method=name):
                self.assertNotEqual(self.code_of(name, is_stream, bearer(token)), grpc.StatusCode.UNAUTHENTICATED)

    def test_unknown_methods_are_not_told_to_strangers(self):
        for name in ("/manta.test.Echo/Nope", "/a/b", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"):
            self.assertEqual(self.code_of(name, False, ()), grpc.StatusCode.UNAUTHENTICATED)
            self.assertEqual(self.code_of(name, False, bearer(server.token)), grpc.StatusCode.UNIMPLEMENTED)

    def test_bad_requests(self):
        good = bearer(server.token)
        say = "/manta.test.Echo/Say"
        code = grpc.StatusCode
        self.assertEqual(self.code_of(say, False, good, b"\x0a\xff\xff\xff\xff\x0f"), code.INVALID_ARGUMENT)
        self.assertEqual(self.code_of("/manta.test.Echo/Chat", True, good, b"\xff\xff"), code.INVALID_ARGUMENT)
        self.assertEqual(self.code_of(say, False, good, bytes((4 << 20) + 1)), code.RESOURCE_EXHAUSTED)
        self.assertEqual(self.code_of(say, False, good + (("x", "y" * 9000),)), code.RESOURCE_EXHAUSTED)
        bomb = pb.EchoRequest(text="x" * (3 << 20)).SerializeToString()
        self.assertEqual(self.code_of(say, False, good, bomb, compression=grpc.Compression.Gzip),
                         code.INVALID_ARGUMENT)
        self.assertEqual(self.code_of(say, False, good, bomb), code.OK)

    def test_garbage_bytes(self):
        rng = random.Random(3)
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for size in (1, 24, 1000, 60000):
            for head in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", preface,
                         preface + b"\0\0\0\4\0\0\0\0\0"):
                with socket.create_connection(("127.0.0.1", server.port), SECONDS) as peer:
                    try:
                        peer.sendall(head + bytes(rng.randrange(128, 256) for _ in range(size)))
                        peer.shutdown(socket.SHUT_WR)
                        while peer.recv(65536):
                            pass
                    except OSError:
                        pass  # the server hung up first
        self.test_right_token()

    def test_token_file(self):
        self.assertEqual(os.stat(server.token_file).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(os.path.dirname(server.token_file)).st_mode & 0o777, 0o700)
        self.assertRegex(server.token, "^[0-9a-f]{64}$")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="manta-rpc-") as temp:
        os.mkdir(os.path.join(temp, "stubs"))
        pb, pb_grpc = compile_proto(os.path.join(temp, "stubs"))
        server = Server(sys.argv[1], temp)
        try:
            result = unittest.main(argv=sys.argv[:1], exit=False).result
        finally:
            exit_code = server.stop()
    if exit_code != 0:
        print(f"test_server ended with {exit_code}", file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() and exit_code == 0 else 1)
