# SPDX-License-Identifier: Apache-2.0
"""by_ctypes.py LIBRARY - libmanta from Python, without any header: structs as the last release has them."""
import ctypes
import os
import sys

os.environ["MANTA_INLINE"] = "1"
lib = ctypes.CDLL(sys.argv[1])


class PutOpts(ctypes.Structure):
    _fields_ = [("checksum", ctypes.c_bool), ("reserved", ctypes.c_uint64 * 4)]


class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("type", ctypes.c_char), ("hold", ctypes.c_void_p)]


class Error(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("code", "user_code", "outcome", "pid", "attempt", "signal_number")] + [
        ("function", ctypes.c_char * 64), ("node", ctypes.c_char * 64), ("task", ctypes.c_char * 40), ("where", ctypes.c_char * 96),
        ("message", ctypes.c_char * 512), ("backtrace", ctypes.c_char * 1536), ("reserved", ctypes.c_uint64 * 8)]


lib.manta_put_with.restype = ctypes.c_void_p
e, view = Error(), View()
assert lib.manta_init(None, None, None, ctypes.byref(e)) == 0, e.message
ref = lib.manta_put_with(b"from Python", 11, ctypes.byref(PutOpts(checksum=True)))
code = lib.manta_get(ctypes.c_void_p(ref), ctypes.c_int64(-1), ctypes.byref(view), ctypes.byref(e))
assert code == 0 and ctypes.string_at(view.data, view.size) == b"from Python", e.message
lib.manta_release(ctypes.byref(view))
lib.manta_free(ctypes.c_void_p(ref))

later = PutOpts()
later.reserved[0] = 1  # an option of a release that is not there yet
ref = lib.manta_put_with(b"x", 1, ctypes.byref(later))
assert lib.manta_get(ctypes.c_void_p(ref), ctypes.c_int64(-1), ctypes.byref(view), ctypes.byref(e)) == 1, e.code
assert b"reserved" in e.message, e.message
lib.manta_free(ctypes.c_void_p(ref))
assert lib.manta_shutdown() == 0
