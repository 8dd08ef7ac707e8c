"""Sums: what an update cycle has added up, and what each micro-batch weighs in it.

The gradient of a batch, for micro-batches i with a mean loss vᵢ over cᵢ units each, is

    ∇ Σ vᵢ·cᵢ / Σ cᵢ

The total Σ cᵢ is known only after the last forward, and one micro-batch alone must be the plain loop bit for bit. So the first
backward runs on v₁ as it is, each later one on vᵢ·cᵢ/ref with ref = c₁, and at the end the gradients are multiplied by ref/Σ cᵢ:

    (v₁ + Σ vᵢ·cᵢ/c₁) · c₁/Σ cᵢ  =  Σ vᵢ·cᵢ / Σ cᵢ

Where somebody knows ahead what the counts of several will add up to, ref is that number: each backward runs on vᵢ·cᵢ/ref, and
ref/Σ cᵢ is 1, so that nothing has to be multiplied at the end (1 % of the update of a small transformer). Where the number was
wrong, it is not 1, and the gradients are right all the same.

Counts stay where they are: numbers and CPU tensors are known on the host, an accelerator's tensors are never read here.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from instep.data.device import readable
from instep.errors import NonFiniteLoss, ObjectiveError
from instep.loop.objective import Loss
from instep.loop.parts import NO_PARTS, Parts

OnNonFinite = Literal["stop", "skip"]
_WIDE = (torch.float32, torch.float64)


class Sums:
    """A value and a count for every micro-batch of one cycle."""

    __slots__ = ("_counts", "_kind", "_on_nonfinite", "_parts", "_reference", "_values", "bad_on_host")

    def __init__(self, on_nonfinite: OnNonFinite, expected: float | None = None) -> None:
        self._on_nonfinite = on_nonfinite
        self._kind: str | None = None
        self._values: list[Tensor] = []
        self._counts: list[float | Tensor] = []
        self._parts: Parts | None = None  # of the losses, where they have any
        self._reference: float | Tensor | None = expected or None  # or the count of the first micro-batch that went backward
        self.bad_on_host = False  # a loss that the host has looked at is not finite, and is to be skipped

    @property
    def pieces(self) -> int:
        return len(self._values)

    @property
    def is_weighted(self) -> bool:
        """Whether the gradients still have to be multiplied by `normaliser()`."""
        return len(self._values) > 1

    @property
    def nothing_counted(self) -> bool:
        """Whether the host knows that every micro-batch had a count of 0."""
        for count in self._counts:  # noqa: SIM110  # a generator takes longer than what it looks at
            if isinstance(count, Tensor) or count:
                return False
        return True

    def add(self, loss: Loss) -> Tensor | None:
        """Take in a micro-batch; returns what to call backward() on, or None where it adds nothing."""
        value = scalar(loss.value)
        if loss.kind != self._kind:
            self._begin_kind(loss.kind)
        count = _known_on_host(loss.count, value)
        self._values.append(value.detach())
        self._counts.append(count)
        if loss.parts is not None:
            if self._parts is None:
                self._parts = Parts()
            self._parts.add(loss.parts, count)
        if not isinstance(count, Tensor) and count == 0:
            return None
        if readable(value) and not math.isfinite(value.item()):
            self._refuse_or_skip(value)
            return None
        if not value.requires_grad:
            raise ObjectiveError(
                "the loss has no graph to go back through: was it computed under no_grad(), detached, or made from "
                "parameters that are all frozen?"
            )
        return value if loss.kind == "sum" else self._weighted(value, count)

    def total(self) -> float | Tensor:
        """Σ cᵢ."""
        counts = self._counts
        return counts[0] if len(counts) == 1 or self._kind == "sum" else sum(counts[1:], counts[0])

    def loss(self) -> Tensor:
        """Σ vᵢ·cᵢ / Σ cᵢ, or Σ vᵢ for sums; nan where nothing was counted."""
        if len(self._values) == 1:
            return self._values[0]
        if self._kind == "sum":
            return torch.stack(self._values).sum()
        total = self.total()
        if not isinstance(total, Tensor) and total and readable(self._values[0]):  # on the host it takes 5 µs, in tensors 40
            pairs = zip(self._values, self._counts, strict=True)
            weighted = math.fsum([value.item() * count for value, count in pairs if count])
            return torch.scalar_tensor(weighted / total, dtype=_widened(self._values[0]).dtype)
        return self._counted().sum() / total

    def parts(self) -> Mapping[str, Tensor]:
        """The parts of the loss, each a mean or a sum as the loss is."""
        if self._parts is None:
            return NO_PARTS
        return self._parts.means(micro_batches=self._counted_pieces(), is_sum=self._kind == "sum")

    def normaliser(self) -> float | Tensor:
        """ref/Σ cᵢ, which the gradients are multiplied by at the end."""
        if self._kind == "sum" or self._reference is None or self.pieces == 1:
            return 1.0
        total = self.total()
        share = self._reference / total
        return torch.where(total > 0, share, 0) if isinstance(total, Tensor) else share

    def bad_on_device(self) -> Tensor | None:
        """An unread flag: is some loss on the accelerator not finite? None where the host has looked at all of them."""
        if readable(self._values[0]):
            return None
        return ~torch.isfinite(self._counted()).all()

    def _counted_pieces(self) -> int:
        """In how many micro-batches of this process something counts, as far as the host knows."""
        return sum(isinstance(count, Tensor) or count > 0 for count in self._counts)

    def _begin_kind(self, kind: str) -> None:
        if self._kind is not None:
            raise ObjectiveError(
                f"micro-batch {self.pieces + 1} returned a {kind}, the one before it a {self._kind}; "
                "use Loss(value, count) or Loss.sum(value) for all of a batch."
            )
        self._kind = kind

    def _refuse_or_skip(self, value: Tensor) -> None:
        if self._on_nonfinite == "stop":
            raise NonFiniteLoss(f"the loss of micro-batch {self.pieces} is {value.item()}; no step was made.")
        self.bad_on_host = True

    def _weighted(self, value: Tensor, count: float | Tensor) -> Tensor:
        if self._reference is None:
            self._reference = torch.where(count > 0, count, 1) if isinstance(count, Tensor) else count
            weighted = value
        else:
            weighted = _widened(value) * (count / self._reference)
        # A micro-batch whose targets are all ignored is nan in torch, and nan times 0 is nan.
        return torch.where(count > 0, weighted, 0) if isinstance(count, Tensor) else weighted

    def _counted(self) -> Tensor:
        """vᵢ·cᵢ for every micro-batch, 0 where cᵢ is 0."""
        values = torch.stack([_widened(value) for value in self._values])
        counts = torch.stack([torch.as_tensor(count, dtype=values.dtype, device=values.device) for count in self._counts])
        return torch.where(counts > 0, values * counts, 0)


def scalar(value: Any) -> Tensor:
    """A loss as a 0-dim tensor, or an error that says what it is."""
    if not isinstance(value, Tensor):
        raise ObjectiveError(f"the loss is a {type(value).__name__}, not a tensor; leave .item() out before backward.")
    if value.numel() != 1:
        raise ObjectiveError(
            f"the loss has shape {tuple(value.shape)}, but must be one number; use its mean, or Loss.sum(loss.sum())."
        )
    return value if value.ndim == 0 else value.reshape(())


def _known_on_host(count: float | Tensor, value: Tensor) -> float | Tensor:
    """The count as a number where that needs no waiting, else as a tensor of at least the loss's precision."""
    if isinstance(count, Tensor):
        if count.numel() != 1:
            raise ObjectiveError(f"count has shape {tuple(count.shape)}, but must be one number.")
        if not readable(count):
            return count.detach().reshape(()).to(torch.promote_types(value.dtype, torch.float32))
        count = count.item()
    if not (math.isfinite(count) and count >= 0):
        raise ObjectiveError(f"count={count} is not a number of units; use a finite number, 0 or more.")
    return count


def _widened(value: Tensor) -> Tensor:
    """At least single precision: a weight times a half-precision loss would round its last digits away."""
    return value if value.dtype in _WIDE else value.to(torch.promote_types(value.dtype, torch.float32))
