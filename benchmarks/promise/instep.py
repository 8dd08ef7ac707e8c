"""Instep's Trainer."""

import torch
from torch.nn.functional import cross_entropy

from benchmarks.promise.task import CHECKPOINT_EVERY, SAMPLES, SEED, Task, Trained
from instep import Trainer
from instep.data import source

WAYS = {
    "split": {"": "`batch_size=32, micro_batch_size=8`"},
    "short cycle": {"": "`batch_size=24, micro_batch_size=8`"},
    "observe": {"": "`valid=`"},
    "load": {"": "`num_workers=2`"},
    "resume": {"": "`folder=`, a checkpoint every 4 updates; the same call again"},
}


def in_order(epoch: int, seed: int) -> range:
    """As the other libraries go through the samples where nothing is shuffled."""
    return range(SAMPLES)


def train(task: Task) -> Trained:
    torch.manual_seed(SEED)  # for the weights of the model
    model = task.model()
    Trainer(
        model,
        loss=cross_entropy,
        optimizer=task.optimizer(model),
        train=task.train_data() if task.random else source(task.train_data(), sampler=in_order),
        valid=task.valid_data() if task.validated else None,
        epochs=task.epochs,
        batch_size=task.batch * task.cycle,
        micro_batch_size=task.batch if task.cycle > 1 else None,
        num_workers=task.workers,
        seed=SEED,
        folder=task.folder / "run" if task.folder else None,
        checkpoint_every=CHECKPOINT_EVERY,
        progress=False,
    ).fit()
    return Trained.of(model)
