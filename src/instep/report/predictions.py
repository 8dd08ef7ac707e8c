"""Predictions as text: what `instep predict` prints where it writes no file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from instep.text import GAP, Paint, clean, columns, number, plain, wrapped

ROWS, NUMBERS = 5, 8


def render(predictions: Any, classes: Sequence[str] = (), *, width: int | None = None, paint: Paint = plain) -> str:
    """For each output its form, its range, and the first samples; scores of classes under their names."""
    return "\n\n".join("\n".join(_part(name, value, classes, width, paint)) for name, value in named(predictions).items())


def named(predictions: Any) -> dict[str, Any]:
    """The outputs of a model by name: a single one is called predictions, those of a tuple by their place."""
    found = dict(_walk(predictions, ""))
    return {name or "predictions": value for name, value in found.items()}


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        parts = [(str(name), part) for name, part in value.items()]
    elif isinstance(value, tuple):
        parts = [(str(place), part) for place, part in enumerate(value)]
    else:
        yield path, value
        return
    for name, part in parts:
        yield from _walk(part, f"{path}.{name}" if path else name)


def _part(name: str, value: Any, classes: Sequence[str], width: int | None, paint: Paint) -> list[str]:
    if not isinstance(value, Tensor):
        return [f"{clean(name)}: {clean(str(value)[:200])}"]
    each = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape[1:])}" if value.ndim > 1 else str(value.dtype)[6:]
    head = f"{clean(name)}: {len(value) if value.ndim else 1:,} × {each}{_range(value)}"
    lines = [head] if width is None else wrapped(head, width)
    if value.ndim == 0 or value.numel() == 0:
        return lines
    shown = value[:ROWS].reshape(min(ROWS, len(value)), -1)
    labels = [clean(name) for name in classes] if len(classes) == shown.shape[1] else [str(i) for i in range(shown.shape[1])]
    widest = max(9, *map(len, labels)) + len(GAP)
    most = NUMBERS if width is None else max(1, min(NUMBERS, (width - len("sample") - len(GAP) - 1) // widest))
    rest = "…" if shown.shape[1] > most else ""
    rows = [(str(sample), *[_text(one) for one in row[:most]], rest) for sample, row in enumerate(shown)]
    return [*lines, *columns(("sample", *labels[:most], ""), rows, paint=paint)] + (
        [f"and {len(value) - ROWS:,} more"] if len(value) > ROWS else []
    )


def _range(value: Tensor) -> str:
    if value.numel() == 0 or value.is_complex() or value.dtype is torch.bool:
        return ""
    wide = value.double()
    said = f", from {number(wide.min().item())} to {number(wide.max().item())}, mean {number(wide.mean().item())}"
    return said + ("" if bool(wide.isfinite().all()) else f"; {int((~wide.isfinite()).sum()):,} are not finite")


def _text(value: Tensor) -> str:
    return number(value.item()) if value.is_floating_point() else str(value.item())
