# SPDX-License-Identifier: Apache-2.0
#
# programs.py NAME [ARGUMENT...] - what the ranks of torch_test.py run, under torchrun. Each ends with "ok RANK".
import copy
import datetime
import hashlib
import math
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import manta_torch

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
TYPES = (*FLOATS, torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16)


def rank_and_size():
    return dist.get_rank(), dist.get_world_size()


def equal(tensor, value):
    assert torch.equal(tensor, torch.full_like(tensor, value)), (tensor, value)


def collectives():
    rank, size = rank_and_size()
    total = size * (size + 1) // 2
    reductions = [(dist.ReduceOp.SUM, total), (dist.ReduceOp.MAX, size), (dist.ReduceOp.MIN, 1)]
    reductions.append((dist.ReduceOp.PRODUCT, math.factorial(size)))
    for dtype in TYPES:
        for op, want in reductions:
            data = torch.full((7, 3), rank + 1, dtype=dtype)
            dist.all_reduce(data, op)
            equal(data, want)
            data = torch.full((7, 3), rank + 1, dtype=dtype)
            dist.reduce(data, size - 1, op)
            equal(data, want if rank == size - 1 else rank + 1)
        data = torch.full((5,), rank + 1, dtype=dtype)
        parts = [torch.zeros(5, dtype=dtype) for _ in range(size)]
        dist.all_gather(parts, data)
        for r, part in enumerate(parts):
            equal(part, r + 1)
        whole = torch.zeros(5 * size, dtype=dtype)
        dist.all_gather_into_tensor(whole, data)
        assert torch.equal(whole, torch.cat(parts))
        dist.reduce_scatter_tensor(data, whole)
        equal(data, (rank + 1) * size)
        dist.reduce_scatter(data, [torch.full((5,), r, dtype=dtype) for r in range(size)])
        equal(data, rank * size)
    mean = torch.full((4,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    equal(mean, (size - 1) / 2)
    pair = torch.full((3,), complex(rank, 1))
    dist.all_reduce(pair)
    equal(pair, complex(total - size, size))
    any_true = torch.tensor([rank == 0, False])
    dist.all_reduce(any_true, dist.ReduceOp.MAX)
    assert any_true.tolist() == [True, False]


def moves():
    rank, size = rank_and_size()
    for dtype in (*TYPES, torch.bool, torch.complex64):
        data = torch.arange(12).add(rank).to(dtype).view(3, 4).t()  # not contiguous
        dist.broadcast(data, 1)
        assert torch.equal(data, torch.arange(12).add(1).to(dtype).view(3, 4).t())
        got = [torch.zeros(4, 3, dtype=dtype) for _ in range(size)] if rank == 0 else None
        dist.gather(data, got, 0)
        assert rank or all(torch.equal(part, data) for part in got)
        out = torch.zeros(4, 3, dtype=dtype)
        dist.scatter(out, got, 0)
        assert torch.equal(out, data)
    there = [torch.full((r + 1,), rank * 10.0 + r) for r in range(size)]
    here = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(here, there)
    for r, part in enumerate(here):
        equal(part, r * 10 + rank)
    out = torch.zeros(size * (rank + 1))
    dist.all_to_all_single(out, torch.cat(there), [rank + 1] * size, [r + 1 for r in range(size)])
    assert torch.equal(out, torch.cat(here))
    whole = torch.zeros(size)
    dist.all_to_all_single(whole, torch.arange(float(size)) + 10 * rank)
    assert torch.equal(whole, torch.arange(size) * 10.0 + rank)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]


def messages():
    rank, size = rank_and_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (1, 500_000):  # the latter wait for their receiver, and all receive first
        come = torch.zeros(count)
        ops = [dist.P2POp(dist.irecv, come, before), dist.P2POp(dist.isend, torch.full((count,), float(rank)), after)]
        for request in dist.batch_isend_irecv(ops):
            request.wait()
        equal(come, before)
    works = [dist.isend(torch.tensor([i]), after, tag=i) for i in range(5)]
    for i in range(5):
        number = torch.zeros(1, dtype=torch.int64)
        dist.recv(number, before, tag=i)
        equal(number, i)
    for work in works:
        work.wait()


def groups_and_order():
    """Subgroups, and calls that were started and finish in order."""
    rank, size = rank_and_size()
    pair = dist.new_group([0, 1])
    if rank < 2:
        data = torch.ones(3)
        dist.all_reduce(data, group=pair)
        equal(data, 2)
    many = [torch.full((1000,), float(i + rank)) for i in range(50)]
    works = [dist.all_reduce(data, async_op=True) for data in many]
    for i in (49, *range(50)):
        works[i].wait()
        equal(many[i], i * size + size * (size - 1) // 2)
    future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda done: done.value()[0] * 10)
    equal(future.wait(), 10 * size)


def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 5))


