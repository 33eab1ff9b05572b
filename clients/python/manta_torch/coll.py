# SPDX-License-Identifier: Apache-2.0
#
# coll.py - the public collectives of manta_collective.h by ctypes, on addresses of memory. Needs Python alone.
#
# Thread: as there: a Member belongs to one thread at a time, but for abort(). Calls block with the interpreter's lock released.
import ctypes
import glob
import os

F32, F64, BF16, F16, I32, I64, U8 = range(7)
SUM, MEAN, MAX, MIN = range(4)
SHM, TCP, LOCAL = range(3)
ID_BYTES, ADDRESS_BYTES, SECRET_BYTES = 256, 32, 32
MEMBERS_MAX = 64


class MantaError(RuntimeError):
    """A call of Manta failed: `code` is one of manta_error.h, `name` its name."""

    code, name = 81, "ESYS"

    def __init__(self, text, code=None, name=None):
        super().__init__(f"{name or self.name}: {text}")
        self.text = text
        if code is not None:
            self.code, self.name = code, name


class BadArgument(MantaError):
    """What was asked for can't be, or members disagree about a call."""

    code, name = 1, "EINVAL"


class MemberDied(MantaError):
    """A member of the group died. The text names its rank."""

    code, name = 20, "EWORKER_DIED"


class TimedOut(MantaError):
    """A member did not come to a call within the group's limit."""

    code, name = 40, "ETIMEDOUT"


class Aborted(MantaError):
    """A member, or the group's creator, ended it."""

    code, name = 9, "ECANCELLED"


class Fenced(MantaError):
    """The group has gone on without this process, or its creator has gone."""

    code, name = 63, "EFENCED"


class Unsupported(MantaError):
    code, name = 83, "EUNSUPPORTED"


class Refused(MantaError):
    """Another member has another secret."""

    code, name = 61, "EAUTH"


class NoGeneration(MantaError):
    """Of ranks that go on after a death: no further generation of their group comes. `rank` has finished; None: all are being ended."""

    code, name = 11, "EEND"

    def __init__(self, rank):
        self.rank = rank
        if rank is None:
            super().__init__("the ranks are being ended, and no further generation of their group comes")
        else:
            super().__init__(f"rank {rank} has finished (exit status 0), and no generation of the group can be formed without it; who ends while "
                             "others are in a call counts as dead to them: member.leave() or destroy_process_group() comes before the end")


KINDS = {kind.code: kind for kind in (BadArgument, MemberDied, TimedOut, Aborted, Fenced, Unsupported, Refused)}


class _Error(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_int), ("user_code", ctypes.c_int32), ("outcome", ctypes.c_int32), ("pid", ctypes.c_int32),
        ("attempt", ctypes.c_int32), ("signal_number", ctypes.c_int32), ("function", ctypes.c_char * 64),
        ("node", ctypes.c_char * 64), ("task", ctypes.c_char * 40), ("where", ctypes.c_char * 96),
        ("message", ctypes.c_char * 512), ("backtrace", ctypes.c_char * 1536), ("reserved", ctypes.c_uint64 * 8),
    ]  # fmt: skip


class _Opts(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_int), ("size_max", ctypes.c_int), ("name", ctypes.c_char_p), ("timeout_ms", ctypes.c_int64),
        ("heap_bytes", ctypes.c_int64), ("transport", ctypes.c_int), ("reserved", ctypes.c_uint64 * 8),
    ]  # fmt: skip


class _Peers(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("group", ctypes.c_uint64), ("generation", ctypes.c_int), ("size", ctypes.c_int),
        ("rank", ctypes.c_int), ("addresses", ctypes.c_char_p), ("secret", ctypes.c_char_p), ("timeout_ms", ctypes.c_int64),
        ("reserved", ctypes.c_uint64 * 8),
    ]  # fmt: skip


_ID = ctypes.c_char * ID_BYTES
_P, _I, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
# What each call returns, and takes before its manta_error; the handle comes first.
_CALLS = {
    "group_new": (_P, [_P]), "group_next": (_I, [_P, _I, _P]), "group_died": (_I, [_P, _I, _I]),
    "join": (_P, [_P, _I]), "regroup": (_I, [_P, _P, _I]), "agree": (_I, [_P, _P, _P]), "shrink": (_I, [_P]),
    "listen": (_P, [ctypes.c_char_p, _P]), "meet": (_I, [_P, _P]),
    "all_reduce": (_I, [_P, _P, _P, _S, _I, _I]), "reduce": (_I, [_P, _P, _P, _S, _I, _I, _I]),
    "reduce_scatter": (_I, [_P, _P, _P, _S, _I, _I]), "all_gather": (_I, [_P, _P, _P, _S, _I]),
    "broadcast": (_I, [_P, _P, _S, _I, _I]), "all_to_all": (_I, [_P, _P, _P, _S, _I]), "barrier": (_I, [_P]),
    "send": (_I, [_P, _P, _S, _I, _I]), "receive": (_I, [_P, _P, _S, _I, _I]),
}  # fmt: skip
# These have no manta_error.
_PLAIN = {
    "group_id": (None, [_P, _P]), "group_abort": (None, [_P]), "group_free": (None, [_P]), "leave": (None, [_P]),
    "abort": (None, [_P]), "rank": (_I, [_P]), "size": (_I, [_P]), "generation": (_I, [_P]),
}  # fmt: skip
_library = None


def library_places():
    """Where libmanta_sgd.so.0 may be, in this order: MANTA_HOME/lib, the tree that this file is installed in, the loader's."""
    name, here = "libmanta_sgd.so.0", os.path.dirname(os.path.realpath(__file__))
    roots = [os.environ["MANTA_HOME"]] if os.environ.get("MANTA_HOME") else []
    roots.append(os.path.normpath(os.path.join(here, "..", "..", "..", "..")))  # PREFIX/share/manta/python/manta_torch
    for root in roots:
        yield from sorted(glob.glob(f"{root}/lib*/{name}") + glob.glob(f"{root}/lib/*/{name}"))
    yield name


