"""Phases: a script that goes on with something new begins another part, where other things may be wrong.

A new loader or optimizer, one that steps for the first time, weights that are loaded, other parameters or another precision in an
optimizer, a new line that backwards come from or that calls the function which they are in, another number of backwards for each
step, parameters that a model in training gets, a model in the place of another. Watchers that look at the first calls of a line
look again then, and rules judge what was counted since by itself: what was right in the first phase says nothing of the second.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, TypeVar

import torch
from torch import nn

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class
from instep.doctor.tallies import Tally, noted, since
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Calls, Root
from instep.doctor.watch.loaders import Pass
from instep.doctor.watch.optimizers import Step

MOST = 64
LONG = 16  # steps of a phase that is judged by itself
JUDGED = 24  # phases that are
LIMIT = 256
STEADY = 3  # steps in a row with another number of backwards
SUCCESSORS = 4  # models in the place of others that begin a phase: some scripts copy one for every step

T = TypeVar("T", bound=Tally)


@part_class
class Phases:
    """The part of the trace about phases."""

    number: int = 0
    step: int = 0  # steps before this one
    backwards: int = 0  # backwards before it
    began: list[int] = field(default_factory=lambda: [0])  # steps before each phase that is judged by itself
    notes: list[dict[int, Tally]] = field(default_factory=lambda: [{}])  # the tallies at those steps, by id
    over: dict[int, dict[int, Any]] = field(default_factory=dict)  # phase that is over -> what its tallies have counted, by id
    counted: dict[int, Any] | None = None  # during a judgement: what tallies have counted in the phase that goes on, by id


class Window:
    """One phase, or the whole run."""

    def __init__(
        self,
        step: int = 0,
        before: dict[int, Tally] | None = None,
        counted: dict[int, Any] | None = None,
        so_far: dict[int, Any] | None = None,
    ) -> None:
        self._step, self._before, self._counted = step, before, counted
        self._so_far = so_far  # what is known of the phase that goes on: several rules ask for the same tallies

    def of(self, tally: T | None) -> T | None:
        """What a tally has counted in that phase; None where it was nothing."""
        if self._counted is not None:
            return self._counted.get(id(tally))
        if self._before is None or tally is None:
            return tally
        before: Any = self._before.get(id(tally))
        if self._so_far is None or before is None:
            return since(tally, before, self._step)
        if id(tally) not in self._so_far:
            self._so_far[id(tally)] = since(tally, before, self._step)
        found: T | None = self._so_far[id(tally)]
        return found


def windows(trace: Trace) -> Iterator[Window]:
    """Every phase that is long enough, where there are several, and the whole run: the last one has the last word."""
    part = trace.part(Phases)
    ends = [*part.began[1:], trace.steps]
    for number, (begin, end) in enumerate(zip(part.began, ends, strict=True)):
        if len(ends) > 1 and end - begin >= LONG:
            over = number + 1 < len(ends)
            yield Window(begin, part.notes[number], _counted(part, number) if over else None, part.counted)
    yield Window()


def _counted(part: Phases, number: int) -> dict[int, Any]:
    """What was counted in a phase that is over."""
    if number not in part.over:
        before, step = part.notes[number], part.began[number]
        part.over[number] = {key: since(tally, before.get(key), step) for key, tally in part.notes[number + 1].items()}
    return part.over[number]


def by_phase(trace: Trace, tallies: Iterable[T]) -> Iterator[T]:
    """Tallies of each phase by itself, and of the whole run."""
    known = list(tallies)
    for window in windows(trace):
        yield from (found for tally in known if (found := window.of(tally)) is not None)


class PhaseWatch:
    """Fills `Phases`. Tells `on_phase()` where other things are trained than before."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part, self._trace, self._hub = trace.part(Phases), trace, hub
        self._calls, self._successors = trace.part(Calls), 0
        self._trained: dict[int, set[tuple[Any, ...]]] = {}  # optimizer -> what it was seen to train
        self._lines: set[tuple[str, ...]] = set()  # of backwards, and of what called them
        self._last: dict[int, int] = {}  # optimizer -> backwards begun at its last step
        self._sizes: dict[int, tuple[int, int, int]] = {}  # optimizer -> backwards for a step, another number of late, how often

    def on_wake(self) -> None:
        self._last.clear()

    def on_pass_begins(self, begun: Pass, _: Any) -> None:
        if begun.number == 1:
            self._begin()

    def on_optimizer(self, *_: Any) -> None:
        self._begin()

    def after_optimizer_load(self, _: Called) -> None:
        self._begin()

    def after_state_loaded(self, _: Called) -> None:
        self._begin()

    def on_grown(self, _: Any) -> None:
        if self._begin():
            self._hub.say("on_phase")

    def on_root_seen(self, module: nn.Module, root: Root) -> None:
        """A model in the place of one that was trained: a copy of the best one, perhaps, that the optimizer does not know."""
        if not root.parameters or not module.training or not torch.is_grad_enabled() or self._successors >= SUCCESSORS:
            return
        if any(other.trained and other.shapes == root.shapes for other in self._calls.roots) and self._begin():
            self._successors += 1
            self._hub.say("on_phase")

    def on_backward(self, backward: Backward, _: Any) -> None:
        if backward.lines not in self._lines and len(self._lines) < LIMIT:
            self._lines.add(backward.lines)
            self._begin()

    def before_step(self, step: Step) -> None:
        """Parameters that were added, replaced, frozen or thawed, or cast to another precision."""
        if step.fact is None or step.inside:
            return
        self._note_size(step)
        keys, groups = step.record.parameters, step.optimizer.param_groups
        first = groups[0]["params"][0] if groups and groups[0]["params"] else None
        trained = (step.fact.parameters, len(keys), keys[:1], keys[-1:], getattr(first, "dtype", None))
        known = self._trained.get(step.record.number)
        if known is None:
            if len(self._trained) < LIMIT:
                self._trained[step.record.number] = {trained}
                self._begin()
        elif trained not in known and len(known) < 16:
            known.add(trained)
            if self._begin():
                self._hub.say("on_phase")

    def _note_size(self, step: Step) -> None:
        """Begin a phase where steps have come to take another number of backwards: accumulation that sets in."""
        number, before = step.record.number, self._last.get(step.record.number)
        if len(self._last) < LIMIT or before is not None:
            self._last[number] = self._trace.backwards
        if before is None:
            return
        size = self._trace.backwards - before
        usual, other, times = self._sizes.get(number, (size, size, 0))
        times = times + 1 if size == other else 1
        if size != usual and times == STEADY:
            usual = size
            if self._begin():
                self._hub.say("on_phase")
        self._sizes[number] = (usual, size, times)

    def _begin(self) -> bool:
        """Not before anything was trained, and not twice at one step."""
        steps, part = self._trace.steps, self._part
        if steps <= part.step or part.number >= MOST:
            return False
        part.number += 1
        part.step, part.backwards = steps, self._trace.backwards
        if steps - part.began[-1] >= LONG and len(part.began) < JUDGED:
            part.began.append(steps)
            part.notes.append({id(tally): noted(tally) for tally in self._trace.tallies()})
        return True


OBSERVERS = [PhaseWatch]
