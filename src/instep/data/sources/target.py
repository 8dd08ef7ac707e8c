"""Target: batches with names made into (inputs, target), for data whose columns have names and a loss that wants a pair."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from instep.data.position import Indices, Position, Source, Transform
from instep.errors import DataError, give_notice
from instep.text import listed


class Targeted:
    """A source whose batches are mappings, with one entry taken out as the target; a single other one stands for itself.

    `names` are the inputs of the training data: these are taken, whatever else there is. Where the target is not needed, a batch
    without it is (inputs,). Where it is inherited from the training data, a batch without names is left as it is.
    """

    def __init__(
        self,
        source: Source,
        target: str | Sequence[str],
        *,
        names: Sequence[str] | None = None,
        is_needed: bool = True,
        is_inherited: bool = False,
    ) -> None:
        self.name = source.name
        self.in_memory = source.in_memory
        self.source = source
        self.target = target
        self.names = names
        self._is_needed = is_needed
        self._is_inherited = is_inherited
        self._extra_said = False

    def __len__(self) -> int:
        return len(self.source)

    def fetch(self, indices: Tensor, at: Position) -> Any:
        batch = self.source.fetch(indices, at)
        if self._is_inherited and not isinstance(batch, Mapping):
            return batch
        wanted = [self.target] if isinstance(self.target, str) else list(self.target)
        there = isinstance(batch, Mapping) and all(entry in batch for entry in wanted)
        if not isinstance(batch, Mapping) or (self._is_needed and not there):
            has = f"has {listed(batch)}" if isinstance(batch, Mapping) else f"is a {type(batch).__name__}"
            raise DataError(f"target={self.target!r} names an entry of each batch of {self.name}, and this one {has}.")
        inputs = self._inputs(batch, wanted)
        if not there:
            return (inputs,)
        return inputs, batch[self.target] if isinstance(self.target, str) else {entry: batch[entry] for entry in wanted}

    def _inputs(self, batch: Mapping[Any, Any], targets: Sequence[str]) -> Any:
        rest = {entry: part for entry, part in batch.items() if entry not in targets}
        if self.names is not None:
            missing = [entry for entry in self.names if entry not in rest]
            if missing:
                raise DataError(f"{self.name} lacks {listed(missing)} of the training data; it has {listed(batch)}.")
            extra = [entry for entry in rest if entry not in self.names]
            if extra and not self._extra_said:
                give_notice(f"{self.name} has entries that the training data has not, left out: {listed(extra)}.")
                self._extra_said = True
            rest = {entry: rest[entry] for entry in self.names}
        return next(iter(rest.values())) if len(rest) == 1 else rest

    def origin(self, indices: Tensor) -> Tensor:
        return self.source.origin(indices)

    def transformed(self, transform: Transform) -> "Targeted":
        """The transform gets the whole sample, and may give other entries than the training data has."""
        source = self.source.transformed(transform)
        return Targeted(source, self.target, is_needed=self._is_needed, is_inherited=self._is_inherited)

    def check(self) -> None:
        self.source.check()

    def report_to(self, slot: Indices) -> None:
        self.source.report_to(slot)
