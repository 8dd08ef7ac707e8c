"""Frames: a pandas DataFrame as columns, all features in one matrix and the target beside it. Names decide, never positions.

Nothing is imported: a frame is asked for its own columns and types. A mapping of columns is read in the same way where the
training data was a frame.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from instep.errors import DescriptionError, give_notice
from instep.records import record_class
from instep.text import listed

MOST = 12  # columns that are named in an error
SayRow = Callable[[int], str]  # where a row stands, from 0, in words


@record_class
class FrameLayout:
    """How a frame is read: which columns make up the inputs, in which order, and what is predicted from them."""

    names: tuple[str, ...]
    target: str | Sequence[str]
    classes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # of each categorical target, in the order of its codes
    whole: frozenset[str] = frozenset()  # the targets that are whole numbers

    @property
    def targets(self) -> list[str]:
        return [self.target] if isinstance(self.target, str) else list(self.target)


def layout_of(frame: Any, target: str | Sequence[str] | None, name: str) -> FrameLayout:
    """The layout of a frame that is trained on: every column but the target is an input, in the frame's own order."""
    known = _labels(frame, name)
    if target is None:
        raise DescriptionError(
            f"{name} is a frame; say with data.source(frame, target=…) which column is to be predicted: "
            f"{listed(known, most=MOST)}."
        )
    targets = [target] if isinstance(target, str) else list(target)
    for wanted in targets:
        if wanted not in known:
            raise DescriptionError(f"target={wanted!r} is no column of {name}; it has {listed(known, most=MOST)}.")
    names = tuple(column for column in known if column not in targets)
    if not names:
        raise DescriptionError(f"{name} has no column besides the target; there is nothing to predict it from.")
    read = {wanted: frame[known[wanted]] for wanted in targets}
    classes = {wanted: tuple(column.cat.categories) for wanted, column in read.items() if _is_categorical(column)}
    numbers = {wanted: _numbers(column) for wanted, column in read.items()}
    whole = {wanted for wanted, array in numbers.items() if array is not None and array.dtype.kind in "iub"}
    return FrameLayout(names, target, classes, frozenset(whole | set(classes)))


def columns_of(
    frame: Any,
    layout: FrameLayout,
    name: str,
    *,
    dtype: torch.dtype = torch.float32,
    target_needed: bool = True,
    say_row: SayRow | None = None,
) -> tuple[Tensor, Tensor]:
    """(x, y): the features as one matrix, one row a sample; the target as it is needed for a class or for a number.

    Columns are found by their names. A target that is not needed is not looked at: new rows may have none, or an empty one, and
    zeros stand for it. `say_row` says where the row of an error stands, for whoever has the table in another form.
    """
    say_row = say_row or (_by_iloc if is_frame(frame) else _by_number)
    known = _labels(frame, name)
    _require_names(known, layout, name, target_needed=target_needed)
    x = _features({column: frame[known[column]] for column in layout.names}, name)
    _require_values(x, layout.names, name, say_row)
    features = torch.from_numpy(x).to(dtype)
    if target_needed:
        y = [_as_layout(_target(frame[known[c]], c, layout, name, say_row), c, layout, name, say_row) for c in layout.targets]
    else:
        y = [torch.zeros(len(x), dtype=torch.int64 if column in layout.whole else dtype) for column in layout.targets]
    if isinstance(layout.target, str):
        return features, y[0].to(dtype) if y[0].is_floating_point() else y[0]
    return features, torch.stack([column.to(dtype) for column in y], dim=1)


def is_wide(frame: Any, layout: FrameLayout) -> bool:
    """Whether a column that is read holds float64."""
    labels = _labels(frame, "")
    return any(column in labels and _dtype(frame[labels[column]]) == "float64" for column in (*layout.names, *layout.targets))


# --- A frame of inputs with its target beside it


class Whole(NamedTuple):
    """A frame that has its target in it."""

    frame: Any
    target: str | list[str]


