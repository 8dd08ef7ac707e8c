"""Lightning's Trainer: barebones, its documented mode without logger, progress and checkpoints; manual backward for tokens."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Data, Job

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")


class Plain(lightning.LightningModule):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job, self.model = job, job.model

    def training_step(self, batch: Data, index: int) -> Tensor:
        return cross_entropy(self.model(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.job.optimizer()


class ByTokens(Plain):
    """accumulate_grad_batches= gives each micro-batch the same weight; manual optimisation can weigh them."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.automatic_optimization = False

    def training_step(self, batch: Data, index: int) -> None:  # type: ignore[override, unused-ignore]
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        for loss in self.job.token_losses(batch):
            self.manual_backward(loss)
        optimizer.step()


def prepare(job: Job) -> Callable[[], object]:
    module = ByTokens(job) if job.work.kind == "tokens" else Plain(job)
    settings: dict[str, Any] = {"barebones": True}
    if job.work.kind == "checkpoint":
        saving = ModelCheckpoint(job.folder, every_n_train_steps=job.work.start, save_on_train_epoch_end=False)
        settings = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "callbacks": [saving]}
    spread: dict[str, Any] = {"strategy": "ddp"} if job.work.processes > 1 else {}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=job.work.processes, max_epochs=1, use_distributed_sampler=False, **spread, **settings
    )
    loader = job.loader()
    return lambda: trainer.fit(module, loader)
