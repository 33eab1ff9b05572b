# SPDX-License-Identifier: Apache-2.0
"""An independent client (grpcio) against manta-head: every method of the contract with the right token, a wrong one,
none, and garbage; and a job with its file from a client in another language.

usage: grpc_test.py MANTA_HEAD
"""
import hashlib
import importlib
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECONDS = 20  # limit of each call


def compile_proto(folder):
    """Makes the Python stubs of the contract in `folder` and imports them."""
    if protoc.main(["protoc", f"-I{ROOT}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                    "core/proto/manta.proto"]) != 0:
        raise RuntimeError("grpcio-tools cannot compile manta.proto")
    sys.path.insert(0, folder)
    return importlib.import_module("core.proto.manta_pb2"), importlib.import_module("core.proto.manta_pb2_grpc")


class Head:
    """manta-head as a child, in a folder of its own."""

    def __init__(self, program, folder):
        self.run = os.path.join(folder, "run")
        read, write = os.pipe()
        os.set_inheritable(write, True)
        self.process = subprocess.Popen([program, "--dir", self.run, "--ready-fd", str(write)], pass_fds=[write],
                                        stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as ready:
            self.address = ready.readline().strip()
        self.token = pathlib.Path(self.run, "token").read_text(encoding="ascii").strip()

    def channel(self):
        return grpc.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1),
                                                            ("grpc.enable_http_proxy", 0)])

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


def bearer(token):
    return ("authorization", f"Bearer {token}"), ("manta-wire", "2-2")


def all_methods():
    """(path, is open, takes a stream, gives a stream) of each method that the contract names for the head."""
    for service in ("Head", "Health"):
        descriptor = pb.DESCRIPTOR.services_by_name[service]
        for method in descriptor.methods:
            yield (f"/{descriptor.full_name}/{method.name}", service == "Health", method.client_streaming,
                   method.server_streaming)


def code_of(path, takes_stream, gives_stream, metadata, request=b""):
    """The status code of one raw call on a connection of its own."""
    try:
        with head.channel() as channel:
            sends = iter([request]) if takes_stream else request
            kind = {(False, False): channel.unary_unary, (False, True): channel.unary_stream,
                    (True, False): channel.stream_unary, (True, True): channel.stream_stream}
            reply = kind[takes_stream, gives_stream](path)(sends, metadata=metadata, timeout=SECONDS)
            if gives_stream:
                list(reply)
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()


