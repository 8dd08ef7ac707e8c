"""Labels: the class of every sample, where it can be had without loading the samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.data.position import Indices, Source
from instep.data.sources.columns import Columns
from instep.data.sources.files import Stored
from instep.data.sources.samples import Samples
from instep.data.sources.target import Targeted
from instep.data.sources.view import View

NAMES = ("label", "labels", "target", "targets", "y")  # what people call them


def labels_of(source: Source) -> Indices | None:
    """One whole number a sample; None where only loading would tell."""
    if isinstance(source, View):
        inner = labels_of(source.source)
        return None if inner is None else inner[source.picks.take(torch.arange(len(source))).numpy()]
    if isinstance(source, Targeted):
        return _named(source.source, source.target)
    if isinstance(source, Columns):
        return _as_labels(column_of_labels(source.structure))
    if isinstance(source, Samples):
        return _of_dataset(source.dataset, len(source))
    return None


def _named(source: Source, target: str | Sequence[str]) -> Indices | None:
    """The labels in a column of a given name."""
    if isinstance(source, View):
        inner = _named(source.source, target)
        return None if inner is None else inner[source.picks.take(torch.arange(len(source))).numpy()]
    if isinstance(source, Columns) and isinstance(source.structure, Mapping) and isinstance(target, str):
        return _as_labels(source.structure.get(target))
    return None


def _of_dataset(dataset: Any, length: int) -> Indices | None:
    """What torchvision's data sets and image_folder offer as an attribute, and the rows of columns."""
    if isinstance(inner := getattr(dataset, "source", None), Columns):
        return labels_of(inner)
    for name in NAMES:
        found = getattr(dataset, name, None)
        if isinstance(found, Tensor | np.ndarray | list | tuple) and len(found) == length:
            return _as_labels(found)
    return None


def target_column(source: Source) -> Tensor | None:
    """The targets of tensors (x, y) in memory, one entry a sample; None where the data is something else."""
    if isinstance(source, View):
        inner = target_column(source.source)
        return None if inner is None else inner[source.picks.take(torch.arange(len(source)))]
    if not isinstance(source, Columns) or not isinstance(source.structure, tuple) or len(source.structure) != 2:
        return None
    target = source.structure[1]
    return target if isinstance(target, Tensor) else None


def column_of_labels(structure: Any) -> Any:
    """The column of labels: of a tuple the first behind the input that has one whole number a sample, or the one so named."""
    if isinstance(structure, tuple | list):
        return next((column for column in structure[1:] if _is_labels(column)), None)
    if isinstance(structure, Mapping):
        return next((structure[name] for name in NAMES if name in structure and _is_labels(structure[name])), None)
    return None


def _is_labels(column: Any) -> bool:
    if isinstance(column, Stored):
        return len(column.shape) == 1
    return isinstance(column, Tensor) and column.ndim == 1 and not (column.is_floating_point() or column.is_complex())


def _as_labels(column: Any) -> Indices | None:
    if isinstance(column, Stored):
        column = column.rows(torch.arange(len(column))) if len(column.shape) == 1 else None
    if column is None:
        return None
    array = np.asarray(column)
    return array.astype(np.int64) if array.ndim == 1 and array.dtype.kind in "iub" else None
