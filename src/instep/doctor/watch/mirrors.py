"""Mirrors: a loss that compares what a model gives with what the same model gives, without gradient, for the same input.

A teacher that is meant to stand still, or to follow slowly, gives something else after the first steps. Where both are always
equal, the teacher is the student, by whatever name, and the term is zero. Dropout or another view of the data makes them differ:
that is a consistency loss.
"""

from collections import deque
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.loss_terms import operation, saved
from instep.doctor.patches import Called
from instep.doctor.positions import LAYERS, NODES, residuals
from instep.doctor.records import part_class, record_class
from instep.doctor.row_keys import glimpse
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import first_tensor
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.phases import Phases

FUNCTIONS = ("kl_div", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy")
LIMIT = 64
RUN = 3  # steps in a row after which it is looked at any closer
LOOKS = 48  # calls of a line in a phase that are looked at
LARGEST = 1 << 16  # numbers in a target
CLOSE = 1e-5  # of the spread of the target: rounding
TEMPERATURES = (1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0)  # that people use


@record_class
class Mirror:
    """Calls of one loss from one line in one phase, in steps in which a model was called with and without gradient."""

    function: str
    site: str | None
    first_step: int
    model: str
    parameters: int
    called_at: str | None  # the line of the call without gradient
    looked: int = 0
    equal: int = 0  # of those: prediction and target are the same numbers
    steps: int = 0  # optimizer steps over which those were
    last_step: int = 0


@part_class
class Mirrors:
    """The part of the trace about mirrors."""

    all: dict[tuple[str, str | None, int], Mirror] = field(default_factory=dict)  # by function, line and phase


class MirrorWatch:
    """Fills `Mirrors`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(Mirrors), trace.part(Phases)
        # root calls of late: root, step, with gradient, a few numbers of the input, name, parameters, line
        self._calls: deque[tuple[int, int, bool, tuple[float, ...], str, int, str | None]] = deque(maxlen=8)
        # the last output with gradient and the last without: root, a few numbers of the input, output, (model, parameters, line)
        self._outputs: dict[bool, tuple[int, tuple[float, ...], Tensor, tuple[str, int, str | None]]] = {}
        self._judged = -1  # the step in which a loss of torch's has been looked at
        self._run = self._last = 0  # steps in a row in which a root was called in both ways, and the last of them

    def on_wake(self) -> None:
        self._calls.clear()

    def after_call(self, call: Call) -> None:
        """An evaluation now and then calls a model in both ways between two steps too; a teacher does so in every step."""
        root = call.root
        if not root.parameters or root.is_loss:
            return
        opposite = any(each[0] == root.number and each[1] == call.step and each[2] != call.grad for each in self._calls)
        if opposite and call.step != self._last:
            self._run, self._last = self._run + 1 if call.step == self._last + 1 else 1, call.step
        input = first_tensor(call.args) if call.args else first_tensor(call.kwargs)
        seen = glimpse(input) if self._run >= RUN and input is not None else ()
        self._calls.append((root.number, call.step, call.grad, seen, root.name, root.parameters, call.site))

        output = first_tensor(call.output)
        if seen and output is not None and output.is_floating_point() and 2 <= output.numel() <= LARGEST and output.is_cpu:
            self._outputs[call.grad] = (root.number, seen, output.detach().clone(), (root.name, root.parameters, call.site))

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        """A loss by hand: what it squares is zero, or one of its factors is what the model itself gives."""
        student, teacher = self._outputs.pop(True, None), self._outputs.pop(False, None)
        if student is None or teacher is None or student[:2] != teacher[:2] or self._judged == self._trace.steps:
            return
        given, other = student[2], teacher[2]
        if tensor.grad_fn is None or given.dim() < 2 or given.shape != other.shape or not float(other.std()) > 1e-4:
            return
        mirror = self._mirror("a loss by hand", backward.site, teacher[3])
        if mirror.looked < LOOKS:
            equal = bool((given - other).abs().max() <= CLOSE * max(float(other.std()), 1e-2))
            mirror.looked += 1
            mirror.equal += equal and (_squares_nothing(tensor.grad_fn, other) or _is_own_target(tensor.grad_fn, other))
            mirror.steps += self._trace.steps > mirror.last_step
            mirror.last_step = self._trace.steps

    def on_loss(self, kind: LossKind, called: Called, input: Tensor, target: Any) -> None:
        if self._run < RUN or kind.function not in FUNCTIONS or not isinstance(target, Tensor):
            return
        if not input.requires_grad or target.requires_grad or not target.is_floating_point() or input.shape != target.shape:
            return
        pair = self._pair()
        if pair is None or not 2 <= target.numel() <= LARGEST or target.device.type != "cpu":
            return
        mirror = self._mirror(kind.function, kind.site, pair)
        self._judged = self._trace.steps
        if mirror.looked < LOOKS:
            self._look(mirror, _prediction(kind.function, called, input.detach()), target.detach())

    def _pair(self) -> tuple[str, int, str | None] | None:
        """(model, parameters, line) of a call without gradient since the last step, if the model got the same with gradient."""
        step = self._trace.steps
        taught = {(number, seen) for number, at, grad, seen, *_ in self._calls if grad and at == step and seen}
        for number, at, grad, seen, name, parameters, site in self._calls:
            if not grad and at == step and (number, seen) in taught:
                return name, parameters, site
        return None

    def _mirror(self, function: str, site: str | None, pair: tuple[str, int, str | None]) -> Mirror:
        key = (function, site, self._phases.number)
        mirror = self._part.all.get(key)
        if mirror is None:
            mirror = Mirror(function, site, self._trace.steps, *pair)
            if len(self._part.all) < LIMIT:
                self._part.all[key] = mirror
        return mirror

    def _look(self, mirror: Mirror, prediction: Tensor, target: Tensor) -> None:
        if mirror.function == "kl_div" and bool((target <= 0).all()) and bool((target < 0).any()):
            target = target.exp()  # log_target
        spread = float(target.std())
        if not spread > 1e-4:
            return  # all alike: equal by themselves
        mirror.looked += 1
        mirror.equal += bool((prediction - target).abs().max() <= CLOSE * max(spread, 1e-2))
        mirror.steps += self._trace.steps > mirror.last_step
        mirror.last_step = self._trace.steps


def _squares_nothing(root: Any, given: Tensor) -> bool:
    """Whether what a loss squares, or multiplies by, is a difference of nothing."""
    kept = [each for each in residuals(root) if each.shape == given.shape]
    return any(bool((each.abs() <= CLOSE * max(float(given.std()), 1e-2)).all()) for each in kept)


def _is_own_target(root: Any, given: Tensor) -> bool:
    """Whether the probabilities of what was given are a constant factor in a loss, and no other weighs the classes.

    With such weights, as the values of actions, the gradient is not zero: the probabilities are weights as well.
    """
    pending, seen = [(root, False)], {root}
    while pending and len(seen) < NODES:
        node, weighed = pending.pop(0)
        factors = _constants(node)
        if not weighed and any(_is_probability(each, given) for each in factors) and not _is_weighed_below(node, given):
            return True
        weighed = weighed or any(_weighs(each, given) for each in factors)
        for child in _children(node):
            if child not in seen:
                seen.add(child)
                pending.append((child, weighed))
    return False


def _is_weighed_below(node: Any, given: Tensor) -> bool:
    """Whether something multiplies the classes between a node and the logarithm or softmax below it."""
    pending = list(_children(node))
    for _ in range(NODES):
        if not pending:
            return False
        below = pending.pop()
        if any(_weighs(each, given) for each in _constants(below)):
            return True
        if not operation(below).startswith(("LogSoftmax", "Softmax", "Log")):
            pending += _children(below)
    return True


def _children(node: Any) -> list[Any]:
    return [] if operation(node).startswith(LAYERS) else [child for child, _ in node.next_functions if child is not None]


def _constants(node: Any) -> list[Tensor]:
    """The factors of a product that have no gradient."""
    if operation(node) != "Mul":
        return []
    fixed = [name for name, (child, _) in zip(("self", "other"), node.next_functions, strict=False) if child is None]
    return [kept.detach() for name in fixed if (kept := saved(node, name)) is not None and kept.is_floating_point()]


def _weighs(factor: Tensor, given: Tensor) -> bool:
    """Whether a factor differs from class to class."""
    if factor.dim() == 1:
        return 1 < len(factor) == given.shape[-1]
    return factor.dim() == given.dim() and factor.shape[1] > 1 and bool((factor != factor.narrow(1, 0, 1)).any())


def _is_probability(factor: Tensor, given: Tensor) -> bool:
    if factor.shape != given.shape:
        return False
    softened = ((given / temperature).softmax(1) for temperature in TEMPERATURES)
    return any(torch.allclose(factor, each.to(factor.dtype), atol=CLOSE) for each in softened)


def _prediction(function: str, called: Called, input: Tensor) -> Tensor:
    """What is compared with the target: probabilities where the loss takes logarithms or scores."""
    if function == "kl_div":
        return input.exp()
    return input.softmax(1) if function == "cross_entropy" and input.dim() > 1 else input


OBSERVERS = [MirrorWatch]
