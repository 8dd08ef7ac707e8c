"""Weights that begin equal, of any kind: dictionaries of tensors, parameters of a module's own. Read from the graphs of losses.

`structure` compares the weights of nn.Embedding and nn.Linear. Here it is the use that tells: one weight rows are picked from,
the other one is multiplied with, or one is the transpose of the other.
"""

import weakref
from typing import Any

import torch
from torch import Tensor

from instep.doctor.bare_leaves import name_of
from instep.doctor.hub import Hub
from instep.doctor.loss_terms import operation, past_shapes
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.phases import Phases
from instep.doctor.watch.structure import FULL, Structure, Twin

LOOKS = 8  # backwards of a phase whose graphs are looked at: tables may be made anew, as for a larger vocabulary
MEASURED = (16, 64)  # backwards of a phase before which they are compared again: at the end they may be gone
NODES = 4000
PICKED = ("Embedding", "Index", "IndexSelect", "EmbeddingBag")
MULTIPLIED = ("Mm", "Addmm", "Bmm", "Mv", "Baddbmm")


class LeafTwinWatch:
    """Adds to `Structure.twins`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._parameters = trace.part(Structure), trace.part(Gradients).parameters
        self._phases, self._roots = trace.part(Phases), trace.part(Calls).roots
        self._seen: dict[int, weakref.ref[Tensor]] = {}
        self._pairs: list[tuple[Twin, weakref.ref[Tensor], weakref.ref[Tensor]]] = []

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        number = backward.number - self._phases.backwards
        if self._pairs and number in MEASURED:
            self._measure()
        if number > LOOKS or tensor.grad_fn is None:
            return
        picked, multiplied = _uses(tensor.grad_fn)
        new = {key for key, leaf in (picked | multiplied).items() if not self._is_known(key, leaf)}
        one_and_other = [(a, b) for a in picked.values() for b in multiplied.values()]
        leaves = list(multiplied.values())
        one_and_other += [(a, b) for index, a in enumerate(leaves) for b in leaves[index + 1 :] if a.shape[0] != a.shape[1]]
        for one, other in one_and_other[:256]:
            if one is not other and id(one) in new and id(other) in new:
                self._compare(backward, one, other, picks=id(one) in picked)
        self._seen.update((key, weakref.ref(leaf)) for key, leaf in (picked | multiplied).items())

    def _is_known(self, key: int, leaf: Tensor) -> bool:
        known = self._seen.get(key)
        return known is not None and known() is leaf

    def _compare(self, backward: Backward, one: Tensor, other: Tensor, *, picks: bool) -> None:
        a, b = one.detach(), other.detach()
        transposed = a.shape != b.shape
        if transposed:
            b = b.t()
        elif not picks:
            return  # two equal layers side by side: a copy, as of a critic
        if a.shape != b.shape or a.dtype != b.dtype or a.data_ptr() == b.data_ptr() or not torch.equal(a[:2, :8], b[:2, :8]):
            return
        if not torch.equal(a, b) or bool((a == a[0, 0]).all()):
            return
        first, second = (self._name(each) for each in (one, other))
        known = {frozenset((twin.first, twin.second)) for twin in self._part.twins}
        if len(self._part.twins) < 16 and frozenset((first, second)) not in known:
            twin = Twin(first, second, -1, transposed, site=backward.site)
            self._part.twins.append(twin)
            self._pairs.append((twin, weakref.ref(one), weakref.ref(other)))

    def _name(self, leaf: Tensor) -> str:
        known = self._parameters.get(id(leaf))
        own = known.name if known is not None and not known.name.startswith("tensor(") else ""
        return own or self._name_in_model(leaf) or name_of(leaf, self._hub.locator) or f"a tensor of shape {tuple(leaf.shape)}"

    def _name_in_model(self, leaf: Tensor) -> str:
        tops = [top for root in self._roots[:64] if (top := root.reference()) is not None]
        return next((name for top in tops for name, tensor in top.named_parameters() if tensor is leaf), "")

    def on_judge(self) -> None:
        self._measure()

    def _measure(self) -> None:
        for twin, first, second in self._pairs:
            one, other = first(), second()
            if one is None or other is None or one.numel() > FULL:
                continue
            a, b = one.detach(), other.detach().t() if twin.transposed else other.detach()
            if a.shape == b.shape:
                twin.drift, twin.backwards = float((a - b).abs().max()), self._trace.backwards
                twin.optimized = one._version > 0 and other._version > 0 and one.requires_grad and other.requires_grad


def _uses(root: Any) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """The leaves of a graph that rows are picked from, and those that something is multiplied with: matrices, on the CPU."""
    picked: dict[int, Tensor] = {}
    multiplied: dict[int, Tensor] = {}
    seen, pending = {root}, [root]
    while pending and len(seen) < NODES:
        node = pending.pop()
        name = operation(node)
        uses = picked if name in PICKED else multiplied if name in MULTIPLIED else None
        for child, _ in node.next_functions:
            if child is None:
                continue
            leaf = getattr(past_shapes(child), "variable", None) if uses is not None else None
            if uses is not None and isinstance(leaf, Tensor) and leaf.dim() == 2 and leaf.device.type == "cpu":
                uses[id(leaf)] = leaf
            if child not in seen:
                seen.add(child)
                pending.append(child)
    return picked, multiplied


OBSERVERS = [LeafTwinWatch]
