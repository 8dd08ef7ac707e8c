"""A profile: where the time and the memory of an update go, and what would make it faster on this machine.

Real updates of the run are made, and everything is put back. Times by phase come from a clock alone; the profiler, which makes
small operators slower than they are, says only which operators are the heaviest.
"""

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.optim import Optimizer

from instep.errors import DescriptionError, Notice
from instep.records import Update
from instep.run.run import Run
from instep.tuning.advice import Advice, Entrant, Idea, NotMeasured, ideas_for, judge
from instep.tuning.comparison import Timing, Way, enough_updates, take_turns
from instep.tuning.operators import Memory, Operator, memory_of, record
from instep.tuning.phases import DATA, PhaseClock, clocked_updates
from instep.tuning.snapshot import untouched

WARM_UP = 3
SHOWN = 10  # operators
PROFILED = 20  # updates under the profiler, at most: a trace of many is too large to look at
MOST_UPDATES = 400  # of each way that takes turns
FOREVER = 10**9  # updates


class Bare(Protocol):
    """A Trainer of the same run for nothing but updates."""

    run: Run

    def updates(self) -> Generator[Update]: ...


MakeBare = Callable[..., Bare]  # takes the number of updates, and what changes of the Trainer's arguments


@dataclass(frozen=True)
class Profile:
    """What was measured; times are seconds of one update. `tuning.profile_text` puts it into words."""

    batch_size: int
    threads: int
    device: str
    updates: int
    total_steps: int
    timing: Timing  # of the run as it is
    shares: Mapping[str, float]  # of an update, by phase
    operators: tuple[Operator, ...]
    operators_s: float  # all of them together, under the profiler
    memory: Memory
    noise: float | None
    advice: tuple[Advice, ...]  # everything that was measured, the best first
    not_measured: tuple[NotMeasured, ...]
    trace: Path | None

    @property
    def update_s(self) -> float:
        return self.timing.median_s

    def as_json(self) -> dict[str, Any]:
        """Everything, in JSON's types."""
        told = asdict(self) | {"trace": None if self.trace is None else str(self.trace), "update_s": self.update_s}
        told["advice"] = [asdict(one) | {"is_advised": one.is_advised} for one in self.advice]
        return told


def profile(
    run: Run,
    make: MakeBare,
    *,
    updates: int | None = None,
    trace: Path | None = None,
    compile: bool = True,
    advice: bool = True,
) -> Profile:
    """Measure some updates of a run, where their time goes, and what would make them faster. Everything is put back."""
    if run.processes.are_several or run.processes.are_sharded:
        raise DescriptionError("a profile is made of one process; call it without torchrun.")
    with _quiet(), untouched(run.model, run.steppers[0].optimizer, *run.stateful):
        device = run.device
        with closing(make(FOREVER).updates()) as plain:
            count = min(MOST_UPDATES, enough_updates(plain, device)) if updates is None else updates
        shares = _shares(make, device, count)
        with closing(clocked_updates(make(FOREVER).run, PhaseClock(device))) as recorded:
            for _ in range(WARM_UP):
                next(recorded)
            seen = record(recorded, min(count, PROFILED), run.model, device, trace)
            memory = memory_of(run.model, _optimizers(run), seen.activations, device)
        ideas = ideas_for(run, shares[DATA], compile=compile) if advice else []
        timings, failed = _timed(make, ideas, device, count, with_noise=advice)
        base, again = timings["base"], timings.get("again")
        tried = {idea: timings[idea.name] for idea in ideas if idea.name in timings}
        judged = [] if again is None else judge(base, again, tried)
    return Profile(
        batch_size=run.batch_size,
        threads=torch.get_num_threads(),
        device=str(device),
        updates=count,
        total_steps=run.total_steps,
        timing=base,
        shares=shares,
        operators=seen.operators[:SHOWN],
        operators_s=seen.operators_s,
        memory=memory,
        noise=judged[0].noise if judged else None,
        advice=tuple(judged),
        not_measured=tuple(failed),
        trace=trace,
    )


def _shares(make: MakeBare, device: torch.device, count: int) -> dict[str, float]:
    """How an update is spent, by phase."""
    clock = PhaseClock(device)
    with closing(clocked_updates(make(FOREVER).run, clock)) as updates:
        for _ in range(WARM_UP):
            next(updates)
        clock.forget()
        for _ in range(count):
            next(updates)
        return clock.shares()


def _timed(
    make: MakeBare, ideas: list[Idea], device: torch.device, count: int, *, with_noise: bool
) -> tuple[dict[str, Timing], list[NotMeasured]]:
    """The run as it is, once more where noise is asked for, and with each idea, taking turns."""
    ways: dict[str, Way] = {}
    failed: list[NotMeasured] = []
    with ExitStack() as open_loops:
        for name in ("base", "again") if with_noise else ("base",):
            ways[name] = Way(open_loops.enter_context(closing(make(FOREVER).updates())), device)
        for idea in ideas:
            try:
                updates = open_loops.enter_context(closing(make(FOREVER, **idea.changes()).updates()))
                ways[idea.name] = Entrant(updates, device, idea.ahead)
            except Exception as error:  # of whichever compiler, or of data that cannot go to a worker
                failed.append(NotMeasured(idea.to_type, _first_line(error)))
        take_turns(list(ways.values()), count)
    return {name: way.timing() for name, way in ways.items()}, failed


def _optimizers(run: Run) -> list[Optimizer]:
    return [stepper.optimizer for stepper in run.steppers]


@contextmanager
def _quiet() -> Generator[None]:
    """Without the notices of Trainers that are made only to be measured; the user's was heard when it was built."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        yield


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
