"""Underlying: what is at the bottom of a source, behind views, targets and transforms: its columns, and the names in it."""

from collections.abc import Mapping
from typing import Any

from instep.data.sources.columns import Chained, Columns, Rows
from instep.data.sources.frame import FrameLayout
from instep.data.sources.samples import Samples
from instep.data.sources.target import Targeted
from instep.data.sources.view import View


def underlying(source: Any) -> Any:
    """The source that reads the data: columns, or samples."""
    while isinstance(source, View | Targeted):
        source = source.source
    return source.dataset.source if isinstance(source, Samples) and isinstance(source.dataset, Rows) else source


def frame_layout(source: Any) -> FrameLayout | None:
    """How a frame is read; None where the data is none."""
    found = underlying(source)
    return found.layout if isinstance(found, Columns) else None


def is_narrowed(source: Any) -> bool:
    """Whether numbers are read with fewer bits than the data has."""
    found = underlying(source)
    return isinstance(found, Columns | Chained) and found.is_narrowed


def input_names(source: Any) -> list[str] | None:
    """The entries of a batch beside its target, where data with names says them without loading anything."""
    if not isinstance(source, Targeted):
        return None
    found = underlying(source)
    if isinstance(found, Columns) and isinstance(found.structure, Mapping):
        names = list(found.structure)
    elif isinstance(found, Samples) and found.transform is None and found.collate is None:
        names = _given_columns(found.dataset)
    else:
        return None
    targets = [source.target] if isinstance(source.target, str) else list(source.target)
    return [name for name in names if name not in targets] or None


def _given_columns(dataset: Any) -> list[str]:
    """The columns that a data set of Hugging Face gives: maybe fewer than it has; nobody knows with a transform of its own."""
    form = getattr(dataset, "format", None)
    if not isinstance(form, Mapping) or form.get("type") == "custom":
        return []
    return [str(column) for column in form.get("columns") or ()]
