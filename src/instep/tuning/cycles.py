"""Cycles: a range test, one cycle at what it found, and again from the weights that were reached, until that no longer pays.

Owns what a cycle is, which one comes next and when there is none. All of it is a function of what is recorded and of where the
run stands, so a run that was cut off chooses the same again. How a cycle is trained is the business of `cycling`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from instep.errors import DescriptionError, InstepError
from instep.loop.batch_plan import require_whole
from instep.run.setting import as_setting
from instep.schedules.one_cycle import OneCycle
from instep.text import columns, number, rate, wrapped
from instep.tuning.range_test import RangeTest, find_lr
from instep.tuning.rehearsal import Rehearsal
from instep.tuning.sweep import Growth, peak_momentum

Mode = Literal["min", "max"]
HEAD = ("cycle", "steps", "max_lr", "before", "after", "gain")
MAKES_CYCLES = (
    "fit_cycles() needs a function that makes a OneCycle of a learning rate: schedule=lambda lr: OneCycle(lr, pct_start=0.5)."
)


@dataclass(frozen=True)
class Cycle:
    """One cycle: what was chosen for it, and what it brought. `after` and `gain` are None while it is being trained."""

    index: int
    start: int  # its first step
    stop: int  # one past its last
    max_lr: float
    reason: str  # for this max_lr
    confidence: float
    before: float  # the best value at the end of a cycle so far; of the first cycle, that of the weights it began with
    after: float | None = None
    gain: float | None = None  # above 0 where it is an improvement, whichever way that is
    made: int = 0  # updates before it that were not skipped: where its schedule begins
    groups: int = 1  # of the optimizer when it began; others may join

    def to_json(self) -> dict[str, Any]:
        """As a checkpoint keeps it; `Cycle(**…)` is the way back."""
        return asdict(self)

    def row(self) -> dict[str, Any]:
        """As a row of the history has it."""
        inner = ("index", "made", "groups")
        known = {name: value for name, value in asdict(self).items() if value is not None and name not in inner}
        return {"cycle": self.index + 1, **known}


@dataclass(frozen=True)
class Cycles:
    """All cycles of a run, and why there was no further one.

    >>> cycle = Cycle(0, start=0, stop=100, max_lr=0.1, reason="…", confidence=0.8, before=2.0, after=0.5, gain=1.5)
    >>> print(Cycles((cycle,), "max_cycles=1 are done."))
    cycle     steps  max_lr  before   after   gain
        1  0 to 100     0.1   2.000  0.5000  1.500
    max_cycles=1 are done.
    """

    cycles: tuple[Cycle, ...]
    ended: str

    @property
    def best(self) -> Cycle | None:
        """The last cycle that improved anything."""
        return next((cycle for cycle in reversed(self.cycles) if cycle.gain is not None and cycle.gain > 0), None)

    def __str__(self) -> str:
        return "\n".join([*columns(HEAD, self._rows()), *wrapped(self.ended, 80)])

    def _repr_html_(self) -> str:
        from instep.drawing.html import block, paragraph, table

        bold = [place for place, cycle in enumerate(self.cycles) if cycle is self.best]
        return block(table(HEAD, self._rows(), bold=bold), paragraph(self.ended))

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (str(c.index + 1), f"{c.start:,} to {c.stop:,}", rate(c.max_lr), number(c.before), number(c.after), number(c.gain))
            for c in self.cycles
        ]


@dataclass(frozen=True)
class CycleOptions:
    """How to train in cycles; what makes no sense is an error at once."""

    max_cycles: int = 8
    min_delta: float = 0.0
    schedule: Callable[[float], OneCycle] = OneCycle
    low: float = 1e-7
    high: float = 10.0
    steps: int = 100
    repeats: int = 2

    def __post_init__(self) -> None:
        require_whole("max_cycles", self.max_cycles, least=1)
        if not 0 <= self.min_delta < math.inf:
            raise DescriptionError(f"min_delta={self.min_delta} is no least gain; use 0 or a number above it.")
        Growth(self.low, self.high, self.steps)
        require_whole("repeats", self.repeats, least=1)
        self._check_schedule()

    def _check_schedule(self) -> None:
        given: object = self.schedule
        if not callable(given):
            raise DescriptionError(f"schedule= is a {type(given).__name__}; {MAKES_CYCLES}")
        made = [given(lr) for lr in (1.0, 2.0)]
        if not isinstance(made[0], OneCycle):
            raise DescriptionError(f"schedule= made a {type(made[0]).__name__}; {MAKES_CYCLES}")
        if made[0] == made[1]:
            raise DescriptionError(f"schedule= made the same cycle of two learning rates; {MAKES_CYCLES}")

    def deciding(self) -> dict[str, Any]:
        """What a cycle that was begun depends on. How many there are to be may change from one process to the next."""
        return {name: as_setting(value) for name, value in vars(self).items() if name not in ("max_cycles", "min_delta")}

    def range_test(self, run: Rehearsal) -> RangeTest:
        """The range test before a cycle, with the momentum that the cycle has at its peak."""
        momentum = peak_momentum(self.schedule(1.0))
        return find_lr(run, low=self.low, high=self.high, steps=self.steps, repeats=self.repeats, momentum=momentum)

    def why_ended(self, cycles: Sequence[Cycle]) -> str | None:
        """Why there should be no further cycle after these; None where there should be one."""
        if not cycles:
            return None
        last = cycles[-1]
        if last.gain is None or not last.gain > self.min_delta:  # nan is no gain
            little = last.gain is not None and last.gain > 0
            said = f"{number(last.gain)}, not more than min_delta={self.min_delta:g}" if little else "nothing"
            return f"cycle {last.index + 1} gained {said}."
        return f"max_cycles={self.max_cycles} are done." if len(cycles) >= self.max_cycles else None


class CycledRun(Rehearsal, Protocol):
    """A run that can be trained a cycle at a time."""

    @property
    def total_steps(self) -> int:
        """How many updates a cycle has: the length of the run as it is described."""

    def evaluate(self) -> Mapping[str, float]:
        """The numbers of the weights as they are; written down nowhere."""


def chosen(
    run: CycledRun,
    cycles: Sequence[Cycle],
    options: CycleOptions,
    monitor: str,
    mode: Mode,
    made: int,
    keep: Callable[[dict[str, Any]], None] = lambda test: None,
) -> Cycle | str:
    """The cycle after these, by a range test from the weights as they are; or why there is none.

    Before the first cycle a range test that suggests nothing is an error. `keep` gets the record of the test.
    """
    test = options.range_test(run)
    keep(test.to_record())
    if test.suggestion is None:
        if not cycles:
            raise InstepError(f"the range test suggests no learning rate to begin with: {test.reason}")
        return f"the range test after cycle {len(cycles)} suggests no learning rate: {test.reason}"
    before = best_end(cycles, mode) if cycles else run.evaluate()[monitor]
    return Cycle(
        len(cycles),
        start=run.step,
        stop=run.step + run.total_steps,
        max_lr=test.suggestion,
        reason=test.reason,
        confidence=test.confidence,
        before=before,
        made=made,
        groups=len(run.optimizer.param_groups),
    )


def gain(before: float, after: float, mode: Mode) -> float:
    """By how much the value has improved."""
    return before - after if mode == "min" else after - before


def best_end(cycles: Sequence[Cycle], mode: Mode) -> float:
    """The best value at the end of a cycle, or before the first; nan where all are."""
    seen = [value for cycle in cycles for value in (cycle.before, cycle.after) if value is not None and not math.isnan(value)]
    return (min if mode == "min" else max)(seen, default=math.nan)
