"""Ignite: its supervised trainer, as a deterministic engine and as a plain one."""

from typing import Any

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver
from ignite.utils import manual_seed
from torch.nn.functional import cross_entropy

from benchmarks.promise.task import CHECKPOINT_EVERY, SEED, Task, Trained

WAYS = {
    "split": {"": "`create_supervised_trainer(gradient_accumulation_steps=4)`"},
    "short cycle": {"": "`create_supervised_trainer(gradient_accumulation_steps=3)`"},
    "observe": {
        "deterministic": "`deterministic=True`; an evaluator that runs after each epoch",
        "": "an evaluator that runs after each epoch",
    },
    "load": {
        "deterministic": "`deterministic=True`, `DataLoader(num_workers=2)`",
        "": "`DataLoader(num_workers=2)`",
    },
    "resume": {
        "deterministic epoch": "`deterministic=True`; `Checkpoint` of model, optimizer and trainer after each epoch",
        "deterministic": "the same every 4 updates",
        "": "the same every 4 updates, with a plain engine",
    },
}


def train(task: Task) -> Trained:
    manual_seed(SEED)
    model = task.model()
    optimizer = task.optimizer(model)
    trainer = create_supervised_trainer(
        model,
        optimizer,
        cross_entropy,
        deterministic=task.way.startswith("deterministic"),
        gradient_accumulation_steps=task.cycle,
    )
    if task.validated:
        evaluator, valid = create_supervised_evaluator(model), task.valid_loader()
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(valid))
    if task.folder:
        keep_checkpoints(task, {"model": model, "optimizer": optimizer, "trainer": trainer}, trainer)
    trainer.run(task.loader(), max_epochs=task.epochs)
    return Trained.of(model)


def keep_checkpoints(task: Task, objects: dict[str, Any], trainer: Engine) -> None:
    assert task.folder is not None
    saver = Checkpoint(
        objects,
        DiskSaver(str(task.folder), require_empty=False),
        n_saved=None,
        global_step_transform=lambda engine, event: engine.state.iteration,
    )
    every_few = Events.ITERATION_COMPLETED(every=CHECKPOINT_EVERY)
    trainer.add_event_handler(Events.EPOCH_COMPLETED if task.way.endswith("epoch") else every_few, saver)
    if files := sorted(task.folder.glob("checkpoint_*.pt"), key=lambda path: int(path.stem.split("_")[1])):
        Checkpoint.load_objects(objects, torch.load(files[-1], weights_only=False))
