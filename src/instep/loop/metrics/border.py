"""Border: from which single output on class 1 is meant, where the loss does not say it.

What outputs and targets show over the whole evaluation decides, so it does not depend on how the batches fall: least and most
are kept, and metrics count for both borders until the end.
"""

from typing import Any

import torch
from torch import Tensor

from instep.distributed.world import World
from instep.loop.metrics.forms import as_scores, counted_targets, require_binary
from instep.loop.metrics.metric import double
from instep.loop.torch_losses import Threshold

BORDERS = (0.0, 0.5)  # of logits; of probabilities


class Border:
    """The range of the outputs and targets that count, over the batches of one evaluation."""

    def __init__(self) -> None:
        self._is_nearest = False
        self._ranges: list[Tensor] = []  # least and most output, least target

    def add(self, name: str, output: Any, target: Any, ignore_index: int | None, threshold: Threshold) -> bool:
        """Take in a batch; False where its outputs are scores of classes, which need no border."""
        if not isinstance(threshold, str):
            return False
        output, target = as_scores(name, output, target, threshold)
        if output.ndim > target.ndim or not output.numel():
            return False
        target, counted = counted_targets(target, ignore_index)
        require_binary(name, target, counted, threshold)
        self._is_nearest = threshold == "nearest"
        output, target = (torch.where(counted, side.detach(), 0).to(double(side.device)) for side in (output, target))
        self._ranges.append(torch.stack([output.min(), output.max(), target.min()]))
        return True

    def index(self, world: World | None) -> int:
        """Which of `BORDERS` it is; of all processes where a world shares the data."""
        ranges = [batch.tolist() for batch in self._ranges]
        if world is not None:
            ranges = [batch for by_rank in world.gather_objects(ranges) for batch in by_rank]
        if any(target < 0 for _, _, target in ranges):  # -1 and 1
            return 0
        return 1 if self._is_nearest or all(least >= 0 and most <= 1 for least, most, _ in ranges) else 0