def beside_frame(data: Any, layout: FrameLayout | None, name: str) -> Whole | None:
    """`(frame, target)` as one frame, row by row; None for anything else. `layout` is that of the training data."""
    if not (type(data) is tuple and len(data) == 2 and is_frame(data[0])):
        return None
    frame, target = data
    rows = len(target) if hasattr(target, "__len__") else 0
    if rows != len(frame):
        raise DescriptionError(f"{name} is a frame of {len(frame):,} rows and a target of {rows:,}; give each row its own.")
    if layout is not None:
        named: str | list[str] = layout.target if isinstance(layout.target, str) else list(layout.target)
    elif is_frame(target):
        named = [str(label) for label in target.columns]
    else:
        label = getattr(target, "name", None)
        named = "target" if label is None or label in frame.columns else str(label)
    if isinstance(named, str):
        columns = {named: target.iloc[:, 0] if is_frame(target) else target}
    else:
        columns = {label: target.iloc[:, place] if is_frame(target) else target for place, label in enumerate(named)}
    # Their arrays: a Series itself would be aligned by its index.
    columns = {label: getattr(column, "array", column) for label, column in columns.items()}
    return Whole(frame.drop(columns=[label for label in columns if label in frame.columns]).assign(**columns), named)


def as_target(series: Any, name: str) -> Tensor:
    """A column of a frame that stands alone, as a target."""
    label = str(getattr(series, "name", None) or "target")
    classes = {label: tuple(series.cat.categories)} if _is_categorical(series) else {}
    return _target(series, label, FrameLayout((), label, classes), name, _by_number)


def is_frame(data: Any) -> bool:
    return _is_of_pandas(data) and hasattr(data, "columns") and hasattr(data, "iloc")


def is_series(data: Any) -> bool:
    return _is_of_pandas(data) and hasattr(data, "iloc") and not hasattr(data, "columns")


