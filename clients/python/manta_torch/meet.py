# SPDX-License-Identifier: Apache-2.0
#
# meet.py - how the ranks of a torch group find their group of Manta's: by torch's store, which carries nothing secret.
#
# On one machine the group's id says whose memory it is. The kernel lets no other user in, so anybody may read the id; who changes
# it leads to other memory of the same kind and user at most, and to an error.
#
# On several each rank says where it listens. Their connections are TLS, keyed by a secret that all machines have (secret.py), so who
# changes an address, or the number that makes this group's key another one, leads nobody to anything but an error.
import os
import socket
import time

from . import coll, secret

MINE, GROUP, PLACE, NUMBER = "manta/machine/{}", "manta/group", "manta/at/{}", "manta/number"
LOOK_S = 0.001
NUMBER_BYTES = 16


def machine():
    """This boot of this machine, its numbering of processes and its network: equal where memory is shared."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()}/{os.stat('/proc/self/ns/pid').st_ino}/{os.stat('/proc/self/ns/net').st_ino}"


def host():
    """The address of this machine by which the others reach it: MANTA_TORCH_HOST, or the one from which it reaches the master's."""
    named, master = os.environ.get("MANTA_TORCH_HOST"), os.environ.get("MASTER_ADDR")
    if named:
        return named
    wanted = "set MANTA_TORCH_HOST to the address of this machine by which the others reach it"
    if not master:
        raise coll.BadArgument(f"ranks on several machines, and MASTER_ADDR is not set: {wanted}")
    try:
        family, kind, _, _, place = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:  # nothing is sent
            probe.connect(place)
            own = probe.getsockname()[0]
    except OSError as error:
        raise coll.BadArgument(f"MASTER_ADDR={master} can't be reached from here ({error}): {wanted}") from None
    if own.startswith("127.") or own == "::1":
        raise coll.BadArgument(f"ranks on several machines, and MASTER_ADDR={master} is this machine's loopback: {wanted}")
    return own


def wait_for(store, key, seconds):
    """A value of torch's store. Looks again and again: a wait inside the store would lock out this process's other threads."""
    until, pause = time.monotonic() + seconds, LOOK_S
    while not store.check([key]):
        if time.monotonic() > until:
            raise coll.TimedOut(f'nobody has put "{key}" into torch\'s store within {seconds} s')
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return store.get(key)


def _limit_ms(seconds):
    return min(int(seconds * 1000), 2**31 - 1)


def _put(store, key, make):
    """What make() gives, for all to read; or why there is none."""
    try:
        value = make()
    except coll.MantaError as error:
        store.set(key, f"error {error.code} {error.name} {error.text}")
        raise
    store.set(key, "is " + value)


def _get(store, key, seconds):
    kind, _, rest = wait_for(store, key, seconds).decode().partition(" ")
    if kind != "error":
        return rest
    code, error_name, text = rest.split(" ", 2)
    raise coll.KINDS.get(int(code), coll.MantaError)(text, int(code), error_name)


def _by_memory(store, rank, size, name, seconds):
    made = []

    def create():
        made.append(coll.Group(size, coll.LOCAL, name[-31:], timeout_ms=_limit_ms(seconds)))
        return made[0].id().hex()

    if rank == 0:
        _put(store, GROUP, create)
    return made[0] if made else None, coll.Member(bytes.fromhex(_get(store, GROUP, seconds)), rank)


def _by_network(store, rank, size, name, seconds):
    made = []

    def listen():
        made.append(secret.root())
        member, address = coll.Member.listen(host())
        made.append(member)
        return address.hex()

    if rank == 0:
        store.set(NUMBER, os.urandom(NUMBER_BYTES).hex())
    _put(store, PLACE.format(rank), listen)
    number = wait_for(store, NUMBER, seconds).decode()
    addresses = [bytes.fromhex(_get(store, PLACE.format(other), seconds)) for other in range(size)]
    key, member = secret.key(made[0], "group", number), made[1]
    try:
        member.meet(key, int(number[:16], 16), 1, rank, addresses, name[-31:], _limit_ms(seconds))
    except coll.MantaError:
        member.leave()
        raise
    return None, member


def join(store, rank, size, name, seconds):
    """The group's creator (of memory, rank 0 alone; else None) and this rank's member."""
    store.set(MINE.format(rank), machine())
    machines = {wait_for(store, MINE.format(other), seconds) for other in range(size)}
    return (_by_memory if len(machines) == 1 else _by_network)(store, rank, size, name, seconds)
