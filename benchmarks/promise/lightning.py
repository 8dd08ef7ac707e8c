"""Lightning's Trainer."""

import logging
import warnings
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.promise.task import CHECKPOINT_EVERY, SEED, Pair, Task, Trained

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")

WAYS = {
    "split": {"": "`accumulate_grad_batches=4`"},
    "short cycle": {"": "`accumulate_grad_batches=3`"},
    "observe": {"": "`fit(module, train, val)`"},
    "load": {"": "`seed_everything(0, workers=True)`, `DataLoader(num_workers=2)`"},
    "resume": {
        "": "`ModelCheckpoint(every_n_train_steps=4)`, `fit(ckpt_path=…)`; it warns that the loader cannot resume",
        "epoch": "`ModelCheckpoint(every_n_epochs=1)`, `fit(ckpt_path=…)`",
    },
}


class Module(lightning.LightningModule):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task, self.net = task, task.model()

    def training_step(self, batch: Pair, index: int) -> Tensor:
        return cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Pair, index: int) -> None:
        self.log("val_loss", cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.task.optimizer(self.net)


def train(task: Task) -> Trained:
    lightning.seed_everything(SEED, workers=True, verbose=False)
    module = Module(task)
    callbacks: list[Any] = []
    if task.folder:
        often: dict[str, Any] = {"every_n_epochs": 1} if task.way == "epoch" else {"every_n_train_steps": CHECKPOINT_EVERY}
        callbacks = [ModelCheckpoint(task.folder, filename="{step:03d}", save_top_k=-1, **often)]
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=task.epochs,
        accumulate_grad_batches=task.cycle,
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    saved = sorted(task.folder.glob("*.ckpt")) if task.folder else []
    valid = task.valid_loader() if task.validated else None
    trainer.fit(module, task.loader(), valid, ckpt_path=str(saved[-1]) if saved else None)
    return Trained.of(module.net)
