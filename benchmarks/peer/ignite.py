"""Ignite: an Engine round an update function, and nothing attached to it."""

from collections.abc import Callable
from typing import Any

import ignite.distributed as idist
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint, DiskSaver
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Data, Job


def prepare(job: Job) -> Callable[[], object]:
    if job.work.processes > 1 and idist.backend() is None:
        idist.initialize("gloo")
    optimizer = job.optimizer()
    model: Any = idist.auto_model(job.model) if job.work.processes > 1 else job.model

    def update(engine: Engine, batch: Data) -> None:
        optimizer.zero_grad()
        if job.work.kind == "tokens":
            for loss in job.token_losses(batch):
                loss.backward()
        else:
            cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    trainer = Engine(update)
    if job.work.kind == "checkpoint":
        saver = Checkpoint(
            {"model": model, "optimizer": optimizer, "trainer": trainer},
            DiskSaver(str(job.folder), require_empty=False),
            n_saved=1,
            global_step_transform=lambda engine, event: engine.state.iteration,
        )
        trainer.add_event_handler(Events.ITERATION_COMPLETED(every=job.work.start), saver)
    loader = job.loader()
    return lambda: trainer.run(loader, max_epochs=1)
