"""Frames: a pandas DataFrame as columns, all features in one matrix and the target beside it.

Nothing is imported: a frame is asked for its own columns and types.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.errors import DescriptionError
from instep.text import listed


def columns_of(frame: Any, target: str | Sequence[str] | None, name: str) -> tuple[Tensor, Tensor]:
    """(x, y): the features as float32, one row a sample; the target as it is needed for a class or for a number."""
    known = [str(column) for column in frame.columns]
    if target is None:
        raise DescriptionError(f"{name} is a frame; say with target= which column is to be predicted: {listed(known, most=12)}.")
    targets = [target] if isinstance(target, str) else list(target)
    for wanted in targets:
        if wanted not in known:
            raise DescriptionError(f"target={wanted!r} is no column of {name}; it has {listed(known, most=12)}.")
    duplicates = {column for column in known if known.count(column) > 1}
    if duplicates:
        raise DescriptionError(f"{name} has several columns of the name {min(duplicates)!r}; give each its own.")
    features = [column for column in frame.columns if str(column) not in targets]
    if not features:
        raise DescriptionError(f"{name} has no column besides the target; there is nothing to predict it from.")
    x = torch.from_numpy(np.stack([_feature(frame[column], column, name) for column in features], axis=1))
    y = [_target(frame[column], column, name) for column in frame.columns if str(column) in targets]
    return x, y[0] if isinstance(target, str) else torch.stack([column.float() for column in y], dim=1)


def _feature(column: Any, label: Any, name: str) -> Any:
    numbers = _numbers(column)
    if numbers is None:
        raise DescriptionError(
            f"column {label!r} of {name} holds {column.dtype}, no numbers; encode it (pandas.get_dummies) or drop it."
        )
    return _whole(numbers.astype(np.float32), label, name)


def _target(column: Any, label: Any, name: str) -> Tensor:
    """Classes as int64: whole numbers, booleans, and the codes of a categorical; anything else as float32."""
    if str(column.dtype) == "category":
        codes = np.array(column.cat.codes, dtype=np.int64)
        if (codes < 0).any():
            raise DescriptionError(
                f"target {label!r} of {name} has no value in row {int(np.argmax(codes < 0))}; fill or drop it."
            )
        return torch.from_numpy(codes)
    numbers = _numbers(column)
    if numbers is None:
        raise DescriptionError(
            f"target {label!r} of {name} holds {column.dtype}, no numbers; for classes make it categorical, with the same "
            "categories in every frame: frame[column].astype(pandas.CategoricalDtype(names))."
        )
    numbers = _whole(numbers, label, name)
    return torch.from_numpy(np.array(numbers, dtype=np.int64 if numbers.dtype.kind in "iub" else np.float32))


def _numbers(column: Any) -> Any:
    """The column as an array of numbers, missing ones as nan; None where it holds something else."""
    if str(column.dtype) in ("category", "object", "str", "string") or str(column.dtype).startswith("datetime"):
        return None
    try:
        array = column.to_numpy(dtype=np.float64, na_value=np.nan) if column.hasnans else column.to_numpy()
    except (TypeError, ValueError):
        return None
    array = np.asarray(array)
    return array if array.dtype.kind in "iufb" else None


def _whole(numbers: Any, label: Any, name: str) -> Any:
    if numbers.dtype.kind == "f" and np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        raise DescriptionError(f"column {label!r} of {name} has no value in row {row}; fill it (frame.fillna) or drop the row.")
    return numbers
