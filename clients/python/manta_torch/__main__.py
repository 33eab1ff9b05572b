# SPDX-License-Identifier: Apache-2.0
#
# python -m manta_torch [options] SCRIPT [ARGUMENT...] - runs a script that uses manta_torch.survive as so many ranks on this
# machine, and starts another process for each that dies.
import argparse
import sys

from . import coll
from .supervisor import Supervisor


def main():
    parser = argparse.ArgumentParser(prog="python -m manta_torch", description="ranks that go on when one of them dies")
    parser.add_argument("--nproc", type=int, default=2, help="ranks, 1 to %d; default 2" % coll.MEMBERS_MAX)
    parser.add_argument("--spares", type=int, default=0, help="processes that wait to take a dead rank's place; default 0")
    parser.add_argument("--max-restarts", type=int, default=10, help="replacements in all; default 10")
    parser.add_argument("--timeout", type=float, default=60, help="seconds that ranks wait for each other in a call; default 60")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not 1 <= args.nproc <= coll.MEMBERS_MAX or args.spares < 0 or args.max_restarts < 0 or args.timeout <= 0:
        parser.error("--nproc is 1 to %d, --timeout more than 0, the others at least 0" % coll.MEMBERS_MAX)
    command = [sys.executable, args.script, *args.arguments]
    try:
        sys.exit(Supervisor(command, args.nproc, args.spares, args.max_restarts, int(args.timeout * 1000)).run())
    except coll.MantaError as error:
        sys.exit(f"manta_torch: {error}")


main()
