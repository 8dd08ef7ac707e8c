"""The window: the updates since the last line of the log, whose values stay on the device until they are read in bulk."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from instep.records import Update


class Mean:
    """Σ v·c and Σ c, added up one by one: in the same order it is the same to the last bit, also across a checkpoint."""

    def __init__(self, weighted: float = 0.0, count: float = 0.0) -> None:
        self.weighted = weighted
        self.count = count

    def add(self, value: float, count: float) -> None:
        if count:  # a mean over nothing is nan, and nan times 0 as well
            self.weighted += value * count
            self.count += count

    def value(self) -> float | None:
        return self.weighted / self.count if self.count else None

    def state(self) -> list[float]:
        return [self.weighted, self.count]


class Window:
    """Adds up updates: the mean loss of those that stepped, their mean gradient norm, how many samples, how many skipped."""

    def __init__(self) -> None:
        self.unread: list[Update] = []
        self._start()

    def _start(self) -> None:
        self.loss, self.grad_norm, self.penalty, self.clipped = Mean(), Mean(), Mean(), Mean()
        self.updates = self.samples = self.skipped = 0
        self.parts: dict[str, Mean] = {}  # of the loss

    def __len__(self) -> int:
        return self.updates + len(self.unread)

    def read(self, *also: Mean, parts: "dict[str, Mean] | None" = None) -> None:
        """Take in what is unread, each loss also into `also`, its parts into `parts`; one read of the device for all of it."""
        stepped = [update for update in self.unread if not update.skipped]
        values = _read([update.loss for update in stepped])
        counts = _read([update.count for update in stepped])
        for mean in (self.loss, *also):
            for value, count in zip(values, counts, strict=True):
                mean.add(value, count)
        for mean, name in ((self.grad_norm, "grad_norm"), (self.penalty, "penalty"), (self.clipped, "clipped")):
            for value in _read([found for update in stepped if (found := getattr(update, name)) is not None]):
                mean.add(value, 1)
        self._read_parts([(update, count) for update, count in zip(stepped, counts, strict=True) if update.parts], parts)
        self.updates += len(self.unread)
        self.samples += sum(update.samples for update in self.unread)
        self.skipped += len(self.unread) - len(stepped)
        self.unread.clear()

    def _read_parts(self, stepped: list[tuple[Update, float]], also: "dict[str, Mean] | None") -> None:
        weights = [(name, count) for update, count in stepped for name in update.parts]
        values = _read([value for update, _ in stepped for value in update.parts.values()])
        for (name, count), value in zip(weights, values, strict=True):
            for means in (self.parts,) if also is None else (self.parts, also):
                means.setdefault(name, Mean()).add(value, count)

    def restart(self) -> None:
        self.unread.clear()
        self._start()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of an open window; everything must have been read."""
        return {
            "loss": self.loss.state(),
            "grad_norm": self.grad_norm.state(),
            "penalty": self.penalty.state(),
            "clipped": self.clipped.state(),
            "updates": self.updates,
            "samples": self.samples,
            "skipped": self.skipped,
            **({"parts": mean_states(self.parts)} if self.parts else {}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.unread.clear()
        self.loss, self.grad_norm = Mean(*state["loss"]), Mean(*state["grad_norm"])
        self.penalty, self.clipped = Mean(*state["penalty"]), Mean(*state["clipped"])
        self.updates, self.samples, self.skipped = state["updates"], state["samples"], state["skipped"]
        self.parts = restored_means(state.get("parts", {}))


def mean_values(means: Mapping[str, Mean], prefix: str = "") -> dict[str, float]:
    """The means that there are, by name."""
    return {f"{prefix}{name}": value for name, mean in means.items() if (value := mean.value()) is not None}


def mean_states(means: Mapping[str, Mean]) -> dict[str, list[float]]:
    return {name: mean.state() for name, mean in means.items()}


def restored_means(states: Mapping[str, Any]) -> dict[str, Mean]:
    return {name: Mean(*state) for name, state in states.items()}


def _read(values: list[Tensor] | list[float | Tensor]) -> list[float]:
    """All values at once: one stack and one read, instead of a read each."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    read = iter(torch.stack([t.float() if t.dtype.itemsize < 4 else t for t in tensors]).tolist() if tensors else [])
    return [next(read) if isinstance(value, Tensor) else value for value in values]
