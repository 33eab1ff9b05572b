# SPDX-License-Identifier: Apache-2.0
#
# manta_torch - Manta's collectives for torch. `import manta_torch` gives torch.distributed the backend "manta".
#
# coll.py needs Python alone, so that this package can be imported where torch is not.
import importlib.util
import sys

from .coll import Aborted, BadArgument, Fenced, MantaError, MemberDied, NoGeneration, Refused, TimedOut, Unsupported

__all__ = ["Aborted", "BadArgument", "Fenced", "MantaError", "MemberDied", "NoGeneration", "Refused", "TimedOut", "Unsupported"]

# `python -m manta_torch` supervises alone: it need not wait until torch is loaded.
if importlib.util.find_spec("torch") and sys.argv[:1] != ["-m"]:
    from . import backend, survive as _survive
    from .survive import init, survive

    backend.register()
    _survive.register()
    __all__ += ["init", "survive"]
