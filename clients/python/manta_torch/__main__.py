# SPDX-License-Identifier: Apache-2.0
#
# python -m manta_torch [options] SCRIPT [ARGUMENT...] - runs a script that uses manta_torch.survive as so many ranks on this
# machine, or on each of several, and starts another process for each that dies.
import argparse
import sys

from . import coll, net
from .nodes import Host, Over
from .supervisor import Supervisor


def main():
    parser = argparse.ArgumentParser(prog="python -m manta_torch", description="ranks that go on when one of them dies")
    parser.add_argument("--nproc", type=int, default=2, help="ranks of a machine, 1 to %d in all; default 2" % coll.MEMBERS_MAX)
    parser.add_argument("--nnodes", type=int, default=1, help="machines, on each of which this is started; default 1")
    parser.add_argument("--node-rank", type=int, default=0, help="which of them this is, from 0")
    parser.add_argument("--rdzv", metavar="HOST:PORT", help="where machine 0 is to listen; HOST is its address")
    parser.add_argument("--spares", type=int, default=0, help="processes that wait to take a dead rank's place; default 0")
    parser.add_argument("--max-restarts", type=int, default=10, help="replacements in all; default 10")
    parser.add_argument("--timeout", type=float, default=60, help="seconds that ranks wait for each other in a call; default 60")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.nproc < 1 or args.nnodes < 1 or args.nproc * args.nnodes > coll.MEMBERS_MAX:
        parser.error("--nproc times --nnodes is 1 to %d" % coll.MEMBERS_MAX)
    if args.spares < 0 or args.max_restarts < 0 or args.timeout <= 0:
        parser.error("--timeout is more than 0, --spares and --max-restarts are at least 0")
    if not 0 <= args.node_rank < args.nnodes or (args.nnodes > 1) != bool(args.rdzv):
        parser.error("--node-rank is from 0 and less than --nnodes; --rdzv HOST:PORT goes with more than one machine")
    command = [sys.executable, args.script, *args.arguments]
    options = {"spares": args.spares, "restarts": args.max_restarts, "timeout_ms": int(args.timeout * 1000)}
    try:
        if args.nnodes == 1:
            what = Supervisor(command, args.nproc, **options)
        elif args.node_rank == 0:
            what = Over(command, args.nproc, args.nnodes, net.place_of(args.rdzv), **options)
        else:
            what = Host(command, args.node_rank, net.place_of(args.rdzv))
        sys.exit(what.run())
    except coll.MantaError as error:
        sys.exit(f"manta_torch: {error}")


main()
