# SPDX-License-Identifier: Apache-2.0
#
# survivor.py FOLDER KILLS [LOADED] - trains by manta_torch.survive, and writes a digest of each weight that it ends with into
# FOLDER/RANK.weights (running means are a rank's own, of its own records, and are left out). KILLS is a list as "1@4,0@7": in that step the rank kills itself, once: at its beginning, in the backward pass, or behind the optimizer, as the step's
# remainder by 3 says. "hold@9": before that step all wait until FOLDER/go is there. "raise" instead: a step fails by itself. "exit@9": rank 1
# ends with 0 behind that step, when all have done it. LOADED: no kill before so many processes have loaded torch. FOLDER/events gets what happened when.
import hashlib
import os
import signal
import sys
import time

STARTED = time.monotonic()

import torch  # noqa: E402

import manta_torch  # noqa: E402

FOLDER, STEPS = sys.argv[1], 30
KILLS = [tuple(map(int, kill.split("@"))) for kill in sys.argv[2].split(",") if "@" in kill and kill[0].isdigit()]


class Sampler:
    """Draws records in an order of its own, which is state."""

    def __init__(self):
        self.random = torch.Generator().manual_seed(3)

    def state_dict(self):
        return {"random": self.random.get_state()}

    def load_state_dict(self, state):
        self.random.set_state(state["random"])


def note(text):
    with open(f"{FOLDER}/events", "a", encoding="ascii") as file:
        file.write(f"{time.monotonic():.6f} {text}\n")


def kill_if(rank, number, where):
    """Each kill happens once, whatever process has the rank; which of the three places, its step says."""
    if (rank, number) in KILLS and number % 3 == where:
        try:
            os.close(os.open(f"{FOLDER}/killed-{rank}-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        while len(sys.argv) > 3 and open(f"{FOLDER}/events", encoding="ascii").read().count("loaded") < int(sys.argv[3]):
            time.sleep(0.01)  # until the spare is there, whose place this is; the others wait in their call
        note(f"kill {rank} {number}")
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    optimizer, sampler = torch.optim.Adam(model.parameters(), 0.01), Sampler()
    note(f"loaded {os.getpid()} {time.monotonic() - STARTED:.6f}")
    manta_torch.init()
    rank = torch.distributed.get_rank()

    def step(parallel, number):
        rows = 24 // torch.distributed.get_world_size()
        data = torch.randn(24, 20, generator=sampler.random)[rank * rows : (rank + 1) * rows]
        if f"hold@{number}" in sys.argv[2]:
            note(f"hold {rank}")
            while not os.path.exists(f"{FOLDER}/go"):
                time.sleep(0.01)
        if sys.argv[2] == "raise" and rank == 1:
            raise ValueError("a step of the user's fails")
        kill_if(rank, number, 0)
        optimizer.zero_grad()
        loss = parallel(data).square().mean()
        if number % 3 == 1:
            next(iter(model.parameters())).register_hook(lambda grad: kill_if(rank, number, 1))
        loss.backward()
        optimizer.step()
        kill_if(rank, number, 2)
        note(f"step {rank} {number} {os.getpid()}")
        if rank == 1 and sys.argv[2] == f"exit@{number}":
            while sum(f" {number} " in line for line in open(f"{FOLDER}/events", encoding="ascii")) < torch.distributed.get_world_size():
                time.sleep(0.01)
            sys.exit(0)

    manta_torch.survive(step, model, optimizer, STEPS, {"sampler": sampler})
    weights = ((name, hashlib.sha256(data.numpy().tobytes()).hexdigest()) for name, data in model.state_dict().items() if "running" not in name)
    with open(f"{FOLDER}/{rank}.weights", "w", encoding="ascii") as file:
        file.writelines(f"{name} {digest}\n" for name, digest in weights)


main()
