# SPDX-License-Identifier: Apache-2.0
# torch DDP over gloo: rank 0 saves after each step.
import os
import sys

import task
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size, path = dist.get_rank(), dist.get_world_size(), os.path.join(sys.argv[1], "ddp.pt")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(3, task.WIDTH), nn.Tanh(), nn.Linear(task.WIDTH, 1)))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
begun, losses = 0, []
if os.path.exists(path):
    saved = torch.load(path)
    begun = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
x, y = map(torch.from_numpy, task.data(rank, size))
for step in range(begun, task.STEPS):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if rank == 0:
        torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
    task.may_die(step)
task.say([p.detach().numpy() for p in model.parameters()], losses[0], losses[-1], begun)
dist.destroy_process_group()
