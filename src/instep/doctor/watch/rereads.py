"""Evaluations without a loader that read the same samples again, and whether they are the same then.

Samples are known to be the same by their class numbers, all of them in the same order, and by their likeness: data that are made
anew for each evaluation, in a fixed order of classes, are no likelier at their own place than at another. Left alone: models
whose input another model gives, several calls for one loss (test-time augmentation), training that reads the same twice.
"""

from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.likeness import likeness
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.row_keys import class_numbers, is_rich
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Calls
from instep.doctor.watch.loaders import Loaders, first_tensor
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.rows import CALLS, RowWatch

MODELS = 8
PAIRS = 4  # of evaluations that are compared
SAMPLES = 128  # of an evaluation
LARGEST = 1 << 14  # numbers in a sample


@record_class
class Reread:
    """Evaluations of one model, each compared with the one before."""

    site: str | None
    first_step: int
    shapes: int  # of the model
    pairs: int = 0  # that had the same class numbers
    same: int = 0  # of those: and the same samples, or nearly all of them
    likeness: float = 0.0  # sum over the others, in standard errors: that samples are like what stood there before
    compared: int = 0  # of those, how many could be
    in_place: float = 0.0  # sum of their correlations with what stood there before, number by number
    again: float | None = None  # where loaders give what is trained on: share of the samples that had come before, as they were
    samples: int = 0


@part_class
class Rereads:
    """The part of the trace about them."""

    all: dict[int, Reread] = field(default_factory=dict)  # by the shapes of the model


class _Evaluation:
    """What one evaluation has read so far."""

    __slots__ = ("count", "excluded", "labels", "samples", "step", "waiting")

    def __init__(self, step: int) -> None:
        self.step = step
        self.samples: list[Tensor] = []
        self.labels: list[Tensor] = []
        self.count = 0
        self.waiting = 0  # samples of the last call, until a loss says what they are
        self.excluded = False


