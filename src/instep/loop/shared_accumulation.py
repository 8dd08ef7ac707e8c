"""Shared sums: what an update cycle has added up over all processes.

For micro-batches i of all processes, with a mean loss vᵢ over cᵢ units each, the gradient of the batch is

    ∇ Σ vᵢ·cᵢ / Σ cᵢ

Each process goes backward on vᵢ·cᵢ/ref, with the same ref everywhere. The exchange gives the sum of all gradients divided by d
(1, or the processes where it gives their mean), so at the end gradients are multiplied by

    d·ref / Σ cᵢ        ( d for losses that are sums )

With ref = the samples of a batch / d this is 1 where each sample counts as one, and nothing has to be multiplied.

No process leaves before the exchange, or the others would wait for it. So each sends whether its loss is finite, and all decide.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from instep.data.device import readable
from instep.errors import ObjectiveError
from instep.loop.accumulation import Sums
from instep.loop.parts import Parts

# What is exchanged, in this order: sums over all processes.
UNITS, WEIGHTED, PIECES, BAD, MEANS, SUMS = range(6)
LENGTH = 6


class SharedSums(Sums):
    """The sums of one process, and after `take` those of all."""

    __slots__ = ("_all", "_all_pieces", "_divisor")

    length = LENGTH  # of `numbers`

    def __init__(self) -> None:
        super().__init__("skip")
        self._divisor = 1
        self._all: Any = None  # numbers where the host knows them, else a tensor on the device
        self._all_pieces = 0

    def begin(self, reference: float, divisor: int) -> None:
        """What the loss of each micro-batch is divided by, and what the exchange divides the sum of all gradients by."""
        self._reference, self._divisor = reference, divisor

    def known_numbers(self) -> list[float] | None:
        """What the others need to know; None where the host does not know it."""
        if not self._values:
            return [0.0] * LENGTH
        if not readable(self._values[0]) or any(isinstance(count, Tensor) for count in self._counts):
            return None
        pairs = [(value.item(), float(count)) for value, count in zip(self._values, self._counts, strict=True)]
        weighted = math.fsum(value * count for value, count in pairs if count) if not self.bad_on_host else math.nan
        units = math.fsum(count for _, count in pairs)
        return [units, weighted, float(len(pairs)), float(self.bad_on_host), *self._kinds()]

    def _kinds(self) -> list[float]:
        return [float(self._kind == kind) for kind in ("mean", "sum")]

    def numbers(self, device: torch.device) -> Tensor:
        """What the others need to know, in double precision."""
        known = self.known_numbers()
        if known is not None:
            return torch.tensor(known, dtype=torch.float64, device=device)
        kinds, pieces = self._kinds(), float(len(self._values))
        counted = self._counted().double()
        units_there = torch.stack([torch.as_tensor(count, dtype=torch.float64, device=device) for count in self._counts]).sum()
        on_host = torch.tensor([pieces, *kinds], dtype=torch.float64, device=device)
        bad = (~torch.isfinite(counted)).any().double()
        return torch.cat([torch.stack([units_there, counted.sum()]), on_host[:1], bad.reshape(1), on_host[1:]])

    def take(self, totals: Tensor | list[float], pieces_at_most: int) -> None:
        """The numbers of all processes, added up."""
        if not isinstance(totals, Tensor) or readable(totals):
            self._all = totals.tolist() if isinstance(totals, Tensor) else totals
            self._all_pieces = int(self._all[PIECES])
            if self._all[MEANS] and self._all[SUMS]:
                raise ObjectiveError(
                    "some processes returned a mean, others a sum; use Loss(value, count) or Loss.sum(value) on all of them."
                )
            self._kind = "sum" if self._all[SUMS] else "mean"
            self.bad_on_host = self._all[BAD] > 0
            return
        self._all, self._all_pieces = totals, pieces_at_most
        if self._kind is None:  # nothing of this batch was computed here
            self._kind = "sum" if totals[SUMS].item() else "mean"

    @property
    def part_names(self) -> tuple[str, ...]:
        """The parts that losses of this process have."""
        return () if self._parts is None else self._parts.names

    def part_numbers(self, names: Sequence[str], device: torch.device) -> Tensor:
        """What the others need to know of these parts."""
        self._parts = Parts() if self._parts is None else self._parts
        return self._parts.told(names, device, micro_batches=self._counted_pieces(), is_sum=self._kind == "sum")

    def take_parts(self, names: Sequence[str], told: Tensor) -> None:
        """What all of them told of these parts, added up."""
        assert self._parts is not None
        self._parts.take(names, told, is_sum=self._kind == "sum")

    def nonfinite(self) -> float | None:
        """The first loss of this process that is not finite and counts."""
        pairs = zip(self._values, self._counts, strict=True)
        return next((value.item() for value, count in pairs if count and not math.isfinite(value.item())), None)

    @property
    def pieces(self) -> int:
        return self._all_pieces if self._all is not None else len(self._values)

    @property
    def is_weighted(self) -> bool:
        return True

    @property
    def nothing_counted(self) -> bool:
        return isinstance(self._all, list) and self._all[UNITS] == 0

    def total(self) -> float | Tensor:
        if self._kind == "sum":
            return 1
        units: float | Tensor = self._all[UNITS]
        return units

    def loss(self) -> Tensor:
        weighted, total = self._all[WEIGHTED], self.total()
        if isinstance(weighted, Tensor):
            return weighted / total
        return torch.scalar_tensor(weighted / total if total else math.nan, dtype=torch.float64)

    def normaliser(self) -> float | Tensor:
        if self._kind == "sum":
            return float(self._divisor)
        total = self.total()
        assert isinstance(self._reference, float)
        share = self._divisor * self._reference / total
        return torch.where(total > 0, share, 0) if isinstance(total, Tensor) else share

    def bad_on_device(self) -> Tensor | None:
        return None if isinstance(self._all, list) else self._all[BAD] > 0
