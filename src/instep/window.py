"""The window: updates since the last line of the log, added up on the device and read in bulk."""

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


class Window:
    """The losses and gradient norms of some updates, as they came: nothing is read before `read`."""

    def __init__(self) -> None:
        self._updates: list[Update] = []
        self.samples = 0
        self.skipped = 0

    def __len__(self) -> int:
        return len(self._updates)

    def add(self, update: Update) -> None:
        self._updates.append(update)
        self.samples += update.samples
        self.skipped += update.skipped

    def read(self) -> tuple[Mean, float | None]:
        """The mean loss of the updates that stepped, and their mean gradient norm where it was measured; waits for the device."""
        stepped = [update for update in self._updates if not update.skipped]
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
