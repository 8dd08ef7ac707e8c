"""Samples that are trained on and evaluated on, in scripts without loaders: rows of what a model gets, known by their values.

Something is concluded only where all training samples are known: epochs were seen to come again, every call of them was looked
at, and no row is there twice. What was trained on in the last epoch counts; folds of a cross-validation may share a model.
"""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.row_keys import is_rich, row_keys
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loaders, first_tensor

ROWS = 16384
LIMIT = 32
LOOKS = 64  # evaluations of a line that are looked at
EPOCH = 4  # calls of an epoch that tells anything


@dataclass(slots=True)
class Overlap:
    """Evaluations of one model from one line, after an epoch of training."""

    site: str | None
    first_step: int
    calls: int = 0
    mixed: int = 0  # of those: some of their rows are trained on, and some are not
    evaluated: int = 0  # different rows
    shared: int = 0  # of those: trained on
    trained: int = 0  # rows that are trained on


@dataclass
class Overlaps:
    """The part of the trace about them."""

    all: dict[tuple[int, str | None], Overlap] = field(default_factory=dict)


class _Training:
    """The rows that one model is trained on."""

    __slots__ = ("calls", "epoch", "known", "last")

    def __init__(self) -> None:
        self.last: dict[float, int] = {}  # row -> the last call that had it
        self.calls = 0
        self.epoch = 0  # calls before the first in which all rows came again, none before
        self.known = True

    def add(self, keys: list[float]) -> None:
        if not self.known:
            return
        again = sum(key in self.last for key in keys)
        if not self.epoch and again:
            self.epoch = self.calls
            self.known = again == len(keys) and self.epoch >= EPOCH
        self.known = self.known and len(set(keys)) == len(keys) and len(self.last) < ROWS
        self.calls += 1
        for key in keys:
            self.last[key] = self.calls

    def is_used(self, key: float) -> bool | None:
        """Whether the last epoch had that row; None near its beginning, since epochs may differ in length by a batch or two."""
        begun = self.calls - self.epoch
        call = self.last.get(key, -LIMIT)
        return None if begun - 2 < call <= begun + 2 else call > begun


class OverlapWatch:
    """Fills `Overlaps`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._loaders = trace, trace.part(Overlaps), trace.part(Loaders)
        self._models: dict[int, _Training] = {}
        self._seen: dict[tuple[int, str | None], set[float]] = {}
        self._ended = False

    def on_rest(self) -> None:
        """Calls are not heard from now on: what is trained on is not known any more."""
        self._ended = True
        self._models.clear()

    def after_call(self, call: Call) -> None:
        if self._ended or self._loaders.all or not call.root.parameters:
            return
        training = self._models.get(call.root.number)
        if training is not None and not training.known:
            return
        input = first_tensor(call.args) if call.args else first_tensor(call.kwargs)
        if input is None or input.dim() < 2 or not 2 <= len(input) <= 4096 or not is_rich(input):
            return
        number = call.root.number
        if call.grad and call.training:
            if number in self._models or len(self._models) < LIMIT:
                self._models.setdefault(number, _Training()).add(row_keys(input))
        elif not call.grad and number in self._models:
            self._evaluated(call, self._models[number], input)

    def _evaluated(self, call: Call, training: _Training, input: Tensor) -> None:
        if not training.known or training.epoch < EPOCH or training.calls < training.epoch:
            return
        key: Any = (call.root.number, call.site)
        found = self._part.all.get(key)
        if found is None:
            if len(self._part.all) >= LIMIT:
                return
            found = self._part.all[key] = Overlap(call.site, self._trace.steps)
        if found.calls >= LOOKS:
            return
        answers = {row: training.is_used(row) for row in row_keys(input)}
        rows = self._seen.setdefault(key, set())
        if len(rows) < ROWS:
            rows |= set(answers)
        used = sum(answer is True for answer in answers.values())
        others = sum(answer is False for answer in answers.values())
        found.calls += 1
        found.mixed += min(used, others) > 0.05 * len(answers)
        all = [training.is_used(row) for row in rows]
        found.evaluated, found.shared = len(all) - all.count(None), all.count(True)
        found.trained = sum(training.is_used(row) is True for row in training.last)


OBSERVERS = [OverlapWatch]
