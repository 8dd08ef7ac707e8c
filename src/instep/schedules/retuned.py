"""A schedule at another learning rate, for a run that has not begun."""

import math
from dataclasses import replace
from numbers import Real
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from instep.errors import DescriptionError
from instep.schedules.function import FromFunction
from instep.schedules.one_cycle import OneCycle
from instep.schedules.plateau import Plateau
from instep.schedules.schedule import Schedule, starting_lr


def retuned(schedule: Any, optimizer: Optimizer, lr: float) -> Any:
    """The schedule that has its highest learning rate at `lr`: as the peak of a OneCycle, else as what the groups start from.

    What the groups start from is written into the optimizer; they keep their ratios, and the largest gets `lr` itself.
    """
    _check_lr(lr)
    if isinstance(schedule, OneCycle):
        if not isinstance(schedule.max_lr, int | float):
            raise DescriptionError(
                f"OneCycle has max_lr={list(schedule.max_lr)}, a peak for each group, and one learning rate cannot take their "
                "place; give the groups their own lr, whose ratios are kept, and OneCycle one max_lr."
            )
        return replace(schedule, max_lr=lr)
    if isinstance(schedule, FromFunction) or not (schedule is None or isinstance(schedule, Schedule | Plateau)):
        raise DescriptionError(
            "schedule= is a function that gives the learning rates itself, so another one cannot be put in; use OneCycle or one "
            "of instep.schedules, which start from the optimizer's lr."
        )
    groups = optimizer.param_groups
    starts = [starting_lr(group) for group in groups]
    largest = max(starts)
    for group, start in zip(groups, starts, strict=True):
        own = lr * (start / largest) if largest else lr
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own
        if "initial_lr" in group:
            group["initial_lr"] = own
    return schedule


def _check_lr(lr: Any) -> None:
    if lr is None:
        raise DescriptionError("lr=None is no learning rate; a range test without a suggestion says why in its `reason`.")
    if isinstance(lr, bool) or not isinstance(lr, Real) or not 0 < float(lr) < math.inf:
        raise DescriptionError(f"lr={lr!r} is no learning rate to train with; use a number above 0.")