def _is_of_pandas(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "pandas"


def _labels(frame: Any, name: str) -> dict[str, Any]:
    """The frame's own labels of its columns, by how they are written."""
    labels = list(getattr(frame, "columns", frame))
    written = [str(label) for label in labels]
    duplicates = {column for column in written if written.count(column) > 1}
    if duplicates:
        raise DescriptionError(f"{name} has several columns of the name {min(duplicates)!r}; give each its own.")
    return dict(zip(written, labels, strict=True))


def _require_names(known: Mapping[str, Any], layout: FrameLayout, name: str, *, target_needed: bool) -> None:
    missing = [column for column in layout.names if column not in known]
    if missing:
        raise DescriptionError(
            f"{name} lacks the column{'s' if len(missing) > 1 else ''} {listed(missing, most=MOST)} of the training data; it has "
            f"{listed(known, most=MOST)}."
        )
    lacking = [column for column in layout.targets if column not in known]
    if lacking and target_needed:
        raise DescriptionError(f"{name} lacks the target {listed(lacking)}, so no loss can be worked out; predict() needs none.")
    extra = [column for column in known if column not in layout.names and column not in layout.targets]
    if extra:
        give_notice(
            f"{name} has {'columns' if len(extra) > 1 else 'a column'} that the training data has not, left out: "
            f"{listed(extra, most=MOST)}."
        )


def _features(columns: Mapping[str, Any], name: str) -> Any:
    """The columns as one matrix; names all that hold no numbers, since who encodes one wants to encode the others too."""
    numbers = {label: _numbers(column) for label, column in columns.items()}
    wrong = [label for label, array in numbers.items() if array is None]
    if len(wrong) == 1:
        raise DescriptionError(
            f"column {wrong[0]!r} of {name} holds {_dtype(columns[wrong[0]])}, no numbers; encode it (pandas.get_dummies) or "
            "drop it."
        )
    if wrong:
        told = listed((f"{label!r} ({_dtype(columns[label])})" for label in wrong), most=MOST)
        raise DescriptionError(f"columns of {name} hold no numbers: {told}; encode them (pandas.get_dummies) or drop them.")
    return np.stack([array.astype(np.float64) for array in numbers.values()], axis=1)


def _require_values(x: Any, names: Sequence[str], name: str, say_row: SayRow) -> None:
    """That no feature has a gap; names all that have one, since who fills one column wants to fill the others too."""
    gaps = np.isnan(x)
    columns = [place for place, has_gaps in enumerate(gaps.any(axis=0)) if has_gaps]
    if len(columns) == 1:
        _complete(x[:, columns[0]], names[columns[0]], name, say_row)
    if columns:
        first = {names[place]: say_row(int(np.argmax(gaps[:, place]))) for place in columns[:MOST]}
        told = listed((f"{names[place]!r} (first in {first.get(names[place])})" for place in columns), most=MOST)
        raise DescriptionError(
            f"columns of {name} have no value in some rows: {told}; fill them (frame.fillna) or drop the rows."
        )


def _target(column: Any, label: str, layout: FrameLayout, name: str, say_row: SayRow) -> Tensor:
    """Classes as int64: whole numbers, booleans, and the codes of a categorical; anything else as numbers."""
    if label in layout.classes:
        return _codes(column, label, layout.classes[label], name, say_row)
    numbers = _numbers(column)
    if numbers is None:
        raise DescriptionError(
            f"target {label!r} of {name} holds {_dtype(column)}, no numbers; for classes make it categorical: "
            f"frame[{label!r}].astype('category')."
        )
    numbers = _complete(numbers, label, name, say_row)
    return torch.from_numpy(np.array(numbers, dtype=np.int64 if numbers.dtype.kind in "iub" else np.float64))


def _as_layout(values: Tensor, label: str, layout: FrameLayout, name: str, say_row: SayRow) -> Tensor:
    """A target as whole numbers where the training data has such, as others where it has others: a file may write 3.0 as 3."""
    if label not in layout.whole:
        return values.double()
    if not values.is_floating_point():
        return values
    whole = values.long()
    if torch.equal(whole.double(), values):
        return whole
    row = int((whole.double() != values).nonzero()[0])
    raise DescriptionError(
        f"target {label!r} of {name} is {values[row].item():g} in {say_row(row)}, and the training data has whole numbers."
    )


def _codes(column: Any, label: str, classes: tuple[Any, ...], name: str, say_row: SayRow) -> Tensor:
    """The number of each class in the training data; the codes of another frame may count otherwise."""
    place = {value: number for number, value in enumerate(classes)}
    values = list(column)
    codes = np.array([place.get(value, -1) for value in values], dtype=np.int64)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        if values[row] != values[row] or values[row] is None:  # nan is not itself
            raise DescriptionError(f"target {label!r} of {name} has no value in {say_row(row)}; fill or drop it.")
        raise DescriptionError(
            f"target {label!r} of {name} is {values[row]!r} in {say_row(row)}, which is no class of the training data; it has "
            f"{listed(map(str, classes), most=MOST)}."
        )
    return torch.from_numpy(codes)


def _is_categorical(column: Any) -> bool:
    return _dtype(column) == "category"


def _dtype(column: Any) -> str:
    return str(column.dtype) if hasattr(column, "dtype") else type(column).__name__


def _numbers(column: Any) -> Any:
    """The column as an array of numbers, missing ones as nan; None where it holds something else."""
    if _dtype(column) in ("category", "object", "str", "string") or _dtype(column).startswith("datetime"):
        return None
    try:
        if hasattr(column, "to_numpy"):
            column = column.to_numpy(dtype=np.float64, na_value=np.nan) if column.hasnans else column.to_numpy()
        array = np.asarray(column)
    except (TypeError, ValueError):
        return None
    return array if array.ndim == 1 and array.dtype.kind in "iufb" else None


def _complete(numbers: Any, label: str, name: str, say_row: SayRow) -> Any:
    if numbers.dtype.kind == "f" and np.isnan(numbers).any():
        row = say_row(int(np.argmax(np.isnan(numbers))))
        raise DescriptionError(f"column {label!r} of {name} has no value in {row}; fill it (frame.fillna) or drop the row.")
    return numbers


def _by_iloc(row: int) -> str:
    return f"frame.iloc[{row}]"


def _by_number(row: int) -> str:
    return f"row {row}"