def library():
    """The library, opened once."""
    global _library
    if _library:
        return _library
    tried = []
    for place in library_places():
        try:
            opened = ctypes.CDLL(place)
            break
        except OSError as error:
            tried.append(str(error))
    else:
        raise MantaError(f"libmanta_sgd.so.0 can't be loaded; MANTA_HOME names the folder above its lib: {'; '.join(tried)}")
    opened.manta_status_name.restype = ctypes.c_char_p
    for calls, last in ((_CALLS, [ctypes.POINTER(_Error)]), (_PLAIN, [])):
        for name, (result, arguments) in calls.items():
            call = getattr(opened, f"manta_coll_{name}")
            call.restype, call.argtypes = result, arguments + last
    _library = opened
    return _library


def _fail(error):
    name = library().manta_status_name(error.code).decode()
    text = error.message.decode(errors="replace")
    raise KINDS.get(error.code, MantaError)(text, error.code, name)


def _call(name, *arguments):
    """Calls manta_coll_NAME, and raises where it fails. Gives back what it returns."""
    error = _Error()
    result = getattr(library(), f"manta_coll_{name}")(*arguments, ctypes.byref(error))
    if (result is None) if _CALLS[name][0] is _P else result:
        _fail(error)
    return result


def _id_of(id_bytes):
    if len(id_bytes) != ID_BYTES:
        raise BadArgument(f"{len(id_bytes)} bytes are no manta_coll_id, which has {ID_BYTES}")
    return ctypes.create_string_buffer(bytes(id_bytes), ID_BYTES)


def address(buffer):
    """Where a writable buffer (bytearray, array, memoryview) begins. The caller keeps it alive."""
    return ctypes.addressof((ctypes.c_char * 0).from_buffer(buffer))


class Group:
    """A group as its creator has it."""

    def __init__(self, size, transport=LOCAL, name="torch", timeout_ms=0, size_max=0):
        opts = _Opts(size=size, size_max=size_max, name=name.encode(), timeout_ms=timeout_ms, transport=transport)
        self._handle = _call("group_new", ctypes.byref(opts))

    def id(self):
        out = _ID()
        library().manta_coll_group_id(self._handle, out)
        return out.raw

    def next(self, size):
        """Names the next generation. Gives its id."""
        out = _ID()
        _call("group_next", self._handle, size, out)
        return out.raw

    def died(self, rank, pid):
        _call("group_died", self._handle, rank, pid)

    def abort(self):
        library().manta_coll_group_abort(self._handle)

    def free(self):
        library().manta_coll_group_free(self._handle)


class Member:
    """One member's end of a group. Data are addresses; counts are elements."""

    def __init__(self, id_bytes, rank):
        self._handle = _call("join", _id_of(id_bytes), rank)

    @classmethod
    def listen(cls, host):
        """A member that is to meet the others by itself, and where it listens: bytes for them."""
        member, out = cls.__new__(cls), ctypes.create_string_buffer(ADDRESS_BYTES)
        member._handle = _call("listen", host.encode(), out)
        return member, out.raw

    def meet(self, secret, group, generation, rank, addresses, name="torch", timeout_ms=0):
        """Joins a generation of those who listen at `addresses`, in the order of ranks."""
        if len(secret) != SECRET_BYTES or any(len(address) != ADDRESS_BYTES for address in addresses):
            raise BadArgument(f"a secret has {SECRET_BYTES} bytes, and an address {ADDRESS_BYTES}")
        peers = _Peers(
            name=name.encode(), group=group, generation=generation, size=len(addresses), rank=rank, addresses=b"".join(addresses),
            secret=secret, timeout_ms=timeout_ms,
        )  # fmt: skip
        _call("meet", self._handle, ctypes.byref(peers))

    def rank(self):
        return library().manta_coll_rank(self._handle)

    def size(self):
        return library().manta_coll_size(self._handle)

    def generation(self):
        return library().manta_coll_generation(self._handle)

    def leave(self):
        library().manta_coll_leave(self._handle)

    def abort(self):
        library().manta_coll_abort(self._handle)

    def regroup(self, id_bytes, rank):
        _call("regroup", self._handle, _id_of(id_bytes), rank)

    def agree(self, flags):
        """The AND of all survivors' flags, and a bit for each rank that came."""
        both, alive = ctypes.c_uint64(flags), ctypes.c_uint64()
        _call("agree", self._handle, ctypes.byref(both), ctypes.byref(alive))
        return both.value, alive.value

    def shrink(self):
        _call("shrink", self._handle)

    def all_reduce(self, into, out, count, kind, op):
        _call("all_reduce", self._handle, into, out, count, kind, op)

    def reduce(self, into, out, count, kind, op, root):
        _call("reduce", self._handle, into, out, count, kind, op, root)

    def reduce_scatter(self, into, out, count, kind, op):
        _call("reduce_scatter", self._handle, into, out, count, kind, op)

    def all_gather(self, into, out, count, kind):
        _call("all_gather", self._handle, into, out, count, kind)

    def broadcast(self, data, count, kind, root):
        _call("broadcast", self._handle, data, count, kind, root)

    def all_to_all(self, into, out, count, kind):
        _call("all_to_all", self._handle, into, out, count, kind)

    def barrier(self):
        _call("barrier", self._handle)

    def send(self, data, count, kind, to):
        _call("send", self._handle, data, count, kind, to)

    def receive(self, data, count, kind, source):
        _call("receive", self._handle, data, count, kind, source)
