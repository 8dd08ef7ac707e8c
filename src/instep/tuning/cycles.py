"""Cycles: a range test, one cycle at what it found, and again from the weights that were reached, until that no longer pays.

Owns when to go on and what is written down of each cycle. How a cycle is trained is the run's business (`CycledRun`). All of it
is a function of what is recorded and of where the run stands: cut off anywhere, also within a range test, it goes on bit for bit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from instep.errors import DescriptionError, InstepError
from instep.report.numbers import number, rate
from instep.report.table import columns, wrapped
from instep.schedules.one_cycle import OneCycle
from instep.sizes import require_whole
from instep.tuning.range_test import RangeTest, find_lr
from instep.tuning.rehearsal import Rehearsal
from instep.tuning.sweep import peak_momentum

Mode = Literal["min", "max"]


@dataclass(frozen=True)
class Cycle:
    """One cycle: what was chosen for it, and what it brought. `after` and `gain` are None while it is being trained."""

    index: int
    start: int  # its first step
    stop: int  # one past its last
    max_lr: float
    reason: str  # for this max_lr
    confidence: float
    before: float  # the best that the monitor had seen when it began
    after: float | None = None
    gain: float | None = None  # above 0 where it is an improvement, whichever way that is

    def to_json(self) -> dict[str, Any]:
        """As a checkpoint and the history keep it; `Cycle(**…)` is the way back."""
        return asdict(self)


class CycledRun(Rehearsal, Protocol):
    """A run that can be trained a cycle at a time."""

    @property
    def total_steps(self) -> int:
        """How many updates a cycle has: the length of the run as it is described."""

    @property
    def monitor_mode(self) -> Mode | None:
        """Which way the monitored value improves; None where nothing is evaluated."""

    @property
    def cycles(self) -> Sequence[Mapping[str, Any]]:
        """What `record_cycle` was given so far, in this process and in those before it, one of each index."""

    def monitored(self) -> float:
        """The monitored value of the weights as they are, by an evaluation that is written down nowhere."""

    def record_cycle(self, cycle: Mapping[str, Any]) -> None:
        """Keep this in the history and in every checkpoint from now on, in place of an earlier one of the same index."""

    def run_cycle(self, schedule: OneCycle, *, start: int, stop: int) -> None:
        """Train from where the run stands to `stop`; the schedule's position 0 is the update at `start`, its end `stop`."""


@dataclass(frozen=True)
class Cycles:
    """All cycles of a run, and why there was no further one."""

    cycles: tuple[Cycle, ...]
    ended: str

    @property
    def best(self) -> Cycle | None:
        """The last cycle that improved anything."""
        return next((cycle for cycle in reversed(self.cycles) if cycle.gain is not None and cycle.gain > 0), None)

    def __str__(self) -> str:
        rows = [
            (str(c.index + 1), f"{c.start:,} to {c.stop:,}", rate(c.max_lr), number(c.before), number(c.after), number(c.gain))
            for c in self.cycles
        ]
        table = columns(("cycle", "steps", "max_lr", "before", "after", "gain"), rows)
        return "\n".join([*table, *wrapped(self.ended, 80)])


def fit_cycles(
    run: CycledRun,
    *,
    max_cycles: int = 8,
    min_delta: float = 0.0,
    schedule: Callable[[float], OneCycle] = OneCycle,
    low: float = 1e-7,
    high: float = 10.0,
    steps: int = 100,
    repeats: int = 2,
) -> Cycles:
    """Train in cycles, each as long as the run is described, until one improves the monitor by no more than `min_delta`.

    `schedule` makes a cycle from the learning rate that the range test suggests; `low`, `high`, `steps` and `repeats` are for
    `find_lr`. A range test that suggests nothing ends it too; before the first cycle that is an error.
    """
    require_whole("max_cycles", max_cycles, least=1)
    mode = run.monitor_mode
    if mode is None:
        raise DescriptionError("fit_cycles() goes by the monitored value, so it needs evaluations; pass valid= to the Trainer.")
    if not 0 <= min_delta < math.inf:
        raise DescriptionError(f"min_delta={min_delta} is no least gain; use 0 or a number above it.")
    momentum = peak_momentum(schedule(1.0))

    def test() -> RangeTest:
        return find_lr(run, low=low, high=high, steps=steps, repeats=repeats, momentum=momentum)

    while True:
        cycles = recorded(run)
        current = cycles[-1] if cycles and cycles[-1].after is None else None
        if current is None:
            ended = why_ended(cycles, max_cycles, min_delta)
            chosen = ended if ended is not None else _chosen(run, cycles, mode, test)
            if isinstance(chosen, str):
                return Cycles(cycles, chosen)
            current = chosen
            run.record_cycle(current.to_json())
        run.run_cycle(schedule(current.max_lr), start=current.start, stop=current.stop)
        after = run.monitored()
        run.record_cycle(replace(current, after=after, gain=gain(current.before, after, mode)).to_json())


def recorded(run: CycledRun) -> tuple[Cycle, ...]:
    return tuple(Cycle(**cycle) for cycle in run.cycles)


def gain(before: float, after: float, mode: Mode) -> float:
    """By how much the value has improved."""
    return before - after if mode == "min" else after - before


def why_ended(cycles: Sequence[Cycle], max_cycles: int, min_delta: float) -> str | None:
    """Why there should be no further cycle after these; None where there should be one."""
    if not cycles:
        return None
    last = cycles[-1]
    if last.gain is None or not last.gain > min_delta:  # nan is no gain
        said = (
            "nothing" if last.gain is None or not last.gain > 0 else f"{number(last.gain)}, not more than min_delta={min_delta:g}"
        )
        return f"cycle {last.index + 1} gained {said}."
    return f"max_cycles={max_cycles} are done." if len(cycles) >= max_cycles else None


def _chosen(run: CycledRun, cycles: Sequence[Cycle], mode: Mode, range_test: Callable[[], RangeTest]) -> Cycle | str:
    """The next cycle, by a range test from the weights as they are; or why there is none."""
    test = range_test()
    if test.suggestion is None:
        if not cycles:
            raise InstepError(f"the range test suggests no learning rate to begin with: {test.reason}")
        return f"the range test after cycle {len(cycles)} suggests no learning rate: {test.reason}"
    index, length = len(cycles), run.total_steps
    start = cycles[-1].stop if cycles else run.step
    return Cycle(index, start, start + length, test.suggestion, test.reason, test.confidence, _best(run, cycles, mode))


def _best(run: CycledRun, cycles: Sequence[Cycle], mode: Mode) -> float:
    """The best value at the end of a cycle so far; before the first, that of the weights as they are."""
    if not cycles:
        return run.monitored()
    seen = [value for cycle in cycles for value in (cycle.before, cycle.after) if value is not None and not math.isnan(value)]
    return (min if mode == "min" else max)(seen, default=math.nan)
