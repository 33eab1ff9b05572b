# SPDX-License-Identifier: Apache-2.0
# torch FSDP over gloo: weights and optimizer in shards, saved in shards by torch.distributed.checkpoint.
import os
import sys

import task
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size, folder = dist.get_rank(), dist.get_world_size(), sys.argv[1]
mesh = init_device_mesh("cpu", (size,))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, task.WIDTH), nn.Tanh(), nn.Linear(task.WIDTH, 1))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), 0.05)
mark, begun, losses = os.path.join(folder, "fsdp.step"), 0, []
if os.path.exists(mark):
    begun = int(open(mark, encoding="ascii").read())
    weights, states = get_state_dict(model, optimizer)
    saved = {"model": weights, "optimizer": states}
    dcp.load(saved, checkpoint_id=os.path.join(folder, f"fsdp-{begun}"))
    set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
x, y = map(torch.from_numpy, task.data(rank, size))
for step in range(begun, task.STEPS):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 3 == 2:
        weights, states = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": states}, checkpoint_id=os.path.join(folder, f"fsdp-{step + 1}"))
        if rank == 0:  # it is whole: dcp.save returns when all have written
            with open(mark + ".new", "w", encoding="ascii") as file:
                file.write(str(step + 1))
            os.replace(mark + ".new", mark)
    task.may_die(step)
task.say([p.full_tensor().detach().numpy() for p in model.parameters()], losses[0], losses[-1], begun)
dist.destroy_process_group()
