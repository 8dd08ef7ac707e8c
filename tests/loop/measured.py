"""What metrics give over some batches."""

from typing import Any

import torch
from torch import Tensor

from instep.loop.metrics import metric as measuring
from instep.loop.metrics.names import as_metrics
from instep.loop.objective import Loss

CPU = torch.device("cpu")


def measured(given: Any, *batches: tuple[Any, Any], **told: Any) -> dict[str, Any]:
    """The values of `given` over batches (output, target); `told` is what the loss says of them."""
    metrics = as_metrics(given)
    measuring.start(metrics, CPU)
    for output, target in batches:
        measuring.add(metrics, Loss(torch.tensor(0.0), 1, output, target, **told))
    return measuring.values(metrics)


def in_batches(output: Tensor, target: Tensor, *sizes: int) -> list[tuple[Tensor, Tensor]]:
    """The data in batches of these sizes."""
    return list(zip(output.split(list(sizes)), target.split(list(sizes)), strict=True))
