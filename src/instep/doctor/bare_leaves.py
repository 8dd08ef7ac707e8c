"""Leaves that no module and no optimizer knows: tensors that get gradients and stand in an attribute, a dictionary, a partial.

A plain tensor may be an input that somebody asked a gradient of. It counts as something to learn only where nothing speaks for an
input: a single number or a shape as optimized weights have it, never given to a module or to `autograd.grad`, and a gradient that
grows from one backward to the next, since nobody uses or clears it.
"""

import functools
import weakref
from collections.abc import Container, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.records import record_class
from instep.doctor.scopes import held, local_names
from instep.doctor.sites import Locator

NODES = 20_000
NOBODY = -1  # the root of a parameter that no module has


@record_class
class BareLeaf:
    """One of them, as it was when it was seen first."""

    reference: weakref.ref[Tensor]
    owner: str  # class of the module that keeps it as an attribute
    name: str
    root: int
    values: list[float]
    plain: bool = False  # neither an nn.Parameter nor an attribute of a module
    sightings: int = 1
    touched: bool = False  # somebody has used or cleared its gradient
    grad: tuple[int, int, int] | None = None  # its gradient at the last sighting: where it is, its version, the backward

    def see(self, backward: int) -> None:
        """Look at its gradient, before another backward."""
        leaf = self.reference()
        grad = leaf.grad if leaf is not None else None
        if self.grad is not None:
            place, version, number = self.grad
            grown = grad is not None and grad.data_ptr() == place and 0 < grad._version - version <= backward - number
            self.touched = self.touched or not grown
        self.grad = (grad.data_ptr(), grad._version, backward) if grad is not None else None

    def is_left(self) -> bool:
        """Whether it is seen again and again, and its gradient is nobody's."""
        leaf = self.reference()
        if leaf is None or self.sightings < 2:
            return False
        return not self.plain or (not self.touched and self.grad is not None and bool(self.grad[1]))


class BareLeaves:
    """Those of a run."""

    def __init__(self, locator: Locator) -> None:
        self.all: dict[int, BareLeaf] = {}
        self._locator = locator
        self._inputs: dict[int, weakref.ref[Tensor]] = {}

    def note_inputs(self, tensors: Iterable[Any]) -> None:
        """These are given to a model, or gradients of them are asked for: nothing to learn."""
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.requires_grad and tensor.is_leaf and len(self._inputs) < 256:
                self._inputs[id(tensor)] = weakref.ref(tensor)

    def see(self, leaf: Tensor, backward: int, tops: Iterable[tuple[int, nn.Module]], shapes: Container[tuple[int, ...]]) -> None:
        """A backward is about to reach this leaf. `tops` are the models, by number; `shapes` are those of optimized weights."""
        known = self.all.get(id(leaf))
        if known is not None and known.reference() is leaf:
            known.sightings += 1
            known.see(backward)
            return
        for number, top in tops:
            place = _attribute(top, leaf)
            if place is not None:
                self.all[id(leaf)] = BareLeaf(weakref.ref(leaf), *place, number, sample(leaf, wait=True))
                return
        if isinstance(leaf, nn.Parameter):
            name = f"an nn.Parameter of shape {tuple(leaf.shape)}"
            self.all[id(leaf)] = BareLeaf(weakref.ref(leaf), "", name, NOBODY, sample(leaf, wait=True))
        elif self._is_weight(leaf, shapes):
            name = name_of(leaf, self._locator) or f"a tensor of shape {tuple(leaf.shape)}"
            bare = self.all[id(leaf)] = BareLeaf(weakref.ref(leaf), "", name, NOBODY, sample(leaf, wait=True), plain=True)
            bare.see(backward)

    def _is_weight(self, leaf: Tensor, shapes: Container[tuple[int, ...]]) -> bool:
        given = self._inputs.get(id(leaf))
        if (given is not None and given() is leaf) or not leaf.is_floating_point():
            return False
        return leaf.numel() == 1 or tuple(leaf.shape) in shapes


def weight_shapes(shapes: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """The shapes that a weight beside weights of these shapes may have: theirs, and those of a bias."""
    return {shape for each in shapes for shape in (each, *((size,) for size in each))}


def sample(tensor: Tensor, *, wait: bool = False) -> list[float]:
    """A few values of a tensor, spread over it; none where looking would make the program wait, unless it may."""
    if (
        (tensor.device.type != "cpu" and not wait)
        or not tensor.numel()
        or tensor.layout is not torch.strided
        or tensor.is_complex()
    ):
        return []
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach()[0].reshape(-1)
    values = flat[:: max(1, flat.numel() // 16)][:16].tolist()
    return [value if value == value else 0.0 for value in values]  # NaN is never equal to itself


def leaves_of(node: Any) -> Iterator[Tensor]:
    """The leaves of a graph that gradients go to."""
    seen, pending = {node}, [node]
    while pending and len(seen) < NODES:
        node = pending.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            yield variable
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                pending.append(after)


def _attribute(top: nn.Module, leaf: Tensor) -> tuple[str, str] | None:
    """The class and the attribute that a tensor is kept under, though not registered."""
    for prefix, module in top.named_modules():
        for name, value in vars(module).items():
            if name.startswith("_") and name in ("_parameters", "_buffers", "_modules"):
                continue
            if value is leaf or any(each is leaf for each in held(value)):
                return type(module).__name__, f"{prefix}.{name}" if prefix else name
    return None


def name_of(leaf: Tensor, locator: Locator) -> str:
    """What the user's functions that are running call a tensor, or what they keep it in; "" where nobody names it."""
    for frame in locator.frames():
        if locator.is_users(frame.f_code.co_filename):
            for name, value in (*local_names(frame).items(), *list(frame.f_globals.items())):
                if value is leaf:
                    return name
                keywords = value.keywords if type(value) is functools.partial else value
                found = [key for key, each in keywords.items() if each is leaf] if type(keywords) is dict else []
                if found:
                    return f"{name}[{found[0]!r}]" if keywords is value else str(found[0])
    return ""
