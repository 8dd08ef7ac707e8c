"""Losses of several terms of which one is a sum over the batch and another one a mean: their weights change with the batch size.

Read from the graphs of losses. A sum that is divided by a count is no sum, one over weights has nothing to do with the batch, and
one that does not outweigh the means was weighted for what it is.
"""

import math
from dataclasses import field
from functools import partial
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.loss_terms import SHAPES, children, operation, past_shapes, saved, shape_of
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.phases import Phases

LIMIT = 64
LOOKS = 12  # backwards of a line in each phase, then every 64th
TERMS = 64  # nodes in which terms are looked for
NODES = 4000
NOTE = "instep_term"
PICKED = ("Embedding", "EmbeddingBag")


@record_class
class Term:
    """What is added up in a loss."""

    factor: float
    samples: int = 0
    elements: int = 0  # that a sum goes over; 0 of a mean
    value: float | None = None  # of a mean of torch's


@record_class
class SummedTerm(Tally):
    """Backwards from one line."""

    site: str | None
    first_step: int
    looked: int = 0
    outweighed: int = 0  # a sum over the batch is far larger than all means
    most: int = 0  # numbers that such a sum went over
    samples: int = 0
    ratio: float = 0.0  # of the sum and the means, at the last look


@part_class
class SummedTerms:
    """The part of the trace about them."""

    all: dict[tuple[str, ...], SummedTerm] = field(default_factory=dict)


class SummedTermWatch:
    """Fills `SummedTerms`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(SummedTerms), trace.part(Phases)
        self._phase, self._seen = 0, dict[tuple[str, ...], int]()  # backwards of each line, in this phase

    def on_loss(self, _: LossKind, called: Called, input: Tensor, __: Any) -> None:
        """Leave at the node of a loss what it was and how much it was of."""
        node = getattr(called.result, "grad_fn", None)
        if node is not None and called.result.dim() == 0 and called.result.device.type == "cpu":
            samples = input.shape[0] if input.dim() > 1 else input.numel()
            node.metadata[NOTE] = (called.result.detach(), samples, input.numel())

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        if self._phase != self._phases.number:
            self._phase, self._seen = self._phases.number, {}
        count = self._seen[backward.lines] = self._seen.get(backward.lines, 0) + 1
        if (count > LOOKS and count % 64) or tensor.grad_fn is None or tensor.numel() != 1 or tensor.is_complex():
            return
        terms = terms_of(tensor.grad_fn)
        means = [term for term in terms if not term.elements]
        sums = [term for term in terms if term.elements]
        if means and sums and tensor.device.type == "cpu":
            known = self._part.all.get(backward.lines)
            if known is None:
                known = SummedTerm(backward.site, self._trace.steps)
                if len(self._part.all) < LIMIT:
                    self._part.all[backward.lines] = known
            self._hub.read(tensor.detach().reshape(()), partial(_judge, known, sums, means))


def _judge(known: SummedTerm, sums: list[Term], means: list[Term], total: float) -> None:
    """Compare the sums with the means; a mean that is written by hand is taken for 1."""
    known.looked += 1
    weighted = sum(abs(term.factor) * (1.0 if term.value is None else abs(term.value)) for term in means)
    exact = sum(term.factor * term.value for term in means if term.value is not None)
    largest = max(abs(term.factor) for term in means)
    samples = min((term.samples for term in (*means, *sums) if term.samples), default=0)
    if not math.isfinite(total) or not weighted or not largest:
        return
    known.ratio = (total - exact) / weighted
    plain = [term for term in sums if term.factor * samples >= 4 * largest and term.factor * term.elements >= 100 * largest]
    if plain and samples >= 8 and known.ratio >= 10:
        known.outweighed += 1
        known.most, known.samples = max(term.elements for term in plain), samples


def terms_of(root: Any) -> list[Term]:
    """The means and the sums over data that a loss adds up, with their factors; nothing where it is made of anything else."""
    pending, found, seen = [(root, 1.0)], list[Term](), 0
    while pending and seen < TERMS:
        node, factor = pending.pop()
        seen += 1
        name = operation(node)
        inner = [child for child in children(node) if child is not None]
        term = _term(node, name, factor)
        if term is not None:
            found.append(term)
        elif name in ("Add", "Sub"):
            signs = (1.0, -1.0) if name == "Sub" else (1.0, 1.0)
            pending += [(child, factor * sign) for child, sign in zip(children(node), signs, strict=False) if child is not None]
        elif name == "Neg" or (name in SHAPES and shape_of(node) in ((), (1,))):
            pending += [(child, -factor if name == "Neg" else factor) for child in inner]
        elif name in ("Mul", "Div") and len(inner) == 1 and (by := _number(node, name)) is not None:
            pending.append((inner[0], factor * by))
    return found


def _term(node: Any, name: str, factor: float) -> Term | None:
    reduction, note = getattr(node, "_saved_reduction", None), node.metadata.get(NOTE)
    if reduction == 1:
        return Term(factor, note[1], 0, float(note[0])) if note is not None else Term(factor)
    if reduction == 2:
        return Term(factor, note[1], note[2]) if note is not None and depends_on_data(node) else None
    if name == "Mean" and shape_of(node) == ():
        return Term(factor, _sizes(node)[0] if _sizes(node) else 0) if depends_on_data(node) else None
    if name != "Sum" or shape_of(node) != ():
        return None
    sizes, below = _sizes(node), past_shapes(children(node)[0])
    while below is not None and operation(below) == "Sum" and _sizes(below):  # first within samples, then over them
        sizes, below = _sizes(below), past_shapes(children(below)[0])
    if not sizes or below is None or operation(below) in ("Stack", "Cat") or not depends_on_data(node):
        return None
    return Term(factor, sizes[0], math.prod(sizes))


def _sizes(node: Any) -> tuple[int, ...]:
    """The shape of what a sum or a mean is taken of."""
    return tuple(int(size) for size in getattr(node, "_saved_self_sym_sizes", ()))


def _number(node: Any, name: str) -> float | None:
    """What a term is multiplied by."""
    if children(node)[0] is None and name == "Div":
        return None  # a number divided by a term
    side = "other" if children(node)[0] is not None else "self"
    plain = getattr(node, "_saved_other", None) if len(node.next_functions) == 1 else None
    other = saved(node, side) if plain is None else plain
    if isinstance(other, Tensor):
        other = float(other) if other.numel() == 1 and not other.is_complex() else None
    if not isinstance(other, int | float):
        return None
    number = float(other)
    return number if name == "Mul" else 1 / number if number else None


def depends_on_data(root: Any) -> bool:
    """Whether what was computed began with a layer that was given something without a graph: data, not weights alone."""
    pending, seen = [root], {root}
    while pending and len(seen) < NODES:
        node = pending.pop()
        name, inner = operation(node), children(node)
        if name in PICKED or (name in ("Addmm", "Mm", "Bmm", "Convolution") and _is_given(name, inner)):
            return True
        for child in inner:
            if child is not None and child not in seen:
                seen.add(child)
                pending.append(child)
    return False


def _is_given(name: str, inner: list[Any]) -> bool:
    """Whether the input of a layer has no graph; a bias may have none, too."""
    return inner[1 if name == "Addmm" else 0] is None


OBSERVERS = [SummedTermWatch]
