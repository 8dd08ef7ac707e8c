"""Updates by hand: weights that are in no optimizer and move between backwards, and what becomes of their gradients.

Bare tensors belong to no module and no optimizer; they are found by walking the graphs of the first backwards. Only the
beginning of a run is looked at.
"""

from dataclasses import field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.gradients import Gradients, GradientWatch, Parameter, beginning, is_as_left, some_values

LOOKED_AT = 64  # backwards
NODES = 500


@part_class
class ByHand:
    """The part of the trace about updates by hand."""

    name: str = ""  # of the parameter that was looked at
    looked: int = 0  # backwards before which it was looked at, from the second on
    moved: int = 0  # of those: it had moved since the last
    grown: int = 0  # of those: it had moved, and its gradient still held all that it had held before, as it was: no momentum
    held: int = 0  # backwards that its gradient held at the last look
    sites: dict[str | None, int] = field(default_factory=dict)  # of the backwards
    grads: int = 0  # calls of torch.autograd.grad


class HandWatch:
    """Fills `ByHand`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace = trace
        self._part, self._gradients = trace.part(ByHand), trace.part(Gradients)
        self._ledger: GradientWatch | None = None
        self._probe: Parameter | None = None
        self._weights: list[float] = []
        self._left: Tensor | None = None  # of its gradient, as the last backward has left it

    def install(self, observers: list[object]) -> None:
        self._ledger = next(observer for observer in observers if isinstance(observer, GradientWatch))

    def remove(self) -> None: ...

    def before_autograd_grad(self, _: Called) -> None:
        self._part.grads += 1

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        if self._trace.steps or self._trace.backwards > LOOKED_AT:
            return
        if self._trace.backwards <= 3 and not self._gradients.parameters:
            self._find_leaves(tensor.grad_fn)
        probe = self._probe
        if probe is None:
            candidates = (p for p in self._gradients.parameters.values() if not p.optimizers and p.device == "cpu" and p.arrivals)
            *_, self._probe = None, *candidates  # the last: of the first, an embedding, most rows stay where they are
            return
        weights, part, scaled = beginning(probe), self._part, not is_as_left(_gradient(probe), self._left)
        if weights and self._weights:
            moved = weights != self._weights
            part.looked += 1
            part.moved += moved
            part.grown += moved and not scaled and len(probe.held) > max(part.held, 1)
            part.sites[backward.site] = part.sites.get(backward.site, 0) + 1
        part.name, part.held, self._weights = probe.name, len(probe.held), weights

    def after_backward(self, _: Called) -> None:
        if self._probe is not None and not self._trace.steps and self._trace.backwards <= LOOKED_AT:
            self._left = _gradient(self._probe)

    def _find_leaves(self, node: Any) -> None:
        assert self._ledger is not None
        seen, pending = {node}, [node]
        while pending and len(seen) < NODES:
            for following, _ in getattr(pending.pop(), "next_functions", ()):
                if following is None or following in seen:
                    continue
                seen.add(following)
                pending.append(following)
                leaf = getattr(following, "variable", None)
                if isinstance(leaf, Tensor):
                    self._ledger.know(leaf)


def _gradient(probe: Parameter) -> Tensor | None:
    tensor = probe.reference()
    return some_values(tensor.grad) if tensor is not None else None


OBSERVERS = [HandWatch]
