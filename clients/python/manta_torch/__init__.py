# SPDX-License-Identifier: Apache-2.0
#
# manta_torch - Manta's collectives for torch. `import manta_torch` gives torch.distributed the backend "manta".
#
# coll.py needs Python alone, so that this package can be imported where torch is not.
import importlib.util

from .coll import Aborted, BadArgument, Fenced, MantaError, MemberDied, TimedOut, Unsupported

if importlib.util.find_spec("torch"):
    from .backend import register

    register()

__all__ = ["Aborted", "BadArgument", "Fenced", "MantaError", "MemberDied", "TimedOut", "Unsupported"]
