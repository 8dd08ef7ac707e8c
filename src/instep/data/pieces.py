"""How a batch is cut into micro-batches: contiguous pieces, as even as can be.

This file owns the cutting of one batch; which samples are in the batch is the order's business.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from instep.data.structure import map_columns, size
from instep.errors import DescriptionError


def bounds(samples: int, count: int) -> list[tuple[int, int]]:
    """Where `count` contiguous pieces begin and end, as `torch.tensor_split` cuts; fewer where one would be empty."""
    count = min(count, samples)
    if count == 0:
        return []
    length, longer = divmod(samples, count)
    # The first `longer` pieces have one sample more, so piece i starts at i·length + min(i, longer).
    starts = [i * length + min(i, longer) for i in range(count + 1)]
    return list(itertools.pairwise(starts))


def pieces(batch: Any, count: int) -> Iterator[Any]:
    """The batch in `count` contiguous pieces (fewer where it has fewer samples), each of the batch's own structure: views.

    >>> import torch
    >>> [len(x) for x, y in pieces((torch.zeros(7, 3), torch.zeros(7)), 3)]
    [3, 2, 2]
    """
    samples = size(batch)
    if count < 1:
        raise DescriptionError(f"a batch cannot be cut into {count} pieces; use 1 or more.")
    if samples is None:
        raise DescriptionError(f"a batch of type {type(batch).__name__} holds no tensor, so it cannot be cut.")
    for start, stop in bounds(samples, count):
        yield batch if stop - start == samples else piece(batch, start, stop)


def piece(batch: Any, start: int, stop: int) -> Any:
    """The samples from `start` to `stop` of a batch, in the batch's own structure: views, nothing is copied."""
    return map_columns(lambda column: column[start:stop], batch)
