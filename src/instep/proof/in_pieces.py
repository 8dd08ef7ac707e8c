"""In pieces: the gradient of one batch, whole and cut, with what may tell the two apart left as it is or taken away.

Three things can be taken away: the statistics of BatchNorm (they go to eval mode), random draws (all give one value), and state
(put back before every forward). What is left then is the loss and its count, or a model that mixes samples.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from instep.loop.objective import Loss
from instep.loop.out_of_memory import keep_buffers
from instep.loop.saved_state import SavedState
from instep.proof.draws import Draws

NORMS, DRAWS, STATE = "norms", "draws", "state"
KEPT = (NORMS, DRAWS, STATE)


@dataclass(frozen=True)
class Gradient:
    """What the pieces of a batch gave: the value, count and gradient of each."""

    values: list[float]
    counts: list[float]
    kinds: list[str]
    vectors: list[Tensor]  # of each piece, all gradients in a row, float64
    sizes: list[int]

    @property
    def weights(self) -> list[float]:
        """What each piece weighs in the update."""
        if self.kinds[0] == "sum":
            return [1.0] * len(self.values)
        total = sum(self.counts) or 1.0
        return [count / total for count in self.counts]

    @property
    def vector(self) -> Tensor:
        return torch.stack([weight * vector for weight, vector in zip(self.weights, self.vectors, strict=True)]).sum(0)

    @property
    def value(self) -> float:
        pairs = zip(self.weights, self.values, strict=True)
        return sum(weight * value for weight, value in pairs if weight)


@dataclass(frozen=True)
class Case:
    """One batch of one training: how a piece of it goes forward, how it is cut, and who has parameters, buffers, attributes."""

    model: nn.Module
    forward: Callable[[int, Any], Loss]  # the offset of a piece, and the piece
    cut: Callable[[int], list[tuple[int, Any]]]
    size: Callable[[Any], int]
    modules: Sequence[nn.Module]  # the model, and losses with buffers
    attributes: Sequence[Any] = ()  # of the user's own, beside buffers
    line: str = ""  # of the user's loss or objective

    def parameters(self) -> list[Tensor]:
        held = dict.fromkeys(p for module in self.modules for p in module.parameters() if p.requires_grad)
        return list(held)

    def gradient(self, pieces: int, active: Collection[str] = KEPT, *, by_sample: bool = False) -> Gradient:
        """The gradient of the batch in so many pieces. What is not named as active is taken away; all is put back.

        Draws that are taken away are one value; with `by_sample`, noise with a row for each sample is a function of the sample.
        """
        put_back = self.keep()
        found = Gradient([], [], [], [], [])
        try:
            with self._without(active) as fixed:
                for offset, piece in self.cut(pieces):
                    if fixed is not None and by_sample:
                        fixed.rows = (offset, self.size(piece))
                    if STATE not in active:
                        put_back()
                    self._add(found, offset, piece)
        finally:
            put_back()
        return found

    def gap(self, pieces: int, active: Collection[str]) -> float:
        """How far the gradient of the pieces is from that of the whole, relative to its largest entry."""
        whole, cut = self.gradient(1, active).vector, self.gradient(pieces, active).vector
        largest = float(whole.abs().max()) if whole.numel() else 0.0
        return float((whole - cut).abs().max()) / largest if largest else 0.0

    def buffers_after(self, pieces: int) -> dict[str, Tensor]:
        """Copies of the buffers as the forwards of so many pieces leave them, with all draws alike."""
        put_back = self.keep()
        try:
            with self._without((NORMS, STATE)), torch.no_grad():
                for offset, piece in self.cut(pieces):
                    self.forward(offset, piece)
            return {name: buffer.clone() for root in self.modules for name, buffer in root.named_buffers()}
        finally:
            put_back()

    def draws(self) -> dict[str, str]:
        """The modules that draw random numbers in a forward, each with its kind or the line that draws."""
        put_back = self.keep()
        draws = Draws(self.model, is_fixed=False)
        try:
            with draws.watching(), torch.no_grad():
                self.forward(*self.cut(1)[0])
        finally:
            put_back()
        return draws.where

    def norms(self) -> dict[str, nn.Module]:
        """The BatchNorms that take statistics of the batch, by name."""
        found = {name: module for root in self.modules for name, module in root.named_modules() if isinstance(module, _BatchNorm)}
        return {name: module for name, module in found.items() if module.training or not module.track_running_stats}

    def keep(self) -> Callable[[], None]:
        """Copies buffers and attributes; gives what puts them back."""
        buffers = [keep_buffers(module) for root in self.modules for module in root.modules()]
        parts = [part for root in self.modules for part in (*root.modules(), *root.parameters())]
        saved = SavedState(*self.attributes, leave={id(part): part for part in parts}) if self.attributes else None

        def put_back() -> None:
            with torch.no_grad():
                for undo in buffers:
                    undo()
            if saved is not None:
                saved.put_back()

        return put_back

    def _add(self, found: Gradient, offset: int, piece: Any) -> None:
        loss = self.forward(offset, piece)
        parameters = self.parameters()
        count = float(loss.count)
        gradients: Sequence[Tensor | None] = [None] * len(parameters)
        if loss.value.requires_grad and count:
            gradients = torch.autograd.grad(loss.value, parameters, allow_unused=True)
        row = [_row(p, g) for p, g in zip(parameters, gradients, strict=True)]
        found.values.append(float(loss.value.detach()) if count else 0.0)
        found.counts.append(count)
        found.kinds.append(loss.kind)
        found.vectors.append(torch.cat(row) if row else torch.zeros(0, dtype=torch.float64))
        found.sizes.append(self.size(piece))

    @contextlib.contextmanager
    def _without(self, active: Collection[str]) -> Iterator[Draws | None]:
        fixed = None
        with contextlib.ExitStack() as stack:
            if NORMS not in active:
                for norm in self.norms().values():
                    stack.callback(norm.train, norm.training)
                    norm.eval()
                    if not norm.track_running_stats:
                        norm.forward = _unchanged
                        stack.callback(norm.__dict__.pop, "forward")
            if DRAWS not in active:
                fixed = stack.enter_context(Draws(self.model, is_fixed=True))
            yield fixed


def _unchanged(x: Tensor) -> Tensor:
    return x


def _row(parameter: Tensor, gradient: Tensor | None) -> Tensor:
    values = torch.zeros_like(parameter) if gradient is None else gradient.to_dense() if gradient.is_sparse else gradient
    values = torch.view_as_real(values) if values.is_complex() else values
    return values.detach().reshape(-1).double().cpu()
