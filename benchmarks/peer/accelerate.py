"""Accelerate: a loop written by hand, in which the Accelerator prepares model, optimizer and loader."""

from collections.abc import Callable
from typing import Any

from accelerate import Accelerator
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Job


def prepare(job: Job) -> Callable[[], object]:
    if job.work.kind == "resume":
        return prepare_resume(job)
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(job.model, job.optimizer(), job.loader(whole=True))

    def train() -> None:
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            if job.work.kind == "tokens":
                for loss in job.token_losses((x, y), model):
                    accelerator.backward(loss)
            else:
                accelerator.backward(cross_entropy(model(x), y))
            optimizer.step()
            if job.work.kind == "checkpoint" and (step + 1) % job.work.start == 0:
                accelerator.save_state(str(job.folder))

    return train


def prepare_resume(job: Job) -> Callable[[], object]:
    """save_state, load_state and skip_first_batches, as documented for the middle of an epoch."""
    before = Accelerator(cpu=True)
    before.prepare(job.model, job.optimizer())
    before.save_state(str(job.folder / "state"))

    def resume() -> None:
        accelerator = Accelerator(cpu=True)
        loader: Any
        model, optimizer, loader = accelerator.prepare(job.model, job.optimizer(), job.shuffled_loader())
        accelerator.load_state(str(job.folder / "state"))
        x, y = next(iter(accelerator.skip_first_batches(loader, job.work.start)))
        optimizer.zero_grad()
        accelerator.backward(cross_entropy(model(x), y))
        optimizer.step()

    return resume