def plain():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))


def steps(model, optimizer, rows, count=10):
    for number in range(count):
        data = torch.randn(24, 20, generator=torch.Generator().manual_seed(number))[rows]
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()


def data_parallel():
    """DDP and FSDP over all ranks learn what one process learns from the whole batch."""
    from torch.distributed.fsdp import fully_shard

    rank, size = rank_and_size()
    rows = slice(24 // size * rank, 24 // size * (rank + 1))
    alone = plain()
    steps(alone, torch.optim.SGD(alone.parameters(), 0.1, momentum=0.9), slice(0, 24))
    model = plain()
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.002)  # several buckets
    steps(parallel, torch.optim.SGD(parallel.parameters(), 0.1, momentum=0.9), rows)
    shards = copy.deepcopy(plain())
    for layer in shards:
        fully_shard(layer)
    fully_shard(shards)
    steps(shards, torch.optim.SGD(shards.parameters(), 0.1, momentum=0.9), rows)
    for one, ddp, fsdp in zip(alone.parameters(), model.parameters(), shards.parameters(), strict=True):
        torch.testing.assert_close(ddp, one, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(fsdp.full_tensor(), one, rtol=1e-5, atol=1e-6)
    normed = DistributedDataParallel(network())
    steps(normed, torch.optim.SGD(normed.parameters(), 0.1), rows)
    mean = [torch.zeros(64) for _ in range(size)]
    dist.all_gather(mean, normed.module[1].running_mean)  # of the last step: broadcast before each
    dist.barrier()


def weights():
    """What DDP has learned, bit by bit."""
    rank, size = rank_and_size()
    model = plain()
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.002)
    rows = slice(24 // size * rank, 24 // size * (rank + 1))
    steps(parallel, torch.optim.SGD(parallel.parameters(), 0.1, momentum=0.9), rows)
    learned = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"weights {hashlib.sha256(learned).hexdigest()}\n", end="")


def expect(kind, word, call):
    try:
        call()
    except kind as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def bad_input():
    rank, _ = rank_and_size()
    one = torch.ones(1)
    expect(manta_torch.Unsupported, "dense CPU", lambda: dist.all_reduce(torch.sparse_coo_tensor(torch.tensor([[0]]), one, (2,))))
    expect(manta_torch.Unsupported, "SUM of torch.bool", lambda: dist.all_reduce(torch.tensor([True])))
    expect(manta_torch.Unsupported, "any rank", lambda: dist.recv(one))
    expect(manta_torch.BadArgument, "ranks need", lambda: dist.all_gather_into_tensor(torch.ones(5), torch.ones(4)))
    expect(manta_torch.BadArgument, "split sizes", lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1, 1], [2, 2, 2]))
    dist.barrier()  # nobody else was told of any of that
    expect(manta_torch.BadArgument, "rank 1 called all_reduce(3", lambda: dist.all_reduce(torch.ones(3 if rank == 1 else 4)))


def death():
    """The others' calls end with MemberDied, also those that were started, and a backward pass of DDP."""
    rank, size = rank_and_size()
    parallel = DistributedDataParallel(plain())
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect(RuntimeError, f"rank {size - 1} died", lambda: parallel(torch.ones(2, 20)).sum().backward())
    group = dist.distributed_c10d._get_default_group()
    assert isinstance(group.failure, manta_torch.MemberDied), group.failure
    work = dist.all_reduce(torch.ones(5), async_op=True)
    expect(manta_torch.MemberDied, f"rank {size - 1} died", work.wait)
    expect(manta_torch.MemberDied, f"rank {size - 1} died", dist.barrier)


def main():
    dist.init_process_group("manta", timeout=datetime.timedelta(seconds=60))
    rank = dist.get_rank()
    globals()[sys.argv[1]]()
    print(f"ok {rank}\n", end="")
    if sys.argv[1] not in ("death", "bad_input"):
        dist.destroy_process_group()


main()
