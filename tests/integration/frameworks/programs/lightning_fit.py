# SPDX-License-Identifier: Apache-2.0
# Lightning's Trainer with its strategy ddp: it finds torchrun's variables by itself, and goes on from its last checkpoint.
import logging
import os
import sys
import warnings

import lightning
import task
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, task.WIDTH), nn.Tanh(), nn.Linear(task.WIDTH, 1))
        self.losses = []

    def training_step(self, batch, _):
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)


class Death(Callback):
    begun = 0

    def on_train_start(self, trainer, module):
        self.begun = trainer.current_epoch

    def on_train_epoch_start(self, trainer, module):
        if trainer.current_epoch > 0:  # the checkpoint of the epoch before is there
            trainer.strategy.barrier()
            task.may_die(trainer.current_epoch - 1)


lightning.seed_everything(0, verbose=False)
data = TensorDataset(*map(torch.from_numpy, task.data()))
folder, model, death = sys.argv[1], Model(), Death()
trainer = lightning.Trainer(accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                            num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), max_epochs=task.STEPS, logger=False,
                            enable_progress_bar=False, enable_model_summary=False,
                            callbacks=[ModelCheckpoint(folder, save_last=True), death])
last = os.path.join(folder, "last.ckpt")
trainer.fit(model, DataLoader(data, batch_size=task.ROWS), ckpt_path=last if os.path.exists(last) else None)
task.say([p.detach().numpy() for p in model.parameters()], model.losses[0], model.losses[-1], death.begun)