class HeadTest(unittest.TestCase):
    def setUp(self):
        self.channel = head.channel()
        self.stub = grpc_stubs.HeadStub(self.channel)
        self.good = bearer(head.token)

    def tearDown(self):
        self.channel.close()

    def state(self):
        """What a stranger could have changed."""
        jobs = self.stub.ListJobs(pb.ListJobsRequest(), metadata=self.good, timeout=SECONDS)
        nodes = self.stub.ListNodes(pb.ListNodesRequest(), metadata=self.good, timeout=SECONDS)
        return jobs.SerializeToString(), nodes.SerializeToString()

    def nodes_alive(self):
        """As soon as there is one, and all are; one that was silent for a while is not."""
        end, nodes = time.monotonic() + SECONDS, []
        while not nodes or any(node.state != 1 for node in nodes):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
            nodes = self.stub.ListNodes(pb.ListNodesRequest(), metadata=self.good, timeout=SECONDS).nodes
        return nodes

    def test_every_method_wants_the_token(self):
        flipped = head.token[:-1] + ("0" if head.token[-1] != "0" else "1")
        bad = {"none": (), "wrong": bearer(flipped), "cut": bearer(head.token[:-1]), "empty": bearer(""),
               "other scheme": (("authorization", f"Basic {head.token}"),), "bare": (("authorization", head.token),)}
        before, methods = self.state(), list(all_methods())
        self.assertGreaterEqual(len(methods), 13)
        for what, metadata in bad.items():
            for path, is_open, takes, gives in methods:
                with self.subTest(what=what, method=path):
                    wanted = grpc.StatusCode.OK if is_open else grpc.StatusCode.UNAUTHENTICATED
                    self.assertEqual(code_of(path, takes, gives, metadata), wanted)
        self.assertEqual(self.state(), before)

    def test_every_method_is_served(self):
        for path, _, takes, gives in all_methods():
            if not path.endswith("/Shutdown"):
                with self.subTest(method=path):
                    self.assertNotIn(code_of(path, takes, gives, self.good),
                                     (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED))

    def test_a_raylet_says_nothing_without_a_token(self):
        """gRPC's greeting, a wrong token, half a greeting, garbage: each is closed without a byte, and the node lives on."""
        folder = os.path.join(os.path.dirname(head.run), "node")
        raylet = subprocess.Popen([pathlib.Path(sys.argv[1]).with_name("manta-raylet"), "--dir", folder, "--head-file",
                                   os.path.join(head.run, "head.addr"), "--num-cpus", "1"], stderr=subprocess.DEVNULL)
        try:
            nodes = self.nodes_alive()
            host, port = nodes[0].address.rsplit(":", 1)
            greeting = struct.pack("<IHH", 0x6b6e6c6d, 1, 0)  # core/io/framed/reader.h
            for text in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64), greeting + b"0" * 64, greeting + b"0" * 32, os.urandom(500)):
                with self.subTest(text=text), socket.create_connection((host, int(port)), SECONDS) as stranger:
                    stranger.settimeout(SECONDS)
                    stranger.sendall(text)
                    try:
                        self.assertEqual(stranger.recv(1), b"")
                    except ConnectionResetError:
                        pass
            self.assertEqual(len(self.nodes_alive()), 1)
            self.assertIsNone(raylet.poll())
        finally:
            raylet.send_signal(signal.SIGTERM)
            raylet.wait(SECONDS)

    def test_garbage_changes_nothing(self):
        rng, before = random.Random(5), self.state()
        for path, is_open, takes, gives in all_methods():
            for size in (1, 10, 1000) if not (is_open or path.endswith("/Shutdown")) else ():
                with self.subTest(method=path, size=size):
                    code_of(path, takes, gives, self.good, bytes(rng.randrange(256) for _ in range(size)))
                    self.assertEqual(self.state(), before)

    def test_a_job_and_its_file(self):
        content = os.urandom(300_000)
        name = hashlib.sha256(content).digest()
        missing = self.stub.HasBlobs(pb.HasBlobsRequest(sha256=[name]), metadata=self.good, timeout=SECONDS).missing
        self.assertEqual(list(missing), [name])
        pieces = (pb.BlobChunk(sha256=name, offset=at, size=len(content), data=content[at:at + 100_000])
                  for at in range(0, len(content), 100_000))
        self.assertEqual(self.stub.PutBlob(pieces, metadata=self.good, timeout=SECONDS).code, 0)
        back = self.stub.GetBlob(pb.GetBlobRequest(sha256=name), metadata=self.good, timeout=SECONDS)
        self.assertEqual(b"".join(chunk.data for chunk in back), content)
        spec = pb.JobSpec(id="from-python", argv=["./x"], files=[pb.JobFile(path="x", sha256=name, mode=0o755,
                                                                           size=len(content))])
        for _ in range(2):
            reply = self.stub.Submit(pb.SubmitRequest(spec=spec), metadata=self.good, timeout=SECONDS)
            self.assertEqual((reply.code, reply.job.id, reply.job.state), (0, "from-python", "PENDING"))
        self.assertEqual(self.stub.StopJob(pb.JobRequest(id="from-python"), metadata=self.good,
                                           timeout=SECONDS).job.state, "STOPPED")
        log = self.stub.FollowJob(pb.FollowRequest(id="from-python"), metadata=self.good, timeout=SECONDS)
        self.assertEqual(list(log), [])
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.stub.FollowJob(pb.FollowRequest(id="nobody"), metadata=self.good, timeout=SECONDS))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_large_requests_are_refused(self):
        code = code_of("/manta.v1.Head/Submit", False, False, self.good, bytes((4 << 20) + 1))
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="manta-head-") as temp:
        stubs = os.path.join(temp, "stubs")
        os.mkdir(stubs)
        pb, grpc_stubs = compile_proto(stubs)
        head = Head(sys.argv[1], temp)
        try:
            result = unittest.main(argv=sys.argv[:1], exit=False).result
        finally:
            exit_code = head.stop()
    if exit_code != 0:
        print(f"manta-head ended with {exit_code}", file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() and exit_code == 0 else 1)
