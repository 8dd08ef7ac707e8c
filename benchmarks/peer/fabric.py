"""Lightning Fabric: a loop written by hand, in which Fabric sets up model, optimizer and loader."""

from collections.abc import Callable
from typing import Any

from lightning.fabric import Fabric
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Job

_launched: dict[int, Fabric] = {}  # one a process: it opens the process group


def fabric_of(processes: int) -> Fabric:
    if processes not in _launched:
        _launched[processes] = Fabric(accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto")
        _launched[processes].launch()
    return _launched[processes]


def prepare(job: Job) -> Callable[[], object]:
    fabric = fabric_of(job.work.processes)
    model: Any
    model, optimizer = fabric.setup(job.model, job.optimizer())
    loader = fabric.setup_dataloaders(job.loader(), use_distributed_sampler=False)

    def train() -> None:
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            if job.work.kind == "tokens":
                for loss in job.token_losses((x, y), model):
                    fabric.backward(loss)
            else:
                fabric.backward(cross_entropy(model(x), y))
            optimizer.step()
            if job.work.kind == "checkpoint" and (step + 1) % job.work.start == 0:
                fabric.save(job.folder / "checkpoint.ckpt", {"model": model, "optimizer": optimizer, "step": step + 1})

    return train
