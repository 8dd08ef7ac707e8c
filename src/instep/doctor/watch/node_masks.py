"""Nodes of one graph: a model gets all of them at every step, and masks say which are trained on and which are evaluated on.

Which rows of an output a loss, or an argmax, is given is known by their values.
"""

import weakref
from dataclasses import field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.row_keys import row_keys
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loaders, first_tensor
from instep.doctor.watch.losses import LossKind

LOOKS = 6  # calls to train, and to evaluate, that are looked at
HANGING = 256  # calls to evaluate, while no set of rows was clean
MODELS = 8
SETS = 16


@record_class
class Nodes:
    """The rows of one model's output that are trained on, and those that are evaluated on."""

    site: str | None = None  # of the last evaluation that was looked at
    first_step: int = 0
    trained: frozenset[int] = frozenset()
    looked: int = 0  # losses
    steady: bool = True  # all of them were given the same rows
    evaluated: list[frozenset[int]] = field(default_factory=list)  # the sets of rows, each once
    unseen: bool = False  # there were evaluations that were not looked at: one of them may be clean
    rested: bool = False  # so it was since the doctor rested: forwards are not heard then

    def hangs(self) -> bool:
        """Whether rows that are trained on were evaluated on, and none were without."""
        return bool(self.evaluated) and all(rows & self.trained for rows in self.evaluated)


@part_class
class NodeMasks:
    """The part of the trace about them."""

    all: dict[int, Nodes] = field(default_factory=dict)  # by root


class NodeMaskWatch:
    """Fills `NodeMasks`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._loaders = trace, trace.part(NodeMasks), trace.part(Loaders)
        self._inputs: dict[int, weakref.ref[Tensor]] = {}  # root -> what it got in the last training call
        self._same: dict[int, int] = {}  # root -> training calls in a row that got the same tensor
        self._looks: dict[tuple[int, bool], int] = {}
        self._output: tuple[int, bool, str | None, dict[float, int]] | None = None  # of the last call: its rows by number

    def on_rest(self) -> None:
        for nodes in self._part.all.values():
            nodes.rested = True

    def after_call(self, call: Call) -> None:
        self._output = None
        if not call.root.parameters or call.root.is_loss or self._loaders.is_training():
            return
        number, input, output = call.root.number, first_tensor(call.args), first_tensor(call.output)
        if input is None or output is None or input.dim() < 2 or output.dim() != 2 or not 32 <= len(output) == len(input) <= 4096:
            return
        before = self._inputs.get(number)
        same = before is not None and before() is input
        if call.grad:
            self._same[number] = self._same.get(number, 0) + 1 if same else 0
            self._inputs[number] = weakref.ref(input)
        looks, nodes = self._looks.get((number, call.grad), 0), self._part.all.get(number)
        if not same or self._same.get(number, 0) < 3 or (nodes is None and len(self._part.all) >= MODELS):
            return
        hanging = not call.grad and nodes is not None and nodes.hangs()
        if hanging and nodes is not None and looks >= HANGING:
            nodes.unseen = True
        elif looks < LOOKS or hanging:
            self._looks[number, call.grad] = looks + 1
            self._output = (number, call.grad, call.site, {key: place for place, key in enumerate(row_keys(output))})

    def on_loss(self, kind: LossKind, _: Called, input: Tensor, target: Any) -> None:
        self._note(input)

    def on_graded(self, tensor: Any) -> None:
        self._note(tensor)

    def after_argmax(self, called: Called) -> None:
        self._note(called.argument(0, "input"))

    def _note(self, tensor: Any) -> None:
        if self._output is None or not isinstance(tensor, Tensor) or tensor.dim() != 2:
            return
        number, grad, site, places = self._output
        if not 8 <= len(tensor) < 0.95 * len(places) or tensor.requires_grad != grad:
            return
        rows = [places.get(key) for key in row_keys(tensor)]
        found = frozenset(row for row in rows if row is not None)
        if None in rows or len(found) < len(rows):
            return
        nodes = self._part.all.setdefault(number, Nodes())
        if grad:
            nodes.steady = nodes.steady and (not nodes.looked or found == nodes.trained)
            nodes.trained, nodes.looked = found, nodes.looked + 1
        elif found not in nodes.evaluated and (len(nodes.evaluated) < SETS or (nodes.hangs() and not found & nodes.trained)):
            nodes.evaluated.append(found)
            nodes.site, nodes.first_step = site, self._trace.steps


OBSERVERS = [NodeMaskWatch]
