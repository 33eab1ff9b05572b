#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# torch_speed.py [--rounds N] [--steps N] [CASE...] - DDP of Fashion-MNIST over the backend `manta` and over gloo, in one run.
#
# CASE is mlp or cnn, models and batches as in peers_torch.py: two processes of one thread each. In each round every backend has its
# turn, begun by another one each time; `none` is the floor, the same two processes without DDP, so without any communication.
# Prints one JSON object per case: samples/s of each as the median of rounds, and the ratios. Needs torch and numpy.
import argparse
import json
import os
import socket
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers_torch

BACKENDS = ("manta", "gloo", "none")
WARMUP_STEPS = 10


def measure(case, backend, steps, rank, data):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    inputs, labels = data
    model = (peers_torch.mlp if case == "mlp" else peers_torch.cnn)()
    parallel = model if backend == "none" else DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.02, momentum=0.9)
    step = peers_torch.step_function(case, parallel, optimizer, inputs, labels)
    batches = peers_torch.batches(len(inputs), 64, rank, 2, 0)
    torch.distributed.barrier()
    for number in range(WARMUP_STEPS + steps):
        if number == WARMUP_STEPS:
            begun = time.monotonic()
        step(batches[number % len(batches)])
    torch.distributed.barrier()
    return steps * 64 * 2 / (time.monotonic() - begun)


def worker(rank, args, port, backend, results):
    import torch

    import manta_torch  # noqa: F401

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("manta" if backend == "manta" else "gloo", rank=rank, world_size=2)
    data = peers_torch.fashion("train")
    for case in args.cases:
        value = measure(case, backend, args.steps if case == "mlp" else args.steps // 10, rank, data)
        if rank == 0:
            results[case, backend] = value
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500, help="of mlp; cnn has a tenth")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="mlp, cnn")
    args = parser.parse_args()
    args.cases = args.cases or ["mlp", "cnn"]
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    rates = {}
    with torch.multiprocessing.Manager() as manager:
        for turn in range(args.rounds):
            for backend in BACKENDS[turn % 3 :] + BACKENDS[: turn % 3]:
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = free.getsockname()[1]
                results = manager.dict()
                torch.multiprocessing.spawn(worker, (args, port, backend, results), nprocs=2)
                for (case, name), value in results.items():
                    rates.setdefault((case, name), []).append(value)
    for case in args.cases:
        row = {name: round(statistics.median(rates[case, name])) for name in BACKENDS}
        ratios = {f"manta/{other}": round(row["manta"] / row[other], 2) for other in ("gloo", "none")}
        print(json.dumps({"id": f"torch_speed_{case}", "unit": "samples/s", **row, **ratios}))


if __name__ == "__main__":
    main()
