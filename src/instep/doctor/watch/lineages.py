"""Lineages: on which loaders weights were trained before somebody loaded them, or went on with them.

A resumed job, or a second phase, is another model with the weights of the first. Weights are known again by a few of their
values, as they were when `state_dict()` was called on a model that had been trained.
"""

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from torch import Tensor, nn

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls, Root

LIMIT = 256
Values = tuple[float, ...]


@part_class
class Lineages:
    """The part of the trace about lineages."""

    inherited: dict[int, frozenset[int]] = field(default_factory=dict)  # root -> loaders that its loaded weights were trained on
    given_up: dict[int, frozenset[int]] = field(default_factory=dict)  # root -> loaders before weights from elsewhere came in


class LineageWatch:
    """Fills `Lineages`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part, self._calls = trace.part(Lineages), trace.part(Calls)
        self._taken: OrderedDict[Values, frozenset[int]] = OrderedDict()  # values of trained weights -> its loaders
        self._waiting: dict[int, tuple[weakref.ref[nn.Module], frozenset[int]]] = {}  # loaded, and not called yet

    def after_state_taken(self, called: Called) -> None:
        root = self._root(called.args[0])
        if root is None or not root.trained:
            return
        values = _values(dict(called.args[0].named_parameters()))
        if values:
            self._taken[values] = self._trained_on(root)
            while len(self._taken) > LIMIT:
                self._taken.popitem(last=False)

    def before_state_loaded(self, called: Called) -> None:
        module, state = called.args[0], called.argument(1, "state_dict")
        names = [name for name, _ in module.named_parameters()]
        if not isinstance(state, Mapping) or any(name not in state for name in names):
            return
        loaders = self._taken.get(_values({name: state[name] for name in names}))
        root = self._root(module)
        if root is not None:
            self._inherit(root, loaders)
        elif loaders and len(self._waiting) < LIMIT:
            self._waiting[id(module)] = (weakref.ref(module), loaders)

    def on_root_seen(self, module: nn.Module, root: Root) -> None:
        known = self._waiting.pop(id(module), None)
        if known is not None and known[0]() is module:
            self._part.inherited[root.number] = known[1]

    def _inherit(self, root: Root, loaders: frozenset[int] | None) -> None:
        """What it was trained on itself counts no more; what the loaded weights were trained on does."""
        part, number = self._part, root.number
        part.given_up[number] = self._own(root)
        part.inherited[number] = loaders or frozenset()

    def _trained_on(self, root: Root) -> frozenset[int]:
        part, number = self._part, root.number
        return (self._own(root) - part.given_up.get(number, frozenset())) | part.inherited.get(number, frozenset())

    def _own(self, root: Root) -> frozenset[int]:
        kinds = self._calls.kinds.values()
        return frozenset(kind.loader for kind in kinds if kind.root is root and kind.trained and kind.loader is not None)

    def _root(self, module: nn.Module) -> Root | None:
        return next((root for root in self._calls.roots if root.reference() is module), None)


def _values(parameters: Mapping[str, Any]) -> Values:
    """A few values of the first and of the last weight; nothing where they cannot be looked at."""
    tensors = [tensor for tensor in parameters.values() if isinstance(tensor, Tensor) and tensor.is_floating_point()]
    if not tensors:
        return ()
    first, last = sample(tensors[0]), sample(tensors[-1])
    return (*first, *last) if first and last else ()


OBSERVERS = [LineageWatch]
