"""Samples that are trained on and evaluated on, where no loader gives the latter: rows that a model gets, known by their values.

Something is concluded only where all training samples are known: epochs were seen to come again, every call of them was looked
at, and no row is there twice. What was trained on in the last epoch counts; folds of a cross-validation may share a model.

Where training draws its samples at random, again and again, there are no epochs. A sample that is evaluated on and was drawn
before is known all the same, and so is an evaluation none of whose samples was drawn: then there is a true validation.
"""

from dataclasses import field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.row_keys import class_numbers, is_rich, is_telling, row_keys
from instep.doctor.scopes import local_names
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loaders, first_tensor
from instep.doctor.watch.rows import RowWatch

ROWS = 16384
LIMIT = 32
LOOKS = 64  # evaluations of a line that are looked at
TWICE = 2  # how often a sample was drawn, in the mean, when most have been: 6 of 7


@record_class
class Overlap:
    """Evaluations of one model from one line, after an epoch of training."""

    root: int
    site: str | None
    first_step: int
    calls: int = 0
    mixed: int = 0  # of those: some of their rows are trained on, and some are not
    evaluated: int = 0  # different rows
    shared: int = 0  # of those: trained on
    trained: int = 0  # rows that are trained on


@record_class
class Reuse:
    """Evaluations of one model in eval mode, where training draws its samples at random."""

    site: str | None
    first_step: int
    shapes: int  # of the model
    evaluations: int = 0  # that are over
    clean: int = 0  # calls hardly any of whose samples had been trained on
    blind: bool = False  # some samples could not be looked at
    given: int = 0  # samples in all evaluations
    evaluated: int = 0  # different samples
    shared: int = 0  # of those: trained on before
    trained: int = 0  # different samples that are trained on
    drawn: bool = False  # samples are trained on again and again, in no order
    labelled: int = 0  # calls whose caller has a class number for each sample at hand


@part_class
class Overlaps:
    """The part of the trace about them."""

    all: dict[tuple[int, str | None], Overlap] = field(default_factory=dict)
    drawn: dict[int, Reuse] = field(default_factory=dict)  # by the shapes of the model
    again: dict[int, float] = field(default_factory=dict)  # share of the training samples that had come before, by the same


class _Training:
    """The rows that one model is trained on."""

    __slots__ = ("again", "calls", "drawn", "epoch", "known", "last")

    def __init__(self) -> None:
        self.last: dict[float, int] = {}  # row -> the last call that had it
        self.calls = 0
        self.drawn = 0  # rows, each as often as it came
        self.again = 0  # of those: had come before
        self.epoch = 0  # calls before the first in which all rows came again, none before
        self.known = True

    def add(self, keys: list[float]) -> None:
        again = sum(key in self.last for key in keys)
        self.drawn, self.again = self.drawn + len(keys), self.again + again
        if not self.known:
            if len(self.last) < ROWS:
                self.last.update(dict.fromkeys(keys, self.calls))
            return
        if not self.epoch and again:
            self.epoch = self.calls
            self.known = self.known and again == len(keys)
        self.known = self.known and len(set(keys)) == len(keys) and len(self.last) < ROWS
        self.calls += 1
        for key in keys:
            self.last[key] = self.calls

    def is_used(self, key: float) -> bool | None:
        """Whether the last epoch had that row; None near its beginning, since epochs may differ in length by a batch or two."""
        begun = self.calls - self.epoch
        call = self.last.get(key, -LIMIT)
        return None if begun - 2 < call <= begun + 2 else call > begun


class _Evaluations:
    """The evaluations of one model, one after the other: calls between two trainings belong together."""

    __slots__ = ("fact", "given", "rows", "step")

    def __init__(self, fact: Reuse) -> None:
        self.fact = fact
        self.rows: dict[float, bool] = {}  # different rows, and whether they had been trained on
        self.step = fact.first_step
        self.given = 0  # rows of the one that goes on

    def add(self, step: int, answers: list[tuple[float, bool]]) -> None:
        if step != self.step:
            self.end()
            self.step = step
        self.given += len(answers)
        used = sum(used for _, used in answers)
        self.fact.clean += used <= 0.05 * len(answers)
        if len(self.rows) < ROWS:
            self.rows.update(answers)

    def end(self) -> None:
        """The evaluation that goes on is over."""
        fact, given = self.fact, self.given
        if given:
            fact.evaluations += 1
            fact.given += given
            fact.evaluated, fact.shared = len(self.rows), sum(self.rows.values())
        self.given = 0