class RereadWatch:
    """Fills `Rereads`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._loaders = trace, trace.part(Rereads), trace.part(Loaders)
        self._calls = trace.part(Calls)
        self._rows: RowWatch | None = None
        self._trained: set[int] = set()  # shapes of models that are trained
        self._learned: set[int] = set()  # … whose input has a graph
        self._current: dict[int, _Evaluation] = {}
        self._last: dict[int, _Evaluation] = {}
        self._computed = -1  # the step at which something else was called, as an encoder whose features a probe is given

    def after_call(self, call: Call) -> None:
        shapes = call.root.shapes
        if not call.root.parameters or (self._loaders.all and not self._loaders.is_training()):
            return
        if call.grad:
            self._note_training(call, shapes)
        elif shapes not in self._trained:
            self._computed = call.step
        elif not call.training:
            self._note_evaluation(call, shapes)

    def _note_training(self, call: Call, shapes: int) -> None:
        if call.training and (shapes in self._trained or len(self._trained) < MODELS):
            self._trained.add(shapes)
            input = first_tensor(call.args)
            if input is not None and input.requires_grad:
                self._learned.add(shapes)

    def _note_evaluation(self, call: Call, shapes: int) -> None:
        fact = self._part.all.get(shapes)
        if fact is None:
            fact = self._part.all[shapes] = Reread(call.site, self._trace.steps, shapes)
        if fact.pairs >= PAIRS:
            self._current.pop(shapes, None)
            self._last.pop(shapes, None)
            return
        evaluation = self._current.get(shapes)
        if evaluation is None or evaluation.step != call.step:
            self._end(shapes)
            evaluation = self._current[shapes] = _Evaluation(call.step)
        input = first_tensor(call.args)
        others = any(other.step == call.step for key, other in self._current.items() if key != shapes)
        others = others or self._computed == call.step
        excluded = evaluation.waiting or others or shapes in self._learned or len(call.args) != 1
        if excluded or input is None or not _is_readable(input):
            evaluation.excluded = True
        elif not evaluation.excluded and evaluation.count < SAMPLES:
            evaluation.samples.append(input.detach()[: SAMPLES - evaluation.count].float().clone())
            evaluation.waiting = len(input)

    def on_loss(self, kind: LossKind, _: Called, input: Tensor, target: Any) -> None:
        if not input.requires_grad and isinstance(target, Tensor):
            self._note_target(target)

    def on_scored(self, right: Tensor) -> None:
        """An evaluation that only counts what is right."""
        self._note_target(right)

    def _note_target(self, target: Tensor) -> None:
        for evaluation in self._current.values():
            if evaluation.step != self._trace.steps or not evaluation.waiting:
                continue
            classes = _classes(target, evaluation.waiting)
            evaluation.waiting = 0
            if classes is not None:
                evaluation.labels.append(classes[: len(evaluation.samples[-1])].clone())
                evaluation.count += len(evaluation.labels[-1])
            else:
                evaluation.excluded = True

    def install(self, observers: list[object]) -> None:
        self._rows = next((observer for observer in observers if isinstance(observer, RowWatch)), None)

    def remove(self) -> None: ...

    def on_judge(self) -> None:
        for fact in self._part.all.values() if self._loaders.all else ():
            fact.again = self._share_again(fact.shapes)
        for shapes, evaluation in list(self._current.items()):
            if evaluation.step < self._trace.steps or self._trace.ended:
                self._end(shapes)

    def _share_again(self, shapes: int) -> float:
        """How many of the samples trained on had come before; all, where not two passes were seen from their first batch on."""
        feeding = [loader for loader in self._loaders.all if loader.trained]
        if self._rows is None or any(
            not loader.length or loader.length > CALLS // 2 or loader.full_passes < 2 for loader in feeding
        ):
            return 1.0
        roots = [root.number for root in self._calls.roots if root.shapes == shapes]
        orders = [order for number in roots if (order := self._rows.seen(number)) is not None and order.given]
        return max((order.again / order.given for order in orders), default=1.0)

    def _end(self, shapes: int) -> None:
        """An evaluation is over: compare it with the one before."""
        evaluation, last = self._current.pop(shapes, None), self._last.get(shapes)
        if evaluation is None:
            return
        if evaluation.excluded or evaluation.waiting or not evaluation.samples:
            self._last.pop(shapes, None)
            return
        self._last[shapes] = evaluation
        if last is not None and last.step < evaluation.step and _are_equal(last.labels, evaluation.labels):
            self._compare(self._part.all[shapes], last, evaluation)
        if self._part.all[shapes].pairs >= PAIRS:
            self._last.pop(shapes, None)  # nothing is compared any more

    def _compare(self, fact: Reread, last: _Evaluation, evaluation: _Evaluation) -> None:
        if [one.shape for one in last.samples] != [one.shape for one in evaluation.samples] or not _fit(evaluation.samples):
            return
        before, after = torch.cat(last.samples), torch.cat(evaluation.samples)
        changed = [(one != other).flatten(1).any(1).float() for one, other in zip(last.samples, evaluation.samples, strict=True)]
        fact.pairs += 1
        fact.samples = len(after)
        if float(torch.cat(changed).mean()) < 0.2 or any(float(each.mean()) < 0.05 for each in changed):
            fact.same += 1  # or some of the calls: there is an evaluation as it should be, beside another one
            return
        found = likeness(before, after, torch.cat(evaluation.labels))
        if found is not None:
            fact.compared += 1
            fact.likeness += found
            fact.in_place += _correlation(before, after)


def _correlation(before: Tensor, after: Tensor) -> float:
    """High where values changed and their arrangement did not: noise, which may be what the task is about."""
    one, other = before.flatten(1), after.flatten(1)
    one, other = one - one.mean(0), other - other.mean(0)
    norm = float(one.norm() * other.norm())
    return float((one * other).sum()) / norm if norm else 0.0


def _classes(target: Tensor, samples: int) -> Tensor | None:
    classes = class_numbers(target)
    return classes if classes is not None and len(classes) == samples else None


def _is_readable(input: Tensor) -> bool:
    return 2 <= input.dim() <= 4 and 2 <= len(input) <= 4096 and input[0].numel() <= LARGEST and is_rich(input)


def _fit(samples: list[Tensor]) -> bool:
    """Whether all batches have samples of one shape."""
    return len({tuple(one.shape[1:]) for one in samples}) == 1


def _are_equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


OBSERVERS = [RereadWatch]
