# SPDX-License-Identifier: Apache-2.0
#
# gang_rank.py FOLDER MODE - a rank of gang_speed.py: torch.distributed over gloo. What it says goes to FOLDER/said, a line each:
# "TIME loaded SECONDS", "TIME step RANK NUMBER", "TIME kill". MODE: start (one collective), recover (rank 1 dies behind step 3), or
# elastic (takes samples, saves after each step).
import os
import time

BEGUN = time.time()

import json  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

LOADED = time.time() - BEGUN
STEPS, SAMPLES, BATCH = 6, 2400, 12  # of elastic: in a step 12 samples, divided among 1 to 4 ranks
folder, mode = sys.argv[1:3]
again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"


def say(text):
    with open(os.path.join(folder, "said"), "a", encoding="ascii") as file:
        file.write(f"{time.time():.6f} {text}\n")


def steps():
    rank = dist.get_rank()
    for number in range(1 if mode == "start" else STEPS):
        dist.all_reduce(torch.ones(64))
        say(f"step {rank} {number + STEPS * again}")
        if mode == "recover" and number == 3 and rank == 1 and not again:
            say("kill")
            os.kill(os.getpid(), signal.SIGKILL)


def samples():
    """All have taken the samples of a step before any of them counts: they are gathered, and saved with it."""
    rank, size, path = dist.get_rank(), dist.get_world_size(), os.path.join(folder, "saved")
    taken = json.load(open(path, encoding="ascii")) if os.path.exists(path) else []
    start = len(taken)
    say(f"begin {rank} {size} {start}")
    for at in range(start, SAMPLES, BATCH):
        mine = torch.arange(at + rank * BATCH // size, at + (rank + 1) * BATCH // size)
        time.sleep(0.15)  # a step's work
        parts = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(parts, mine)
        taken += torch.cat(parts).tolist()
        if rank == 0:
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump(taken, file)
            os.replace(path + ".new", path)


torch.set_num_threads(1)
dist.init_process_group("gloo")
say(f"loaded {LOADED:.6f}")
if mode == "elastic":
    samples()
else:
    steps()
dist.barrier()
dist.destroy_process_group()
