"""The loop of the tutorials: the loss divided by the number of micro-batches, a checkpoint at the end of each epoch."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from benchmarks.promise.task import SEED, Pair, Task, Trained

WAYS = {
    "split": {"": "the loss divided by 4, a step after every 4th and after the last micro-batch"},
    "short cycle": {"": "the loss divided by 3, a step after every 3rd and after the last micro-batch"},
    "observe": {"": "`model.eval()` and `torch.no_grad()` over a loader that is not shuffled"},
    "load": {"": "`DataLoader(num_workers=2)`"},
    "resume": {"": "epoch, model and optimizer saved after each epoch, as in PyTorch's tutorial; `torch.manual_seed` first"},
}


def train(task: Task) -> Trained:
    torch.manual_seed(SEED)
    model = task.model()
    optimizer = task.optimizer(model)
    loader, valid = task.loader(), task.valid_loader()
    first = load(task, model, optimizer)
    for epoch in range(first, task.epochs):
        model.train()
        for index, (x, y) in enumerate(loader):
            loss = cross_entropy(model(x), y) / task.cycle
            loss.backward()
            if (index + 1) % task.cycle == 0 or index + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
        if task.validated:
            validate(model, valid)
        if task.folder:
            saved = {"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(saved, task.folder / "checkpoint.pt")
    return Trained.of(model)


def load(task: Task, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The epoch at which the run begins."""
    path = task.folder / "checkpoint.pt" if task.folder else None
    if path is None or not path.exists():
        return 0
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["epoch"])


def validate(model: nn.Module, loader: DataLoader[Pair]) -> float:
    model.eval()
    with torch.no_grad():
        return sum(float(cross_entropy(model(x), y)) for x, y in loader)
