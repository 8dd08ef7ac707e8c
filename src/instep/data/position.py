"""Where a batch stands, and what can fetch it: the seam between sources and loaders."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

Indices = npt.NDArray[np.int64]
Transform = Callable[[Any], Any]  # of one sample, or of one batch
Collate = Callable[[list[Any]], Any]


class Position(NamedTuple):
    """Where a batch stands: the keys of its samples come from here."""

    seed: int
    epoch: int
    place: int  # of the batch's first sample


class Source(Protocol):
    """Data of a known length that fetches batches by index."""

    @property
    def name(self) -> str:
        """What the user called it, for the errors: "train"."""

    @property
    def in_memory(self) -> bool:
        """Whether a batch is only copied together, so that workers would slow it down."""

    def __len__(self) -> int: ...

    def fetch(self, indices: Tensor, at: Position) -> Any:
        """The batch of the samples with these indices, in this order."""

    def origin(self, indices: Tensor) -> Tensor:
        """The same samples' indices in the data that the user passed."""

    def transformed(self, transform: Transform) -> "Source":
        """The same data with a transform on each sample."""

    def check(self) -> None:
        """Raises where the data is no longer what it was: called as an epoch begins."""

    def report_to(self, slot: Indices) -> None:
        """Write the index of each sample into `slot[0]` before it is loaded: what a worker that dies leaves behind."""
