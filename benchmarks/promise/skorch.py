"""skorch: a NeuralNet; its FAQ shows how to accumulate gradients in a train step of one's own."""

import json
from typing import Any

import skorch
import torch
from skorch.callbacks import Checkpoint, LoadInitState
from skorch.helper import predefined_split
from torch import Tensor, nn

from benchmarks.promise.task import LR, MOMENTUM, SEED, Task, Trained

WAYS = {
    "split": {"": "the train step of its FAQ: the loss divided by 4, a step after every 4th and after the last micro-batch"},
    "short cycle": {
        "": "the train step of its FAQ: the loss divided by 3, a step after every 3rd and after the last micro-batch"
    },
    "observe": {"": "`train_split=predefined_split(valid)`"},
    "load": {"": "`iterator_train__num_workers=2`"},
    "resume": {"": "`Checkpoint` after each epoch and `LoadInitState`, for the epochs that are left"},
}


class Accumulating(skorch.NeuralNet):
    """As its FAQ advises, and with the step after the last micro-batch that the FAQ asks for."""

    def set_task(self, task: Task) -> "Accumulating":
        self.task = task
        return self

    def get_loss(self, *args: Any, **kwargs: Any) -> Tensor:
        loss: Tensor = super().get_loss(*args, **kwargs)
        return loss / self.task.cycle if self.module_.training else loss

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        number = len(self.history[-1, "batches"])
        step = self.train_step_single(batch, **fit_params)
        if number % self.task.cycle == 0 or number == self.task.micro_batches:
            self.optimizer_.step()
            self.optimizer_.zero_grad()
        return step


def train(task: Task) -> Trained:
    torch.manual_seed(SEED)
    model = task.model()
    callbacks: list[Any] = []
    done = 0
    if task.folder:
        checkpoint = Checkpoint(monitor=None, dirname=str(task.folder))
        callbacks = [checkpoint, LoadInitState(checkpoint)]
        history = task.folder / "history.json"
        done = len(json.loads(history.read_text())) if history.exists() else 0
    net = (Accumulating if task.cycle > 1 else skorch.NeuralNet)(
        model,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        optimizer__momentum=MOMENTUM,
        lr=LR,
        max_epochs=task.epochs - done,
        batch_size=task.batch,
        iterator_train__shuffle=task.random,
        iterator_train__num_workers=task.workers,
        train_split=predefined_split(task.valid_data()) if task.validated else None,
        callbacks=callbacks,
        verbose=0,
    )
    if isinstance(net, Accumulating):
        net.set_task(task)
    net.fit(task.train_data(), None)
    return Trained.of(net.module_)
