"""Lightning Fabric: a loop written by hand, in which Fabric sets up model, optimizer and loader."""

from typing import Any

from lightning.fabric import Fabric
from torch.nn.functional import cross_entropy

from benchmarks.promise import plain
from benchmarks.promise.task import SEED, Task, Trained

WAYS = {
    "split": {"": "`no_backward_sync`, the loss divided by 4 as in the plain loop"},
    "short cycle": {"": "`no_backward_sync`, the loss divided by 3 as in the plain loop"},
    "observe": {"": "a loop of one's own, the loader set up by Fabric"},
    "load": {"": "`seed_everything(0, workers=True)`, `DataLoader(num_workers=2)`"},
    "resume": {"": "`fabric.save` and `fabric.load` after each epoch; the position in the data is left to the loop"},
}


def train(task: Task) -> Trained:
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    fabric.seed_everything(SEED, workers=True, verbose=False)
    net = task.model()
    model: Any
    model, optimizer = fabric.setup(net, task.optimizer(net))
    loader, valid = fabric.setup_dataloaders(task.loader(), task.valid_loader())
    state: dict[str, Any] = {"model": model, "optimizer": optimizer, "epoch": 0}
    path = task.folder / "checkpoint.ckpt" if task.folder else None
    if path and path.exists():
        fabric.load(path, state)
    for epoch in range(state["epoch"], task.epochs):
        model.train()
        for index, (x, y) in enumerate(loader):
            ends = (index + 1) % task.cycle == 0 or index + 1 == len(loader)
            with fabric.no_backward_sync(model, enabled=not ends):
                fabric.backward(cross_entropy(model(x), y) / task.cycle)
            if ends:
                optimizer.step()
                optimizer.zero_grad()
        if task.validated:
            plain.validate(model, valid)
        if path:
            fabric.save(path, {**state, "epoch": epoch + 1})
    return Trained.of(net)
