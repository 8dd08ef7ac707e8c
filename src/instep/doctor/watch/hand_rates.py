"""Learning rates that are written into the optimizer by hand: what steps find there, where no scheduler has set it."""

import math
from collections.abc import Sequence
from dataclasses import field

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.optimizers import Step

LIMIT = 64
FADED = 1e-4  # of the highest rate so far


@record_class
class HandRate:
    """The highest learning rate of an optimizer's groups, as its steps found it."""

    optimizer: int
    site: str | None
    first: float
    highest: float
    last: float
    looks: int = 0  # steps that were looked at
    changes: list[tuple[int, float]] = field(default_factory=list)  # (steps before, lr), until a step was not looked at
    gap: bool = False  # whether there was such a step: several changes may look like one since then
    changed: int = 0  # steps that found another rate than the step before
    settled: int = 0  # steps before the last change
    faded: int = 0  # steps at a rate that is nothing, against the highest
    seen: int = 0  # steps before the last look


@part_class
class HandRates:
    """The part of the trace about rates that are written by hand. Those of schedulers are among them."""

    all: dict[int, HandRate] = field(default_factory=dict)


class HandRateWatch:
    """Fills `HandRates`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part = trace.part(HandRates)

    def before_step(self, step: Step) -> None:
        lr, done = max((group.get("lr", 0.0) for group in step.optimizer.param_groups), default=0.0), step.record.all_steps
        if type(lr) is not float:
            return  # a tensor, for which somebody would have to wait
        rate = self._part.all.get(step.record.number)
        if rate is None:
            if len(self._part.all) < LIMIT:
                self._part.all[step.record.number] = HandRate(step.record.number, step.site, lr, lr, lr, 1, seen=done)
            return
        rate.looks += 1
        rate.gap = rate.gap or done > rate.seen + 1
        if lr != rate.last:
            rate.changed += 1
            rate.settled = done
            if len(rate.changes) < 512 and not rate.gap:
                rate.changes.append((done, lr))
        if lr < FADED * rate.highest:
            rate.faded += done - rate.seen if rate.last < FADED * rate.highest else 1
        rate.last, rate.seen = lr, done
        rate.highest = max(rate.highest, lr)


def fitted_horizon(ratios: Sequence[float]) -> float | None:
    """After how many steps a decay ends that has come to these shares of its beginning: linear, or half a cosine; else None."""
    points = [(count, ratio) for count, ratio in enumerate(ratios, 1) if ratio < 1 - 1e-12]
    if len(points) < 3 or len(points) < len(ratios) or min(ratios) <= 0.0:
        return None
    for ends in ([k / (1 - r) for k, r in points], [math.pi * k / math.acos(2 * r - 1) for k, r in points]):
        if max(ends) <= 1.02 * min(ends):
            return sum(ends) / len(ends)
    return None


OBSERVERS = [HandRateWatch]
