"""Parts: what a loss is made of, added up over micro-batches and processes as the loss is. Runs without parts pay nothing."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from instep.errors import ObjectiveError

NO_PARTS: Mapping[str, Tensor] = MappingProxyType({})
# Names that a row of the history, or an evaluation, has itself.
RESERVED = frozenset(
    {
        "kind",
        "step",
        "epoch",
        "loss",
        "lr",
        "momentum",
        "grad_norm",
        "clipped",
        "penalty",
        "skipped",
        "tables",
        "clock",
        "ema",
        "swa",
    }
)
Pair = tuple[Tensor, float | Tensor]  # a value, and the count that it is the mean of


class Parts:
    """The values of each part in the micro-batches of one batch, with their counts."""

    def __init__(self) -> None:
        self._pairs: dict[str, list[Pair]] = {}
        self._of_all: dict[str, Tensor] | None = None  # their means, where other processes have the rest of the batch

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._pairs))

    def add(self, parts: Any, count: float | Tensor) -> None:
        """Take in a micro-batch; one in which nothing counts adds nothing."""
        if isinstance(count, Tensor) or count:
            for name, value in read_parts(parts).items():
                self._pairs.setdefault(name, []).append((value, count))

    def means(self, *, micro_batches: int, is_sum: bool) -> dict[str, Tensor]:
        """Σ vᵢ·cᵢ / Σ cᵢ of each, or Σ vᵢ for sums. `micro_batches` is how many of them count."""
        if self._of_all is not None:
            return self._of_all
        self._require_all(micro_batches)
        return {name: _mean(pairs, is_sum=is_sum) for name, pairs in self._pairs.items()}

    def told(self, names: Sequence[str], device: torch.device, *, micro_batches: int, is_sum: bool) -> Tensor:
        """What the other processes need to know: Σ vᵢ·cᵢ and Σ cᵢ of each, in double precision."""
        self._require_all(micro_batches)
        sums = [number for name in names for number in weigh(self._pairs.get(name, []), is_sum=is_sum)]
        return torch.stack([number.to(device, torch.float64) for number in sums])

    def take(self, names: Sequence[str], told: Tensor, *, is_sum: bool) -> None:
        """What all of them told, added up."""
        weighted, counts = told.reshape(-1, 2).unbind(1)
        self._of_all = dict(zip(names, (weighted if is_sum else weighted / counts).unbind(), strict=True))

    def _require_all(self, micro_batches: int) -> None:
        for name, pairs in self._pairs.items():
            if len(pairs) != micro_batches:
                raise ObjectiveError(
                    f"the part {name} of the loss is in {len(pairs)} of {micro_batches} micro-batches; give every Loss the same "
                    "parts."
                )


def read_parts(parts: Any) -> dict[str, Tensor]:
    """The parts of a loss as 0-dim tensors without a graph, at least in single precision."""
    if not isinstance(parts, Mapping):
        raise ObjectiveError(f'parts= is a {type(parts).__name__}; pass numbers by name, like parts={{"recon": …, "kl": …}}.')
    return {_name(name): _value(name, value) for name, value in parts.items()}


def weigh(pairs: Sequence[Pair], *, is_sum: bool) -> tuple[Tensor, Tensor]:
    """Σ vᵢ·cᵢ and Σ cᵢ, where 0·nan is 0; for sums Σ vᵢ and 1. Of nothing, both are 0."""
    if not pairs:
        return torch.zeros(()), torch.zeros(())
    values = torch.stack([value for value, _ in pairs])
    if is_sum:
        return values.sum(), torch.ones_like(values[0])
    counts = torch.stack([torch.as_tensor(count, dtype=values.dtype, device=values.device) for _, count in pairs])
    return torch.where(counts > 0, values * counts, 0).sum(), counts.sum()


def _mean(pairs: Sequence[Pair], *, is_sum: bool) -> Tensor:
    if len(pairs) == 1:
        return pairs[0][0]
    weighted, counts = weigh(pairs, is_sum=is_sum)
    return weighted if is_sum else weighted / counts


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name or "/" in name or name in RESERVED:
        raise ObjectiveError(
            f'the loss has a part with the name {name!r}; use a word without "/" that the history has no other use for.'
        )
    return name


def _value(name: str, value: Any) -> Tensor:
    found = torch.as_tensor(value).detach() if isinstance(value, Tensor | int | float) else None
    if found is None or found.numel() != 1 or found.is_complex():
        what = f"a {type(value).__name__}" if found is None else f"of shape {tuple(found.shape)}"
        raise ObjectiveError(f"the part {name} of the loss is {what}; it must be one number, a mean over the loss's count.")
    return found.reshape(()).to(torch.promote_types(found.dtype, torch.float32))
