"""How a batch is cut into micro-batches: contiguous pieces, as even as can be.

This file owns the cutting of one batch; which samples are in the batch is the order's business.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from instep.errors import DescriptionError

if TYPE_CHECKING:
    from instep.data.batch_layout import BatchDim, Name


def bounds(samples: int, count: int) -> list[tuple[int, int]]:
    """Where `count` contiguous pieces begin and end, as `torch.tensor_split` cuts; fewer where one would be empty."""
    count = min(count, samples)
    if count == 0:
        return []
    length, longer = divmod(samples, count)
    # The first `longer` pieces have one sample more, so piece i starts at i·length + min(i, longer).
    starts = [i * length + min(i, longer) for i in range(count + 1)]
    return list(itertools.pairwise(starts))


def pieces(
    batch: Any, count: int, *, batch_dim: "BatchDim | None" = None, shared: "Name | Sequence[Name] | None" = None
) -> Iterator[Any]:
    """The batch in `count` contiguous pieces (fewer where it has fewer samples), each of the batch's own structure: views.

    Samples stand in dimension 0 of every column, or in `batch_dim`: one dimension, or one by the name of an entry, `{"x": 1}`.
    What is named in `shared` every piece has whole.

    >>> import torch
    >>> [len(x) for x, y in pieces((torch.zeros(7, 3), torch.zeros(7)), 3)]
    [3, 2, 2]
    """
    from instep.data.batch_layout import BatchLayout  # here: an update cycle by itself cuts nothing

    layout = BatchLayout(batch_dim, shared)
    samples = layout.size(batch)
    if count < 1:
        raise DescriptionError(f"a batch cannot be cut into {count} pieces; use 1 or more.")
    if samples is None:
        raise DescriptionError(f"a batch of type {type(batch).__name__} holds no tensor, so it cannot be cut.")
    if count > 1:
        layout.require(batch, samples, "yours")
    for start, stop in bounds(samples, count):
        yield batch if stop - start == samples else layout.piece(batch, start, stop)
