"""skorch: a NeuralNet without callbacks, split and printing; a train step of one's own for tokens."""

from collections.abc import Callable
from typing import Any

import skorch
import torch
from torch import nn

from benchmarks.peer.work import ADAMW, Job


class ByTokens(skorch.NeuralNet):
    """Its criterion takes one batch; the sum over micro-batches is a step of one's own."""

    job: Job

    def train_step_single(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        self._set_training(True)
        total = torch.zeros(())
        for loss in self.job.token_losses(batch, self.module_):
            loss.backward()
            total += loss.detach()
        return {"loss": total, "y_pred": None}


def prepare(job: Job) -> Callable[[], object]:
    net = (ByTokens if job.work.kind == "tokens" else skorch.NeuralNet)(
        job.model,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        **{f"optimizer__{name}": value for name, value in ADAMW.items()},
        lr=ADAMW["lr"],
        max_epochs=1,
        batch_size=job.batch,
        iterator_train__sampler=job.order,
        iterator_train__num_workers=job.work.workers,
        train_split=None,
        callbacks="disable",
        verbose=0,
    )
    net.initialize()
    if isinstance(net, ByTokens):
        net.job = job
    dataset = job.dataset()
    return lambda: net.partial_fit(dataset, None)
