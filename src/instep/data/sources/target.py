"""Target: batches with names made into (inputs, target), for data whose columns have names and a loss that wants a pair."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from instep.data.position import Indices, Position, Source, Transform
from instep.errors import DataError


class Targeted:
    """A source whose batches are mappings, with one entry taken out as the target; a single other one stands for itself."""

    def __init__(self, source: Source, target: str | Sequence[str]) -> None:
        self.name = source.name
        self.in_memory = source.in_memory
        self.source = source
        self.target = target

    def __len__(self) -> int:
        return len(self.source)

    def fetch(self, indices: Tensor, at: Position) -> Any:
        return parted(self.source.fetch(indices, at), self.target, self.name)

    def origin(self, indices: Tensor) -> Tensor:
        return self.source.origin(indices)

    def transformed(self, transform: Transform) -> "Targeted":
        return Targeted(self.source.transformed(transform), self.target)

    def check(self) -> None:
        self.source.check()

    def report_to(self, slot: Indices) -> None:
        self.source.report_to(slot)


def parted(batch: Any, target: str | Sequence[str], name: str) -> tuple[Any, Any]:
    """(inputs, target) of a batch with names."""
    wanted = [target] if isinstance(target, str) else list(target)
    if not isinstance(batch, Mapping) or any(entry not in batch for entry in wanted):
        has = f"has {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else f"is a {type(batch).__name__}"
        raise DataError(f"target={target!r} names an entry of each batch of {name}, and this one {has}.")
    rest = {key: part for key, part in batch.items() if key not in wanted}
    inputs = next(iter(rest.values())) if len(rest) == 1 else rest
    return inputs, batch[target] if isinstance(target, str) else {key: batch[key] for key in wanted}
