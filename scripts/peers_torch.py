#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# peers_torch.py [--workers N] [--threads N] [--batch N] [--seconds S] [CASE...] - how fast torch trains the models of `manta bench --models`.
#
#   mlp   784-256-10 on Fashion-MNIST                          samples/s
#   cnn   conv 32, conv 64, max 2x2, dense 128, 10 on the same samples/s
#   gpt   GPT-2, 6 layers, 256 wide, 8 heads, 256 positions, 256 bytes of vocabulary  tokens/s
#
# DistributedDataParallel over gloo (one worker alone: without), each worker a process of one thread, as torch's documentation
# has it: the whole data set in memory as tensors, a shuffled permutation, SGD with momentum 0.9, the rate falling as half a cosine. One
# epoch of mlp and cnn, then their accuracy; some seconds of gpt. The steps of ours: same samples a step, same optimizer,
# float32. Prints one JSON object per case: {"id", "value", "unit", "accuracy" or "loss"}. Needs torch and numpy
# (scripts/peers.sh makes an environment for them); reads the data of Debian's dataset-fashion-mnist.
import argparse
import gzip
import json
import math
import os
import socket
import sys
import time

FOLDER = "/usr/share/datasets/fashion-mnist"
WARMUP_STEPS = 10
GPT_BATCH = 4


def fashion(kind):
    import numpy
    import torch

    with gzip.open(f"{FOLDER}/{kind}-images-idx3-ubyte.gz") as file:
        images = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 784)
    with gzip.open(f"{FOLDER}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    inputs = (torch.from_numpy(images.copy()).float() / 255 - 0.2860) / 0.3530
    return inputs, torch.from_numpy(labels.astype(numpy.int64))


def mlp():
    from torch import nn

    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn():
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )


def gpt(width=256, layers=6, heads=8, context=256, vocabulary=256):
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, time_, _ = x.shape
            q, k, v = (
                part.view(batch, time_, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.before(x)).split(width, dim=2)
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, time_, width))
            return x + self.down(functional.gelu(self.up(self.after(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)
            self.head.weight = self.token.weight

        def forward(self, tokens):
            x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    return Gpt()


def text(path, context=256):
    """Windows of context + 1 bytes of a text, or of its stand-in that has bytes as frequent as English."""
    import numpy
    import torch

    data = numpy.frombuffer(open(path, "rb").read(), numpy.uint8)
    count = (len(data) - 1) // context
    windows = numpy.stack([data[i * context : i * context + context + 1] for i in range(count)])
    return torch.from_numpy(windows.astype(numpy.int64))


def batches(count, batch, rank, workers, epoch):
    """This rank's part of an epoch, as DistributedSampler cuts it."""
    import torch

    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))[rank::workers]
    return [order[i : i + batch] for i in range(0, len(order) - batch + 1, batch)]


def step_function(case, model, optimizer, inputs, labels):
    from torch.nn import functional

    def step(picked):
        x = inputs[picked]
        x, y = (x[:, :-1], x[:, 1:].flatten()) if case == "gpt" else (x, labels[picked])
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def measure(case, args, rank):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    is_gpt = case == "gpt"
    inputs, labels = (text(args.text), None) if is_gpt else fashion("train")
    model, batch = (gpt(), GPT_BATCH) if is_gpt else ((mlp if case == "mlp" else cnn)(), args.batch)
    parallel = DistributedDataParallel(model) if args.workers > 1 else model
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05 if is_gpt else 0.02, momentum=0.9)
    total = len(inputs) // args.workers // batch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 + 0.5 * math.cos(math.pi * step / total))
    step = step_function(case, parallel, optimizer, inputs, labels)
    begun, loss, stop = 0.0, None, torch.zeros(1)
    for steps, picked in enumerate(batches(len(inputs), batch, rank, args.workers, 0)):
        if steps == WARMUP_STEPS:
            begun = time.monotonic()
        loss = step(picked)
        schedule.step()
        if is_gpt and steps > WARMUP_STEPS:
            stop.fill_(float(time.monotonic() - begun > args.seconds))
            torch.distributed.broadcast(stop, 0)  # all leave at the same step
            if stop:
                break
    units = (steps + 1 - WARMUP_STEPS) * batch * args.workers / (time.monotonic() - begun)
    row = {"id": f"torch_{case}", "value": units, "unit": "samples/s"}
    if is_gpt:
        row.update(value=units * 256, unit="tokens/s", loss=float(loss.detach()))
    else:
        test_inputs, test_labels = fashion("t10k")
        with torch.no_grad():
            row["accuracy"] = (model(test_inputs).argmax(1) == test_labels).float().mean().item()
    return row


def worker(rank, args, port):
    import torch

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(args.threads)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=args.workers)
    for case in args.cases:
        row = measure(case, args, rank)
        if rank == 0:
            print(json.dumps(row), flush=True)
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8, help="of gpt")
    parser.add_argument("--text", help="of gpt; any file of some megabytes of text")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="mlp, cnn, gpt (with --text)")
    args = parser.parse_args()
    args.cases = args.cases or ["mlp", "cnn"] + (["gpt"] if args.text else [])
    if set(args.cases) - {"mlp", "cnn", "gpt"} or ("gpt" in args.cases and not args.text):
        parser.error("a case is mlp, cnn or gpt, and gpt wants --text")
    os.environ["OMP_NUM_THREADS"] = str(args.threads)  # before torch is loaded, here and in the workers
    try:
        import torch
    except ImportError as error:
        sys.exit(f"peers_torch.py: torch can't be loaded: {error}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(worker, (args, port), nprocs=args.workers)


if __name__ == "__main__":
    main()
