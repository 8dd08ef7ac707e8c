"""The window: the updates since the last line of the log, whose values stay on the device until they are read in bulk."""

from dataclasses import dataclass

import torch
from torch import Tensor

from instep.records import Update


@dataclass
class Mean:
    """Σ v·c and Σ c; a mean that can go on."""

    weighted: float = 0.0
    count: float = 0.0

    def add(self, weighted: float, count: float) -> None:
        self.weighted += weighted
        self.count += count

    def value(self) -> float | None:
        return self.weighted / self.count if self.count else None


def read(updates: list[Update]) -> tuple[Mean, float | None]:
    """The mean loss of the updates that stepped, and their mean gradient norm where it was measured; waits for the device."""
    stepped = [update for update in updates if not update.skipped]
    loss = Mean()
    if stepped:
        counts = _read([update.count for update in stepped])
        values = _read([update.loss for update in stepped])
        loss.add(sum(v * c for v, c in zip(values, counts, strict=True)), sum(counts))
    norms = _read([update.grad_norm for update in stepped if update.grad_norm is not None])
    return loss, sum(norms) / len(norms) if norms else None


def _read(values: list[Tensor] | list[float | Tensor]) -> list[float]:
    """All values at once: one stack and one read, instead of a read each."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    read = iter(torch.stack([t.float() if t.dtype.itemsize < 4 else t for t in tensors]).tolist() if tensors else [])
    return [next(read) if isinstance(value, Tensor) else value for value in values]
