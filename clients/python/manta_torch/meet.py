# SPDX-License-Identifier: Apache-2.0
#
# meet.py - how the ranks of a torch group find their group of Manta's: by torch's store, which carries nothing secret.
#
# On one machine the group's id says whose memory it is. The kernel lets no other user in, so anybody may read the id; who changes
# it leads to other memory of the same kind and user at most, and to an error.
import os
import time

from . import coll

MINE, GROUP = "manta/machine/{}", "manta/group"
LOOK_S = 0.001


def machine():
    """This boot of this machine, and the numbering of its processes: equal where memory can be shared."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"


def wait_for(store, key, seconds):
    """A value of torch's store. Looks again and again: a wait inside the store would lock out this process's other threads."""
    until, pause = time.monotonic() + seconds, LOOK_S
    while not store.check([key]):
        if time.monotonic() > until:
            raise coll.TimedOut(f'nobody has put "{key}" into torch\'s store within {seconds} s')
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return store.get(key)


def _create(store, size, name, seconds):
    machines = {wait_for(store, MINE.format(rank), seconds) for rank in range(size)}
    if len(machines) > 1:
        text = f"the {size} ranks of group {name} are on {len(machines)} machines: the backend manta shares memory of one"
        raise coll.Unsupported(text)
    return coll.Group(size, coll.LOCAL, name[-31:], timeout_ms=min(int(seconds * 1000), 2**31 - 1))


def join(store, rank, size, name, seconds):
    """The group's creator (rank 0 alone, else None) and this rank's member."""
    group = None
    store.set(MINE.format(rank), machine())
    if rank == 0:
        try:
            group = _create(store, size, name, seconds)
        except coll.MantaError as error:
            store.set(GROUP, f"error {error.code} {error.name} {error.text}")
            raise
        store.set(GROUP, "id " + group.id().hex())
    kind, _, rest = wait_for(store, GROUP, seconds).decode().partition(" ")
    if kind == "error":
        code, error_name, text = rest.split(" ", 2)
        raise coll.KINDS.get(int(code), coll.MantaError)(text, int(code), error_name)
    return group, coll.Member(bytes.fromhex(rest), rank)
