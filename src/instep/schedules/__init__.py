"""Schedules: the learning rate of an update as a function of its position, and how it gets into the optimizer.

Functions of position are `OneCycle`, `Constant`, `WarmupCosine`, `Linear`, `WSD`, `Step`, `Exponential`, `WarmRestarts`, a
`Schedule` of your own, and any plain `f(position)`. `Plateau` goes by evaluations instead. torch's schedulers come in as
`lambda optimizer, total_steps: …`, or in `per_epoch(…)`.
`drive` writes any of them into an optimizer; `sparkline` shows the shape of one in a line of text.

Shapes that not every run has are imported when they are first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from instep.schedules.constant import Constant
from instep.schedules.drawing import sparkline
from instep.schedules.drive import AnySchedule, Drive, drive
from instep.schedules.one_cycle import OneCycle
from instep.schedules.plateau import Plateau
from instep.schedules.schedule import Schedule
from instep.schedules.scheduler import per_epoch

if TYPE_CHECKING:
    from instep.schedules.decay import Exponential as Exponential
    from instep.schedules.decay import Step as Step
    from instep.schedules.decay import WarmRestarts as WarmRestarts
    from instep.schedules.warmup import WSD as WSD
    from instep.schedules.warmup import Linear as Linear
    from instep.schedules.warmup import WarmupCosine as WarmupCosine

_HOME = {
    "Exponential": "instep.schedules.decay",
    "Linear": "instep.schedules.warmup",
    "Step": "instep.schedules.decay",
    "WSD": "instep.schedules.warmup",
    "WarmRestarts": "instep.schedules.decay",
    "WarmupCosine": "instep.schedules.warmup",
}

__all__ = [
    "WSD",
    "AnySchedule",
    "Constant",
    "Drive",
    "Exponential",
    "Linear",
    "OneCycle",
    "Plateau",
    "Schedule",
    "Step",
    "WarmRestarts",
    "WarmupCosine",
    "drive",
    "per_epoch",
    "sparkline",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'instep.schedules' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
