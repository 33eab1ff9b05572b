#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_gloo.py - torch.distributed's gloo all-reduce of float32 sums between two processes, for scripts/peers_train.sh:
# "gloo.BYTES microseconds" a line, the median of rank 0. Rounds of large sizes begin with a barrier.
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = (64, 64 << 10, 64 << 20)
LARGE, WARM = 1 << 20, 10


def rounds_of(size):
    return 20 if size >= LARGE else 2000


def member(rank, port):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for size in SIZES:
        data = torch.zeros(size // 4, dtype=torch.float32)
        times = []
        for i in range(rounds_of(size) + WARM):
            if size >= LARGE:
                dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(data)
            if i >= WARM:
                times.append((time.perf_counter() - start) * 1e6)
        if rank == 0:
            print(f"gloo.{size} {statistics.median(times):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(member, args=(int(sys.argv[1]),), nprocs=2)
