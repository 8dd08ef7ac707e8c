"""Scores that a loss raises: `-critic(state, actor(state)).mean()` pulls the critic's own output up, without any target.

Such a loss is meant for what is below the critic, an actor or a generator. A step of the critic that uses it as well, beside
the critic's own loss, makes the critic praise everything. So does a binary loss that wants ones for what the critic's own loss,
on the same samples, wants zeros for.
"""

from collections import deque
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import VIEWS, Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.loaders import first_tensor
from instep.doctor.watch.optimizers import Optimizers, Step

RECENT = 16  # backwards of which it is known what they raise
BINARY = ("BinaryCrossEntropyWithLogitsBackward0", "BinaryCrossEntropyBackward0")
LAYERS = ("AddmmBackward0", "MmBackward0", "ConvolutionBackward0")


@record_class
class Praise(Tally):
    """Steps of one optimizer that also used a loss by which another optimizer raises its output."""

    uses: int = 0  # such steps
    site: str | None = None  # of the last one
    sites: tuple[str | None, ...] = ()  # of the backwards that it used: its own, and the other's
    first_step: int = 0


@part_class
class Scores:
    """The part of the trace about scores."""

    optimizers: dict[int, Praise] = field(default_factory=dict)  # by number


class _Raising:
    """A backward that raises the output of some layers, and who used it."""

    __slots__ = ("backward", "binary", "keys", "others", "outsiders", "owner", "owner_site", "told")

    def __init__(self, backward: Backward, keys: frozenset[int], binary: bool) -> None:
        self.backward, self.keys = backward, keys
        self.binary = binary  # by a target of ones: somebody must want zeros as well
        self.owner: int | None = None  # the optimizer that those layers belong to
        self.owner_site: str | None = None
        self.others: list[Backward] = []  # that its step used as well
        self.outsiders: list[set[int]] = []  # what steps of other optimizers used, together with this one
        self.told = False


