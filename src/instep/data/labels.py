"""Labels: the class of every sample, where it can be had without loading the samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.data.columns import Columns
from instep.data.position import Indices, Source
from instep.data.samples import Samples
from instep.data.stored import Stored
from instep.data.view import View

NAMES = ("label", "labels", "target", "targets", "y")  # what people call them


def labels_of(source: Source) -> Indices | None:
    """One whole number a sample; None where only loading would tell."""
    if isinstance(source, View):
        inner = labels_of(source.source)
        return None if inner is None else inner[source.picks.take(torch.arange(len(source))).numpy()]
    if isinstance(source, Columns):
        return _as_labels(_column(source.structure))
    if isinstance(source, Samples):
        return _of_dataset(source.dataset, len(source))
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


def _column(structure: Any) -> Any:
    """The column of labels: the last of a tuple, or the one with the name of such."""
    if isinstance(structure, tuple | list) and len(structure) > 1:
        return structure[-1]
    if isinstance(structure, Mapping):
        return next((structure[name] for name in NAMES if name in structure), None)
    return None


def _as_labels(column: Any) -> Indices | None:
    if isinstance(column, Stored):
        column = column.rows(torch.arange(len(column))) if len(column.shape) == 1 else None
    if column is None:
        return None
    array = np.asarray(column)
    return array.astype(np.int64) if array.ndim == 1 and array.dtype.kind in "iub" else None
