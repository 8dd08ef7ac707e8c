"""Schedules: the learning rate of an update as a function of its position, and how it gets into the optimizer.

Functions of position are `OneCycle`, `Constant`, `WarmupCosine`, `Linear`, `WSD`, `Step`, `Exponential`, `WarmRestarts`, a
`Schedule` of your own, and any plain `f(position)`. `Plateau` goes by evaluations instead. torch's schedulers come in as
`lambda optimizer, total_steps: …`, or in `per_epoch(…)`.
`drive` writes any of them into an optimizer; `sparkline` shows the shape of one in a line of text.
"""

from instep.schedules.decay import Constant, Exponential, Step, WarmRestarts
from instep.schedules.drawing import sparkline
from instep.schedules.drive import AnySchedule, Drive, drive
from instep.schedules.one_cycle import OneCycle
from instep.schedules.plateau import Plateau
from instep.schedules.schedule import Schedule
from instep.schedules.scheduler import per_epoch
from instep.schedules.warmup import WSD, Linear, WarmupCosine

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
