# SPDX-License-Identifier: Apache-2.0
#
# task.py - what the programs of this folder have in common: the same small task, a death in its middle, and how they say their result.
# The task: a network that learns y = sin(x0) + x1 * x2 of 96 rows, 12 steps. Every rank says "sum HEX" of its weights in the end, and
# "loss FIRST LAST". A program begins again at the last step that it has saved.
import hashlib
import os
import signal

import numpy

STEPS, ROWS, WIDTH = 12, 96, 16
DIES_AT, DIES = 6, "1"  # behind this step, that rank, where the test asks for it


def data(rank=0, size=1):
    """The rows of one rank."""
    x = numpy.random.default_rng(7).normal(size=(ROWS, 3)).astype("float32")
    y = (numpy.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:]).astype("float32")
    share = ROWS // size
    return x[rank * share : (rank + 1) * share], y[rank * share : (rank + 1) * share]


def may_die(step):
    first = os.environ["MANTA_GANG_RESTARTS"] == "0"
    if os.environ.get("TEST_DIES") and first and step == DIES_AT and os.environ["MANTA_GANG_RANK"] == DIES:
        os.kill(os.getpid(), signal.SIGKILL)


def say(arrays, first, last, begun):
    """`begun`: the step that this process began with; the losses are those of its first and last step."""
    digest = hashlib.sha256(b"".join(numpy.ascontiguousarray(a, dtype="float32").tobytes() for a in arrays)).hexdigest()[:16]
    print(f"sum {digest}\nloss {first:.6f} {last:.6f}\nbegun {begun}", flush=True)
