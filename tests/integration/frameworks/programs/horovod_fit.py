# SPDX-License-Identifier: Apache-2.0
# Horovod over gloo, with its optimizer for torch: rank 0 saves after each step.
import os
import sys

import horovod.torch as hvd
import task
import torch
from torch import nn

torch.set_num_threads(1)
hvd.init()
path = os.path.join(sys.argv[1], "horovod.pt")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, task.WIDTH), nn.Tanh(), nn.Linear(task.WIDTH, 1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), named_parameters=model.named_parameters())
begun, losses = 0, []
if os.path.exists(path):
    saved = torch.load(path)
    begun = saved["step"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
x, y = map(torch.from_numpy, task.data(hvd.rank(), hvd.size()))
for step in range(begun, task.STEPS):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if hvd.rank() == 0:
        torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".new")
        os.replace(path + ".new", path)
    hvd.barrier()
    task.may_die(step)
task.say([p.detach().numpy() for p in model.parameters()], losses[0], losses[-1], begun)
hvd.shutdown()
