"""The samples that a model does worst on: each one goes through the model alone, so its loss is its own."""

import heapq
import math
from collections.abc import Iterator
from itertools import islice

import torch
from torch import nn

from instep import keys
from instep.data.loading.loader import Loader
from instep.loop.accumulation import scalar
from instep.loop.evaluate import checked_loss, evaluating
from instep.loop.objective import Objective
from instep.records import SampleLoss


def largest_losses(
    model: nn.Module,
    loader: Loader,
    objective: Objective,
    *,
    seed: int,
    device: torch.device,
    called: nn.Module,
    count: int,
    most: int,
) -> list[SampleLoss]:
    """The `count` samples with the largest losses among the first `most` of a loader; one without a finite loss is the worst."""
    with keys.fork_rng(device), evaluating(model):
        found = islice(_each(model, loader, objective, seed=seed, device=device, called=called), most)
        return heapq.nlargest(count, found, key=lambda one: one.loss if math.isfinite(one.loss) else math.inf)


def _each(
    model: nn.Module, loader: Loader, objective: Objective, *, seed: int, device: torch.device, called: nn.Module
) -> Iterator[SampleLoss]:
    for batch in loader.batches(epoch=0):
        loader.layout.require(batch.data, batch.samples, loader.name)
        for place, index in enumerate(batch.indices.tolist()):
            data = loader.layout.piece(batch.data, place, place + 1)
            keys.seed_all(keys.for_evaluation(seed, index), device)
            loss = checked_loss(objective, model, called, data, loader, index, 1)
            origin = int(loader.origin(torch.tensor([index]))[0])
            yield SampleLoss(loader.name, origin, float(scalar(loss.value)), data, loss.output, loss.target)