class OverlapWatch:
    """Fills `Overlaps`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._loaders, self._locator = trace, trace.part(Overlaps), trace.part(Loaders), hub.locator
        self._models: dict[int, _Training] = {}
        self._shapes: dict[int, _Training] = {}  # the same by the shapes of the model: an average is evaluated in its place
        self._seen: dict[tuple[int, str | None], set[float]] = {}
        self._evaluations: dict[int, _Evaluations] = {}
        self._ended = False
        self._rows: RowWatch | None = None

    def install(self, observers: list[object]) -> None:
        self._rows = next((observer for observer in observers if isinstance(observer, RowWatch)), None)

    def remove(self) -> None: ...

    def on_rest(self) -> None:
        """Calls are not heard from now on: what is trained on is not known any more. What was, has been."""
        self._ended = True
        self._models.clear()

    def on_judge(self) -> None:
        for shapes, training in self._shapes.items():
            self._part.again[shapes] = training.again / max(training.drawn, 1)
        for evaluations in self._evaluations.values():
            if evaluations.step < self._trace.steps or self._trace.ended:
                evaluations.end()
            training = self._shapes[evaluations.fact.shapes]
            evaluations.fact.trained, evaluations.fact.drawn = len(training.last), not training.known

    def after_call(self, call: Call) -> None:
        if not call.root.parameters or (self._ended and call.grad):
            return
        by_loader = call.batch is not None and not call.batch.ended
        if self._loaders.feeds(self._trace.backwards):
            if not call.grad and not call.training and not by_loader and not self._ended:
                self._evaluated_beside(call)
            return
        if by_loader and not call.grad:
            return  # what a loader gives to evaluate on is known by its own rows
        input = first_tensor(call.args) if call.args else first_tensor(call.kwargs)
        is_known = input is not None and input.dim() >= 2 and 2 <= len(input) <= 4096 and is_rich(input)
        if not call.grad and not call.training and call.root.shapes in self._shapes:
            self._note_evaluation(call, input if is_known else None)
        # Words that are drawn by chance may be drawn twice; those of an epoch come once.
        if self._ended or input is None or not (is_known or (is_telling(input) and 2 <= len(input) <= 4096)):
            return
        number = call.root.number
        if call.grad and call.training:
            if number in self._models or len(self._models) < LIMIT:
                training = self._models.setdefault(number, _Training())
                self._shapes[call.root.shapes] = training
                training.add(row_keys(input))
        elif not call.grad and number in self._models:
            self._evaluated(call, self._models[number], input)

    def _note_evaluation(self, call: Call, input: Tensor | None) -> None:
        shapes = call.root.shapes
        training = self._shapes[shapes]
        if training.known or training.drawn < TWICE * len(training.last):
            return  # in epochs, of which more is known; or what is trained on has hardly been seen yet
        evaluations = self._evaluations.get(shapes)
        if evaluations is None:
            fact = self._part.drawn[shapes] = Reuse(call.site, self._trace.steps, shapes)
            evaluations = self._evaluations[shapes] = _Evaluations(fact)
        if input is None:
            evaluations.fact.blind = True
        else:
            evaluations.fact.labelled += evaluations.fact.evaluations < 4 and has_labels(self._locator, input)
            evaluations.add(self._trace.steps, [(key, key in training.last) for key in row_keys(input)])

    def _evaluated_beside(self, call: Call) -> None:
        """An evaluation on tensors, where a loader gives what is trained on: its rows are known from the calls."""
        order = self._rows.order(call.root.number) if self._rows is not None else None
        input = first_tensor(call.args) if call.args else first_tensor(call.kwargs)
        if order is None or not order.epoch or input is None or input.dim() < 2 or not 2 <= len(input) <= 4096:
            return
        if is_rich(input):
            training = _Training()
            training.last = {key: at for key, (at, _) in order.places.items()}
            training.epoch, training.calls = order.epoch, order.calls
            self._evaluated(call, training, input)

    def _evaluated(self, call: Call, training: _Training, input: Tensor) -> None:
        if not training.known or training.epoch < 4 or training.calls < training.epoch:
            return
        key: Any = (call.root.number, call.site)
        found = self._part.all.get(key)
        if found is None:
            if len(self._part.all) >= LIMIT:
                return
            found = self._part.all[key] = Overlap(call.root.number, call.site, self._trace.steps)
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


def has_labels(locator: Locator, input: Tensor) -> bool:
    """Whether the function that calls a model has a class number for each sample at hand: it is an evaluation then."""
    caller = next((frame for frame in locator.frames() if locator.is_users(frame.f_code.co_filename)), None)
    if caller is None or caller.f_code.co_name == "<module>":
        return False  # where all names of a script are
    held = [value for value in local_names(caller).values() if isinstance(value, Tensor) and value.dim() in (1, 2)]
    found = [classes for each in held if len(each) == len(input) and (classes := class_numbers(each)) is not None]
    return any(1 < len(classes.unique()) <= max(2, len(classes) // 4) for classes in found)


OBSERVERS = [OverlapWatch]