class ScoreWatch:
    """Fills `Scores`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(Scores)
        self._parameters, self._optimizers = trace.part(Gradients).parameters, trace.part(Optimizers)
        # root, a few numbers of its input, whether that has a graph
        self._calls: deque[tuple[int, tuple[float, ...], bool]] = deque(maxlen=2 * RECENT)
        self._lowering: dict[int, frozenset[int]] = {}  # backward -> the layers for which it wants zeros
        self._raising: deque[_Raising] = deque(maxlen=RECENT)
        self._last: dict[int, int] = {}  # optimizer -> backwards begun at its last step

    def on_wake(self) -> None:
        self._raising.clear()
        self._calls.clear()
        self._lowering.clear()

    def after_call(self, call: Call) -> None:
        if call.grad and len(self._optimizers.all) > 1:
            input = first_tensor(call.args)
            if input is not None and input.layout is torch.strided and input.device.type == "cpu" and input.is_floating_point():
                flat = input.detach().reshape(-1)
                values = tuple(flat[:: max(len(flat) // 8, 1)].tolist())
                self._calls.append((call.root.number, values, input.requires_grad))

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        while self._raising and self._raising[0].backward.number <= backward.number - RECENT:
            self._raising.popleft()
        keys = raised(tensor.grad_fn)
        if keys:
            self._raising.append(_Raising(backward, keys, binary=False))
        elif len(self._optimizers.all) > 1:
            ones, zeros = wanted(tensor.grad_fn)
            if len(self._lowering) > RECENT:
                self._lowering.clear()
            if zeros:
                self._lowering[backward.number] = zeros
            elif ones:
                self._raising.append(_Raising(backward, ones, binary=True))

    def before_step(self, step: Step) -> None:
        record = step.record
        since, self._last[record.number] = self._last.get(record.number, 0), self._trace.backwards
        if not self._raising or not record.awake:
            return
        used = {b.number: b for key in record.parameters for b in self._held(key) if b.number > since}
        for each in self._raising:
            if each.backward.number not in used or each.told:
                continue
            if each.keys.intersection(record.parameters):
                each.owner, each.owner_site = record.number, step.site
                raising = {other.backward.number for other in self._raising}
                each.others = [b for key in each.keys for b in self._held(key) if b.number > since and b.number not in raising]
            else:
                each.outsiders.append(set(used))
            self._settle(each)

    def _has_twins(self) -> bool:
        """Whether a model was called with the same samples of late, once cut off from what made them and once not."""
        cut = {(root, values) for root, values, graph in self._calls if not graph}
        return any(graph and len(values) >= 8 and (root, values) in cut for root, values, graph in self._calls)

    def _held(self, key: int) -> list[Backward]:
        known = self._parameters.get(key)
        return known.held if known is not None else []

    def _settle(self, raising: _Raising) -> None:
        if raising.owner is None or not raising.outsiders:
            return
        own = [b for b in raising.others if all(b.number not in used for used in raising.outsiders)]
        if raising.binary:
            own = [b for b in own if raising.keys & self._lowering.get(b.number, frozenset())] if self._has_twins() else []
        if not own:
            return
        raising.told = True
        praise = self._part.optimizers.setdefault(raising.owner, Praise(first_step=self._trace.steps))
        praise.uses += 1
        praise.site, praise.sites = raising.owner_site, (own[-1].site, raising.backward.site)


def raised(node: Any) -> frozenset[int]:
    """The weights, by id, of the layers whose mean output a loss wants larger, where it wants nothing else."""
    if node is None or node.name() not in ("NegBackward0", "MeanBackward0"):
        return frozenset()
    sign, mean = 1, False
    for _ in range(16):
        name = node.name()
        if name in LAYERS:
            found = {id(child.variable) for child, _ in _below(node) if child.name() == "torch::autograd::AccumulateGrad"}
            return frozenset(found) if mean and sign < 0 else frozenset()
        if name == "NegBackward0":
            sign = -sign
        elif name in ("MeanBackward0", "MeanBackward1"):
            mean = True
        elif name not in VIEWS:
            return frozenset()
        children = [child for child, _ in node.next_functions if child is not None]
        if len(children) != 1:
            return frozenset()
        node = children[0]
    return frozenset()


def wanted(node: Any) -> tuple[frozenset[int], frozenset[int]]:
    """The weights of the layers for whose outputs a loss, or the terms of a sum, want ones, and of those for which zeros."""
    ones: set[int] = set()
    zeros: set[int] = set()
    pending = [node] if node is not None else []
    for _ in range(8):
        if not pending:
            break
        each = pending.pop()
        name = each.name()
        children = [child for child, _ in each.next_functions if child is not None]
        if name in ("AddBackward0", "DivBackward0", "MulBackward0"):
            pending += children
        elif name in BINARY and children and each._saved_target.device.type == "cpu":
            low, high = torch.aminmax(each._saved_target)
            if float(low) == float(high) and float(low) != 0.5:
                (ones if float(low) > 0.5 else zeros).update(_layer(children[0]))
    return frozenset(ones), frozenset(zeros)


def _layer(node: Any) -> set[int]:
    """The weights of the layer that a tensor comes from, past a sigmoid and views."""
    for _ in range(8):
        if node is None or node.name() in LAYERS:
            break
        if node.name() not in VIEWS and node.name() != "SigmoidBackward0":
            return set()
        node = node.next_functions[0][0]
    taken = _below(node) if node is not None else []
    return {id(child.variable) for child, _ in taken if child is not None and child.name() == "torch::autograd::AccumulateGrad"}


def _below(layer: Any) -> list[Any]:
    """What a layer takes, with a transposed weight looked through."""
    taken = [pair for pair in layer.next_functions if pair[0] is not None]
    return [below for pair in taken for below in (pair[0].next_functions if pair[0].name() == "TBackward0" else (pair,))]


OBSERVERS = [ScoreWatch]
