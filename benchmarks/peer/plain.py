"""The loop of the tutorials: DataLoader, zero_grad, forward, backward, step; DistributedDataParallel for two processes."""

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler

from benchmarks.peer.work import Data, Job


def prepare(job: Job) -> Callable[[], object]:
    if job.work.kind == "resume":
        return prepare_resume(job)
    optimizer = job.optimizer()
    model = spread(job)
    loader = job.loader()

    def train() -> None:
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            if job.work.kind == "tokens":
                for loss in job.token_losses((x, y)):
                    loss.backward()
            else:
                loss = cross_entropy(model(x), y)
                loss.backward()
            optimizer.step()
            if step % 100 == 0:
                loss.item()
            if job.work.kind == "checkpoint" and (step + 1) % job.work.start == 0:
                save(job, optimizer, step + 1)

    return train


def spread(job: Job) -> nn.Module:
    """The model, under DistributedDataParallel where there are two processes."""
    if job.work.processes == 1:
        return job.model
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return DistributedDataParallel(job.model)


def save(job: Job, optimizer: torch.optim.Optimizer, step: int, *, sync: bool = False) -> Path:
    """What people write; with `sync` it also waits for the disk, without which a crash of the machine takes the file."""
    path = job.folder / "checkpoint.pt"
    with open(path, "wb") as file:
        torch.save({"model": job.model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    return path


def prepare_resume(job: Job, remaining: Callable[[Job, int], Iterator[Data]] | None = None) -> Callable[[], object]:
    """From the checkpoint's file to the end of the first update after it."""
    path = save(job, job.optimizer(), job.work.start)
    batches = remaining or replay

    def resume() -> None:
        optimizer = job.optimizer()
        saved = torch.load(path)
        job.model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        x, y = next(batches(job, saved["step"]))
        optimizer.zero_grad()
        cross_entropy(job.model(x), y).backward()
        optimizer.step()

    return resume


def replay(job: Job, done: int) -> Iterator[Data]:
    """The sampler's order again, without the samples that were used; they are counted off and not loaded."""
    sampler = RandomSampler(range(job.work.samples), generator=torch.Generator().manual_seed(0))
    rest = islice(iter(sampler), done * job.batch, None)
    return iter(DataLoader(job.dataset(), batch_size=job.batch, sampler=rest))
