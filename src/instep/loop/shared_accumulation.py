"""Shared sums: what an update cycle has added up over all processes.

For micro-batches i of all processes, with a mean loss vᵢ over cᵢ units each, the gradient of the batch is

    ∇ Σ vᵢ·cᵢ / Σ cᵢ

Each process goes backward on vᵢ·cᵢ/ref, with the same ref everywhere (the samples of a batch that are one process's, so that the
gradients have their usual size). The exchange gives the mean over P processes, so at the end gradients are multiplied by

    P·ref / Σ cᵢ        ( P for losses that are sums )

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

    __slots__ = ("_all", "_all_pieces", "_processes")

    length = LENGTH  # of `numbers`

    def __init__(self, reference: float, processes: int) -> None:
        super().__init__("skip")
        self._reference = reference
        self._processes = processes
        self._all: Any = None  # numbers where the host knows them, else a tensor on the device
        self._all_pieces = 0

    def numbers(self, device: torch.device) -> Tensor:
        """What the others need to know, in double precision."""
        kinds = [float(self._kind == kind) for kind in ("mean", "sum")]
        if not self._values:
            return torch.zeros(LENGTH, dtype=torch.float64, device=device)
        pieces = float(len(self._values))
        if readable(self._values[0]) and not any(isinstance(count, Tensor) for count in self._counts):
            pairs = [(value.item(), float(count)) for value, count in zip(self._values, self._counts, strict=True)]
            weighted = math.fsum(value * count for value, count in pairs if count) if not self.bad_on_host else math.nan
            units = math.fsum(count for _, count in pairs)
            return torch.tensor([units, weighted, pieces, float(self.bad_on_host), *kinds], dtype=torch.float64, device=device)
        counted = self._counted().double()
        units_there = torch.stack([torch.as_tensor(count, dtype=torch.float64, device=device) for count in self._counts]).sum()
        on_host = torch.tensor([pieces, *kinds], dtype=torch.float64, device=device)
        bad = (~torch.isfinite(counted)).any().double()
        return torch.cat([torch.stack([units_there, counted.sum()]), on_host[:1], bad.reshape(1), on_host[1:]])

    def take(self, totals: Tensor, pieces_at_most: int) -> None:
        """The numbers of all processes, added up."""
        if readable(totals):
            self._all = totals.tolist()
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
        weighted = torch.as_tensor(self._all[WEIGHTED], dtype=torch.float64)
        if self._kind == "sum":
            return weighted
        return weighted / self.total()

    def normaliser(self) -> float | Tensor:
        if self._kind == "sum":
            return float(self._processes)
        total = self.total()
        assert isinstance(self._reference, float)
        share = self._processes * self._reference / total
        return torch.where(total > 0, share, 0) if isinstance(total, Tensor) else share

    def bad_on_device(self) -> Tensor | None:
        return None if isinstance(self._all, list) else self._all[BAD] > 0
