"""Poutyne: `fit_dataset` of its Model, with its checkpoints."""

from pathlib import Path
from typing import Any

import poutyne
from torch.nn.functional import cross_entropy

from benchmarks.promise.task import SEED, Task, Trained

WAYS = {
    "split": {"": "`batches_per_step=4`"},
    "short cycle": {"": "`batches_per_step=3`"},
    "observe": {"": "`fit_dataset(train, valid)`"},
    "load": {"": "`set_seeds`, `num_workers=2`"},
    "resume": {"": "`ModelCheckpoint`, `OptimizerCheckpoint` and `RandomStatesCheckpoint` after each epoch; `initial_epoch=`"},
}


def train(task: Task) -> Trained:
    poutyne.set_seeds(SEED)
    net = task.model()
    model = poutyne.Model(net, task.optimizer(net), cross_entropy)
    callbacks, done = (keep_checkpoints(task.folder), load(task.folder, model)) if task.folder else ([], 0)
    model.fit_dataset(
        task.train_data(),
        task.valid_data() if task.validated else None,
        batch_size=task.batch,
        epochs=task.epochs,
        initial_epoch=done + 1,
        batches_per_step=task.cycle,
        num_workers=task.workers,
        dataloader_kwargs={"shuffle": task.random},
        callbacks=callbacks,
        verbose=False,
    )
    return Trained.of(net)


def keep_checkpoints(folder: Path) -> list[Any]:
    """What its ModelBundle keeps; that one needs pandas besides."""
    kinds = {"model": poutyne.ModelCheckpoint, "optimizer": poutyne.OptimizerCheckpoint, "random": poutyne.RandomStatesCheckpoint}
    return [kind(str(folder / name) + "-{epoch}") for name, kind in kinds.items()]


def load(folder: Path, model: Any) -> int:
    """How many epochs are done."""
    done = len(list(folder.glob("random-*")))
    if done:
        model.load_weights(str(folder / f"model-{done}"))
        model.load_optimizer_state(str(folder / f"optimizer-{done}"))
        poutyne.load_random_states(str(folder / f"random-{done}"))
    return done
