"""A summary of data: what a set looks like after its transforms, column by column, as records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from instep.data.sources.data_names import DataNames
from instep.data.structure import is_record

Picture = npt.NDArray[np.uint8]  # height × width × 3


@dataclass(frozen=True)
class ColumnSummary:
    """One column of the batches that were looked at."""

    name: str  # where it is in a batch: "[0]", "['image']"; "" where the batch is one column
    dtype: str
    shape: tuple[int | None, ...]  # of a sample; None where it differs from sample to sample
    low: float | None = None  # the numbers are None for text
    high: float | None = None
    mean: float | None = None
    std: float | None = None
    nonfinite: int = 0  # how many entries are inf or nan
    constant: tuple[int, ...] = ()  # which features are the same in every sample, of a column with one number a feature
    words: tuple[str, ...] = ()  # the first entries of a column of text
    called: str = ""  # what the data calls it
    features: tuple[str, ...] = ()  # what the data calls its numbers, of a column with one number a feature


@dataclass(frozen=True)
class SetSummary:
    """One set of data: training, or a part of validation."""

    name: str
    total: int | None  # samples in an epoch; None where nobody knows
    seen: int  # samples that were looked at
    columns: tuple[ColumnSummary, ...]
    classes: Mapping[int, int] | None = None  # how many samples each has
    all_counted: bool = False  # whether the classes are those of all samples, not only of the ones seen
    padding: float | None = None  # the share of a batch that is filled in
    names: DataNames = DataNames()  # noqa: RUF009  # it is a value


@dataclass(frozen=True)
class Preview:
    """What the model will see."""

    sets: tuple[SetSummary, ...]
    warnings: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = field(default=(), repr=False)
    captions: tuple[str, ...] = ()  # the classes of the pictures, where they have one
    shown_as: str = ""  # how their values became colours
    texts: tuple[str, ...] = ()  # decoded


def leaves(batch: Any, name: str = "") -> list[tuple[str, Any]]:
    """The columns of a batch with their names."""
    if isinstance(batch, Mapping):
        return [leaf for key, part in batch.items() for leaf in leaves(part, f"{name}[{key!r}]")]
    if isinstance(batch, tuple) or (isinstance(batch, list) and any(isinstance(part, Tensor) for part in batch)):
        return [leaf for number, part in enumerate(batch) for leaf in leaves(part, f"{name}[{number}]")]
    if is_record(batch):
        return [leaf for key, part in vars(batch).items() for leaf in leaves(part, f"{name}.{key}")]
    return [(name, batch)]


def column_summary(name: str, parts: Sequence[Any]) -> ColumnSummary | None:
    """Of a column's parts, one a batch; None for what is no column."""
    parts = [torch.from_numpy(part) if isinstance(part, np.ndarray) and part.dtype.kind in "biuf" else part for part in parts]
    if not all(isinstance(part, Tensor) and part.ndim for part in parts):
        if not isinstance(parts[0], list):
            return None
        return ColumnSummary(name, "text", (), words=tuple(str(entry) for entry in parts[0][:3]))
    shapes = {tuple(part.shape[1:]) for part in parts}
    ranks = {len(shape) for shape in shapes}
    shape = (
        tuple(size.pop() if len(size) == 1 else None for size in map(set, zip(*shapes, strict=True)))
        if len(ranks) == 1
        else (None,)
    )
    values = torch.cat([part.detach().cpu().reshape(-1) for part in parts])
    numbers = values.double() if not values.is_complex() else values.abs().double()
    finite = numbers[torch.isfinite(numbers)]
    known = len(finite) > 0
    return ColumnSummary(
        name,
        str(values.dtype).removeprefix("torch."),
        shape,
        low=float(finite.min()) if known else None,
        high=float(finite.max()) if known else None,
        mean=float(finite.mean()) if known else None,
        std=float(finite.std(correction=0)) if known else None,
        nonfinite=len(numbers) - len(finite),
        constant=_constant_features(parts, shape),
    )


def with_names(columns: Sequence[ColumnSummary], names: DataNames) -> tuple[ColumnSummary, ...]:
    """The columns of batches (inputs, target), as the data calls them; a transform may have made others of the inputs."""
    if [column.name for column in columns] != ["[0]", "[1]"]:
        return tuple(columns)
    inputs, target = columns
    features = names.features if inputs.shape == (len(names.features),) else ()
    return replace(inputs, features=features), replace(target, called=names.target)


def _constant_features(parts: Sequence[Tensor], shape: tuple[int | None, ...]) -> tuple[int, ...]:
    """Which of a sample's features never change; of vectors of numbers only, since images have their still corners."""
    if len(shape) != 1 or shape[0] is None or not parts[0].is_floating_point():
        return ()
    rows = torch.cat([part.detach().cpu() for part in parts])
    if len(rows) < 2:
        return ()
    return tuple((rows == rows[0]).all(0).nonzero().squeeze(1).tolist())
