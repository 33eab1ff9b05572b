# SPDX-License-Identifier: Apache-2.0
#
# horovod_client.py - what Horovod's library does when it begins (http_store.cc and gloo's connectFullMesh), in one rank: for each scope puts
# where it listens, waits for the others' words and connects to them, waits for all, and takes its own words away. Its requests are
# byte by byte those of the library. Prints its place. With DIES=1 rank 1 kills itself in the first attempt.
import fcntl
import os
import signal
import socket
import struct
import time


def text(name):
    return os.environ["HOROVOD_" + name]


def number(name):
    return int(text(name))


def own_address():
    """As gloo does: the address of the interface that it is told."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        got = fcntl.ioctl(s, 0x8915, struct.pack("256s", text("GLOO_IFACE").encode()))  # SIOCGIFADDR
    return socket.inet_ntoa(got[20:24])


def ask(method, key, body=b""):
    """The value; None: it is not there yet."""
    url = f"{text('GLOO_RENDEZVOUS_ADDR')}:{text('GLOO_RENDEZVOUS_PORT')}/{key}"
    domain, _, path = url.partition("/")
    host, _, port = domain.partition(":")
    with socket.create_connection((host, int(port))) as s:
        s.sendall(f"{method} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: s.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert status in (200, 404), answer
    return body if status == 200 else None


def meet(scope, rank, size):
    listener, peers = socket.create_server((own_address(), 0)), []
    ask("PUT", f"{scope}/rank_{rank}", socket.gethostname().encode())
    for other in range(rank):
        ask("GET", f"{scope}/rank_{other}")
    mine = "%s %d" % listener.getsockname()
    ask("PUT", f"{scope}/{rank}", mine.encode().ljust(200000))  # as many bytes as of 1,500 ranks
    for other in set(range(size)) - {rank}:
        while ask("GET", f"{scope}/{other}") is None:
            time.sleep(0.01)
        if other < rank:  # pairs of gloo connect once
            host, port = ask("GET", f"{scope}/{other}").split()
            peers.append(socket.create_connection((host.decode(), int(port))))
        else:
            peers.append(listener.accept()[0])
    for peer in peers:
        peer.sendall(b"x")
    for peer in peers:
        assert peer.recv(1) == b"x"
    ask("DELETE", f"{scope}/{rank}")


for _turn in range(2):  # hvd.shutdown() and hvd.init()
    meet("global", number("RANK"), number("SIZE"))
    meet("local_" + text("HOSTNAME"), number("LOCAL_RANK"), number("LOCAL_SIZE"))
    meet("cross_" + text("LOCAL_RANK"), number("CROSS_RANK"), number("CROSS_SIZE"))
    if number("RANK") == 1 and os.environ["MANTA_GANG_RESTARTS"] == "0" and os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
meet("global_process_set_hash_1f", number("RANK"), number("SIZE"))
assert text("CONTROLLER") == text("CPU_OPERATIONS") == "gloo"
print(*(number(name) for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")))
