#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# torch_speed.py [--rounds N] [--steps N] [CASE...] - DDP of Fashion-MNIST over the backend `manta` and over gloo, in one run.
#
# CASE is mlp or cnn, models and batches as in peers_torch.py: two processes of one thread each, in which every backend has a group and a
# model of its own. In each round every backend has its turn of so many steps, begun by another one each time, so what else runs on
# the machine meets all of them. Floors: `none`, the same steps without DDP, so without any communication or wait for the other;
# `ddp`, DDP whose hook sums nothing. Prints one JSON object per case: samples/s of each as the median of rounds, the ratios, and of
# a step in rank 0 the CPU time and how often it slept, which others' work changes less. Needs torch and numpy.
import argparse
import json
import os
import resource
import socket
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers_torch

BACKENDS = ("manta", "gloo", "ddp", "none")
WARMUP_STEPS = 5


def sums_nothing(_state, bucket):
    import torch

    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def stepper(case, backend, group, data):
    """A function of a batch: a step of a model of its own."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    model = (peers_torch.mlp if case == "mlp" else peers_torch.cnn)()
    parallel = model if backend == "none" else DistributedDataParallel(model, process_group=group)
    if backend == "ddp":
        parallel.register_comm_hook(None, sums_nothing)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.02, momentum=0.9)
    return peers_torch.step_function(case, parallel, optimizer, *data)


def turn(step, batches, steps):
    """Samples/s of both ranks, and of this one: ms of CPU time and sleeps of a step."""
    import torch

    torch.distributed.barrier()
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    for number in range(steps):
        step(batches[number % len(batches)])
    used = resource.getrusage(resource.RUSAGE_SELF)
    torch.distributed.barrier()
    took = time.monotonic() - begun
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return steps * 64 * 2 / took, cpu_s * 1000 / steps, (used.ru_nvcsw - before.ru_nvcsw) / steps


def worker(rank, args, port, results):
    import torch

    import manta_torch  # noqa: F401

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    groups = {"manta": torch.distributed.new_group(backend="manta"), "gloo": torch.distributed.new_group(backend="gloo")}
    data = peers_torch.fashion("train")
    batches = peers_torch.batches(len(data[0]), 64, rank, 2, 0)
    for case in args.cases:
        steps = args.steps if case == "mlp" else max(args.steps // 30, 1)
        steppers = {name: stepper(case, name, groups.get(name, groups["gloo"]), data) for name in BACKENDS}
        for step in steppers.values():
            turn(step, batches, WARMUP_STEPS)
        for number in range(args.rounds):
            first = number % len(BACKENDS)
            for name in BACKENDS[first:] + BACKENDS[:first]:
                value = turn(steppers[name], batches, steps)
                if rank == 0:
                    results[case, name] = results.get((case, name), []) + [value]
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=300, help="of mlp in a turn; cnn has a thirtieth")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="mlp, cnn")
    args = parser.parse_args()
    args.cases = args.cases or ["mlp", "cnn"]
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    with torch.multiprocessing.Manager() as manager, socket.create_server(("127.0.0.1", 0)) as free:
        results, port = manager.dict(), free.getsockname()[1]
        free.close()
        torch.multiprocessing.spawn(worker, (args, port, results), nprocs=2)
        turns = dict(results)
    for case in args.cases:
        rates, cpu_ms, sleeps = ({name: statistics.median(of[column] for of in turns[case, name]) for name in BACKENDS} for column in range(3))
        ratios = {f"manta/{other}": round(rates["manta"] / rates[other], 2) for other in BACKENDS[1:]}
        row = {"id": f"torch_speed_{case}", "unit": "samples/s", **{name: round(rate) for name, rate in rates.items()}, **ratios}
        of_step = {"cpu_ms": {name: round(ms, 2) for name, ms in cpu_ms.items()}, "sleeps": {name: round(n, 1) for name, n in sleeps.items()}}
        print(json.dumps(row | of_step))


if __name__ == "__main__":
    main()
