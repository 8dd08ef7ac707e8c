"""BatchNorms that are evaluated with weights no training call has led to, and with the statistics of the last one.

A mean of several models is written into the model that was trained, or into a new one beside it, and tested: once, at the end,
so that nothing is put back afterwards. Known by weights that are much further from those of the last training call than any step
has led, while the statistics are exactly those that it has left. What counts is whether these fit what comes in.
"""

import weakref
from collections import deque
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from instep.doctor.hub import Hub
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Root
from instep.doctor.watch.norms import ENOUGH, LIMIT, Norm, Norms, has_settled, misfit
from instep.doctor.watch.swapped_norms import moved_as_a_whole, weights_of

FOLLOWED = 16  # norms whose steps are followed
FAR = 6.0  # times the largest step of late
LATE = 8  # steps that are of late
CALLS = 16  # of an evaluation with such weights that are looked at
USUAL = 2  # batches of an ordinary evaluation that are looked at
LARGE = 128  # samples of a batch that says as much as two
UNFIT = 0.9  # the logarithm of a factor between variances: weights that are rounded, or close by, fit better


class _Live:
    """A norm that is trained, as its last training call has left it."""

    __slots__ = ("looked_at", "looks", "mean", "module", "moves", "step", "usual", "weights")

    def __init__(self, module: _BatchNorm) -> None:
        self.module = weakref.ref(module)
        self.weights: Tensor | None = None
        self.mean: Tensor | None = None
        self.step = 0
        self.moves: deque[float] = deque(maxlen=LATE)
        self.usual = 0.0  # the worst fit of an ordinary evaluation
        self.looked_at, self.looks = -1, 0  # steps at the last of these, and its batches that were looked at


class MixedNormWatch:
    """Adds to `Norms`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(Norms)
        self._live: dict[int, _Live] = {}
        self._mixed: dict[int, Norm] = {}
        self._awake = 0  # steps at the last one that was watched

    def wants_modules(self) -> dict[type, Any]:
        return {_BatchNorm: self._called}

    def _called(self, module: _BatchNorm, args: tuple[Any, ...], _: Any, call: Call) -> None:
        weight, mean = module._parameters.get("weight"), module.running_mean
        if weight is None or mean is None or weight.device.type != "cpu":
            return
        if module.training:
            if call.grad and torch.is_grad_enabled() and weight.requires_grad:
                self._follow(module, mean)
        elif not call.grad and self._live and args and isinstance(args[0], Tensor):
            self._look(module, mean, args[0], call)

    def after_step(self, _: Any) -> None:
        self._awake = self._trace.steps

    def _follow(self, module: _BatchNorm, mean: Tensor) -> None:
        live = self._live.get(id(module))
        if live is None:
            if len(self._live) >= FOLLOWED:
                return
            live = self._live[id(module)] = _Live(module)
            weakref.finalize(module, self._live.pop, id(module), None).atexit = False
        now = weights_of(module)
        if live.weights is not None and live.step < self._trace.steps:
            live.moves.append(float((now - live.weights).norm()) / (self._trace.steps - live.step))
        live.weights, live.mean, live.step = now, mean.detach().clone(), self._trace.steps

    def _look(self, module: _BatchNorm, mean: Tensor, input: Tensor, call: Call) -> None:
        known = self._mixed.get(id(module))
        if input.numel() < ENOUGH * module.num_features or (known is not None and known.eval_calls >= CALLS):
            return
        live, weights = self._source(module, mean)
        if live is None or weights is None or len(live.moves) < LATE:
            return
        now = weights_of(module)
        if float((now - weights).norm()) <= FAR * max(live.moves):
            self._look_at_usual(live, module, input)
            return
        trained = live.module()
        if trained is None or not has_settled(trained) or not moved_as_a_whole(now, weights):
            return
        fit = float(misfit(module, input))
        norm = known or self._new(module, call.root, call)
        norm.eval_calls += 1
        norm.eval_site = norm.eval_site or call.site
        if fit > max(2 * live.usual, UNFIT):
            norm.misfits += [fit] * (2 if len(input) >= LARGE else 1)

    def _look_at_usual(self, live: _Live, module: _BatchNorm, input: Tensor) -> None:
        """How well the statistics fit in an ordinary evaluation, by its first batches."""
        if live.looked_at != self._trace.steps:
            live.looked_at, live.looks = self._trace.steps, 0
        if live.looks < USUAL:
            live.looks += 1
            live.usual = max(live.usual, float(misfit(module, input)))

    def _source(self, module: _BatchNorm, mean: Tensor) -> tuple[_Live | None, Tensor | None]:
        """The norm whose statistics these are, and its own weights: of the module itself those of its last training call."""
        own = self._live.get(id(module))
        if own is not None:
            same = own.mean is not None and torch.equal(own.mean, mean) and self._trace.steps - own.step <= 1
            return (own, own.weights) if same else (None, None)
        for live in self._live.values():
            other = live.module()
            if live.step < self._awake - 1:
                continue  # it was trained on with its statistics held
            if other is not None and other.running_mean is not None and _is_same(other.running_mean, mean):
                return live, weights_of(other)
        return None, None

    def _new(self, module: _BatchNorm, root: Root, call: Call) -> Norm:
        name = next((name for name, part in call.module.named_modules() if part is module), "")
        norm = self._mixed[id(module)] = Norm(name or type(module).__name__, root, module.num_features, False, replaced=True)
        weakref.finalize(module, self._mixed.pop, id(module), None).atexit = False
        if len(self._part.all) < LIMIT:
            self._part.all.append(norm)
        return norm


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


OBSERVERS = [MixedNormWatch]
