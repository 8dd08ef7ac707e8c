"""Accelerate: a loop written by hand; `accumulate()`, or the loop of its guide for samples of different sizes."""

from itertools import islice
from typing import Any

from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.nn.functional import cross_entropy

from benchmarks.promise import plain
from benchmarks.promise.task import CHECKPOINT_EVERY, SEED, Task, Trained

ACCUMULATE = {
    "": "`with accelerator.accumulate(model)`",
    "counted": "the loop of its guide for samples of different sizes: sums, divided by a count of one's own",
}
WAYS = {
    "split": ACCUMULATE,
    "short cycle": ACCUMULATE,
    "observe": {"": "`use_seedable_sampler=True`; a loop of one's own, the loader prepared"},
    "load": {"": "`set_seed`, `use_seedable_sampler=True`, `DataLoader(num_workers=2)`"},
    "resume": {
        "": "`save_state` every 4 updates; `load_state`, `set_epoch` and `skip_first_batches`, with `use_seedable_sampler=True`"
    },
}


def train(task: Task) -> Trained:
    set_seed(SEED)
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=task.cycle,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
    )
    net = task.model()
    model: Any
    model, optimizer, loader, valid = accelerator.prepare(net, task.optimizer(net), task.loader(), task.valid_loader())
    done = load(task, accelerator)
    for epoch in range(done // task.micro_batches, task.epochs):
        model.train()
        loader.set_epoch(epoch)
        begun = done % task.micro_batches if epoch == done // task.micro_batches else 0
        batches = accelerator.skip_first_batches(loader, begun) if begun else loader
        if task.way == "counted":
            train_counted(task, accelerator, model, optimizer, batches)
            continue
        for index, (x, y) in enumerate(batches, start=begun):
            with accelerator.accumulate(model):
                accelerator.backward(cross_entropy(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
            step = epoch * task.micro_batches + index + 1
            if task.folder and step % CHECKPOINT_EVERY == 0:
                accelerator.save_state(str(task.folder / f"step-{step:03}"))
        if task.validated:
            plain.validate(model, valid)
    return Trained.of(net)


def train_counted(task: Task, accelerator: Accelerator, model: Any, optimizer: Any, batches: Any) -> None:
    """The samples of an update are counted before the first backward; Accelerate divides by the number of micro-batches."""
    rest = iter(batches)
    while micro_batches := list(islice(rest, task.cycle)):
        count = sum(len(y) for _, y in micro_batches)
        for x, y in micro_batches:
            accelerator.backward(cross_entropy(model(x), y, reduction="sum") * task.cycle / count)
        optimizer.step()
        optimizer.zero_grad()


def load(task: Task, accelerator: Accelerator) -> int:
    """How many updates are done."""
    states = sorted(task.folder.glob("step-*")) if task.folder else []
    if not states:
        return 0
    accelerator.load_state(str(states[-1]))
    return int(states[-1].name.removeprefix("step-"))
