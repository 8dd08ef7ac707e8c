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

LEAST = 2  # steps between two boundaries
LIMIT = 4096


@part_class
class Epochs:
    """The part of the trace about epochs: steps before each evaluation and before each call of train()."""

    evaluations: list[int] = field(default_factory=list)
    trains: list[int] = field(default_factory=list)

    def regular(self, steps: int) -> tuple[int, float] | None:
        """(how many epochs, steps in each), from evaluations at their ends or train() at their beginnings; None where neither
        comes at equal distances, over the whole run."""
        ends, begins = self.evaluations, [*self.trains, steps]
        for marks, count in (([0, *ends], len(ends)), (begins, len(begins) - 1)):
            lengths = [b - a for a, b in pairwise(marks)]
            if count < 3 or not lengths:
                continue
            length = median(lengths)
            if max(lengths) - min(lengths) <= max(1, 0.1 * length) and count * length >= 0.8 * steps:
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

    def _note(self, marks: list[int]) -> None:
        steps = self._trace.steps
        beginning = marks is self._part.trains and not marks
        if (beginning or steps >= (marks[-1] if marks else 0) + LEAST) and len(marks) < LIMIT:
            marks.append(steps)


OBSERVERS: list[Any] = [EpochWatch]
