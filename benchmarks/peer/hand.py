"""The fastest loop that one can write: one index_select a batch, nothing read back, gradients set to None."""

from collections.abc import Callable, Iterator

import torch
from torch.nn.functional import cross_entropy

from benchmarks.peer import plain
from benchmarks.peer.work import Data, Job


def prepare(job: Job) -> Callable[[], object]:
    if job.work.kind == "resume":
        return plain.prepare_resume(job, slices)
    optimizer = job.optimizer()
    model = plain.spread(job)
    x, y = job.data
    order = torch.tensor(job.own_order())

    def train() -> None:
        for step, indices in enumerate(order.split(job.batch)):
            xb, yb = x.index_select(0, indices), y.index_select(0, indices)
            optimizer.zero_grad(set_to_none=True)
            if job.work.kind == "tokens":
                for loss in job.token_losses((xb, yb)):
                    loss.backward()
            else:
                cross_entropy(model(xb), yb).backward()
            optimizer.step()
            if job.work.kind == "checkpoint" and (step + 1) % job.work.start == 0:
                plain.save(job, optimizer, step + 1, sync=True)

    return train


def slices(job: Job, done: int) -> Iterator[Data]:
    """The batches after those that were done: the whole permutation is drawn again, then cut."""
    x, y = job.data
    order = torch.randperm(job.work.samples, generator=torch.Generator().manual_seed(0))
    for indices in order[done * job.batch :].split(job.batch):
        yield x.index_select(0, indices), y.index_select(0, indices)
