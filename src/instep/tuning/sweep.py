"""Sweep: real updates of a run while the learning rate grows. It owns what is written into the groups and when to stop.

Whoever calls it puts everything back afterwards; `range_test` does.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor
from torch.optim import Optimizer

from instep.errors import DescriptionError, NonFiniteGradient, NonFiniteLoss
from instep.loop.batch_plan import require_whole
from instep.records import StepResult
from instep.schedules.one_cycle import OneCycle
from instep.schedules.schedule import starting_lr
from instep.tuning.curve import Curve

Mode = Literal["exponential", "linear"]

BEFORE = 8  # updates that show where the loss stands, and how much it varies from batch to batch
NEXT_TO_NOTHING = 1e-6  # times `low`: their learning rate; not 0, with which a line search goes nowhere


@dataclass(frozen=True)
class Growth:
    """From which learning rate to which, in how many updates, and when it is enough; what does not fit is an error at once."""

    low: float = 1e-7
    high: float = 10.0
    steps: int = 100
    mode: Mode = "exponential"
    smoothing: float = 0.6
    stop_factor: float = 3.0

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1)
        if not 0 < self.low < self.high < math.inf:
            raise DescriptionError(
                f"low={self.low} to high={self.high} is no range to grow in; use for example low=1e-7, high=10."
            )
        if self.steps < 20:
            raise DescriptionError(f"steps={self.steps} updates show no curve; use 20 or more, such as 100.")
        if self.mode not in get_args(Mode):
            raise DescriptionError(f'mode={self.mode!r} is not known; use "exponential" or "linear".')
        if not 0 <= self.smoothing < 1:
            raise DescriptionError(f"smoothing={self.smoothing} is no weight of a neighbour; use a number from 0 to below 1.")
        if not self.stop_factor > 1:
            raise DescriptionError(f"stop_factor={self.stop_factor} would stop before the loss has risen; use a number above 1.")

    def lrs(self) -> tuple[float, ...]:
        """The learning rate of each update; the first is `low` and the last `high`."""
        last = self.steps - 1
        if self.mode == "linear":
            return tuple(self.low + (self.high - self.low) * i / last for i in range(self.steps))
        return tuple(self.low * (self.high / self.low) ** (i / last) for i in range(self.steps))


def sweep(updates: Iterator[StepResult], optimizer: Optimizer, growth: Growth, *, momentum: float | None = None) -> Curve:
    """The curve of one sweep over `updates`; `momentum`, where given, is written into the groups beside the learning rate.

    Reads the loss of every update, so it waits for the device.
    """
    write = GroupWriter(optimizer)
    if momentum is not None:
        write.momentum(momentum)
    lrs = growth.lrs()
    write.lr(lrs[0] * NEXT_TO_NOTHING)
    before = [_first_loss(updates) for _ in range(BEFORE)]
    write.lr(lrs[0])
    before.append(_first_loss(updates))
    losses: list[float] = []
    for lr in (*lrs[1:], growth.high):  # the last update only shows what the one before it did
        write.lr(lr)
        losses.append(_loss(updates))
        if not math.isfinite(losses[-1]) or _diverged(before, losses, growth):
            break
    return Curve(tuple(before), lrs[: len(losses)], tuple(losses), growth.smoothing, growth.stop_factor)


def peak_momentum(schedule: object) -> float | None:
    """The momentum at the peak of a one-cycle, its lowest: what to test its learning rate with. None for other schedules."""
    return schedule.momentum[0] if isinstance(schedule, OneCycle) and schedule.momentum is not None else None


class GroupWriter:
    """Writes one learning rate into all groups, in the ratios that they were made with; the largest gets it as it is."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._groups: Sequence[dict[str, Any]] = optimizer.param_groups
        if not all("lr" in group for group in self._groups):
            raise DescriptionError(f"{type(optimizer).__name__} has groups without an lr, so there is none to be found for it.")
        starts = [starting_lr(group) for group in self._groups]
        largest = max(starts)
        self._ratios = [start / largest if largest else 1.0 for start in starts]

    def lr(self, lr: float) -> None:
        for group, ratio in zip(self._groups, self._ratios, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr * ratio)
            else:
                group["lr"] = lr * ratio

    def momentum(self, momentum: float) -> None:
        """Into the first of `betas`, or into `momentum`, whichever a group has."""
        for group in self._groups:
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            elif "momentum" in group:
                group["momentum"] = momentum


def _first_loss(updates: Iterator[StepResult]) -> float:
    """A loss before anything was changed. What is wrong with that one is wrong with the run."""
    loss = float(next(updates).loss)
    if not math.isfinite(loss):
        raise NonFiniteLoss(f"the loss is {loss} before the learning rate has grown at all; see to that first, with fit().")
    return loss


def _loss(updates: Iterator[StepResult]) -> float:
    """The loss of the next update; inf where it, or its gradient, is not finite: nothing after that says anything."""
    try:
        loss = float(next(updates).loss)
    except (NonFiniteLoss, NonFiniteGradient):
        return math.inf
    return loss if math.isfinite(loss) else math.inf


def _diverged(before: Sequence[float], losses: Sequence[float], growth: Growth) -> bool:
    """Whether the last losses are at the ceiling, the latest weighing most."""
    ceiling = Curve(tuple(before), (), (), growth.smoothing, growth.stop_factor).ceiling
    total = weight = 0.0
    for loss in losses[-10:]:
        total = growth.smoothing * total + min(loss, ceiling)
        weight = growth.smoothing * weight + 1
    return total >= 0.999 * ceiling * weight
