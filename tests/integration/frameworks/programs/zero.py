# SPDX-License-Identifier: Apache-2.0
# DeepSpeed with ZeRO 1 on the CPU: each rank has a part of the optimizer's state, and its checkpoints are in parts.
import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed  # noqa: E402
import task  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)
deepspeed.init_distributed(dist_backend="gloo", verbose=False)
rank, size, folder = torch.distributed.get_rank(), torch.distributed.get_world_size(), sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, task.WIDTH), nn.Tanh(), nn.Linear(task.WIDTH, 1))
config = {"train_micro_batch_size_per_gpu": task.ROWS // size, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True}
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.Adam(model.parameters(), 0.05), config=config)
saved, begun, losses = os.path.exists(os.path.join(folder, "latest")), 0, []
if saved:
    _, said = engine.load_checkpoint(folder)
    begun = said["step"]
x, y = map(torch.from_numpy, task.data(rank, size))
for step in range(begun, task.STEPS):
    loss = nn.functional.mse_loss(engine(x), y)
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
    if step % 3 == 2:
        engine.save_checkpoint(folder, client_state={"step": step + 1})
    task.may_die(step)
task.say([p.detach().float().numpy() for p in model.parameters()], losses[0], losses[-1], begun)
torch.distributed.destroy_process_group()
