"""What the first call of a loss function of the user's own shows: whether it couples the samples of a batch.

Such a loss cannot be split. The usual slip is (n, 1) against (n,): torch spreads them to n x n. Of torch's own losses that is
refused by `loss_checks`; of others it is tried, on halves of the first micro-batch.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from instep import keys
from instep.data.copies import copied
from instep.errors import give_notice
from instep.loop.loss_checks import same_shape


class FirstCall:
    """Looks once at what a loss function of the user's own is given: (n, 1) against (n,), which it may spread to n x n."""

    is_due = True

    def look(self, loss: Callable[..., Any], name: str, output: Any, target: Any, value: Any) -> None:
        self.is_due = False
        shapes = [tuple(side.shape) if isinstance(side, Tensor) else () for side in (output, target)]
        samples = shapes[0][0] if shapes[0] else 0
        if samples < 2 or sorted(shapes) != [(samples,), (samples, 1)] or not isinstance(value, Tensor) or value.numel() != 1:
            return
        if _is_coupled(loss, output.detach(), target.detach(), value.detach()):
            give_notice(
                f"{name} couples the samples of a batch, so that a split batch trains another model: it is given an output of "
                f"shape {shapes[0]} and a target of shape {shapes[1]}, which torch spreads to {(samples, samples)}, every output "
                f"compared with every target; {same_shape(output, target)}."
            )


def _is_coupled(loss: Callable[..., Any], output: Tensor, target: Tensor, whole: Tensor) -> bool:
    """Whether the loss of a batch is neither the mean nor the sum of those of its samples; False where that cannot be tried."""
    half = len(output) // 2
    try:
        loss = copied(loss)  # which may count its calls
        with torch.no_grad(), keys.fork_rng(output.device):
            first, second = loss(output[:half], target[:half]), loss(output[half:], target[half:])
    except Exception:  # of a function that takes whole batches only
        return False
    mean = (first * half + second * (len(output) - half)) / len(output)
    return not any(torch.allclose(whole, sum_or_mean, rtol=1e-3, atol=1e-6) for sum_or_mean in (mean, first + second))
