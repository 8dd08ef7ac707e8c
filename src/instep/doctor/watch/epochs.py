"""Epochs of a script whose batches come from nowhere that we know: what comes again at equal distances, counted in steps.

People evaluate after an epoch, and call `train()` before one. Modes are told also while the doctor rests.
"""

from dataclasses import field
from itertools import pairwise
from statistics import median
from typing import Any

from torch import nn

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Pass

LEAST = 2  # steps between two boundaries
LIMIT = 4096


@part_class
class Epochs:
    """The part of the trace about epochs: steps before each evaluation, each call of train(), each end of a pass that trained."""

    evaluations: list[int] = field(default_factory=list)
    trains: list[int] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)

    def passes_between(self, since: int, until: int) -> int:
        """Passes over loaders that have ended between two steps, with steps in them."""
        return sum(since < mark <= until for mark in self.passes)

    def regular(self, steps: int, since: int = 0) -> tuple[int, float] | None:
        """(how many epochs, steps in each), from evaluations at their ends or train() at their beginnings; None where neither
        comes at equal distances, over the whole run, or the part of it between two steps."""
        ends = [mark for mark in self.evaluations if since < mark <= steps]
        begins = [*(mark for mark in self.trains if since <= mark < steps), steps]
        for marks, count in (([since, *ends], len(ends)), (begins, len(begins) - 1)):
            lengths = [b - a for a, b in pairwise(marks)]
            if count < 3 or not lengths:
                continue
            length = median(lengths)
            if max(lengths) - min(lengths) <= max(1, 0.1 * length) and count * length >= 0.8 * (steps - since):
                return count, float(length)
        return None


class EpochWatch:
    """Fills `Epochs`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace = trace
        self._part = trace.part(Epochs)

    def after_call(self, call: Call) -> None:
        if not call.grad and call.root.trained:
            self._note(self._part.evaluations)

    def after_mode(self, called: Called) -> None:
        if isinstance(called.args[0], nn.Module):
            self._note(self._part.trains if called.argument(1, "mode", True) else self._part.evaluations)

    def on_pass_ends(self, ended: Pass) -> None:
        if ended.begun_step < self._trace.steps and len(self._part.passes) < LIMIT:
            self._part.passes.append(self._trace.steps)

    def _note(self, marks: list[int]) -> None:
        steps = self._trace.steps
        beginning = marks is self._part.trains and not marks
        if (beginning or steps >= (marks[-1] if marks else 0) + LEAST) and len(marks) < LIMIT:
            marks.append(steps)


OBSERVERS: list[Any] = [EpochWatch]
