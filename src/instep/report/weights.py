"""The weights of two runs side by side: bitwise equal or not, and the largest difference of each tensor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from instep.checkpoint.difference import form
from instep.text import Paint, clean, columns, listed, number, plain

SHOWN = 20


@dataclass(frozen=True)
class Compared:
    """One tensor of both: the largest difference, and that relative to the largest value; None where forms differ."""

    name: str
    largest: float | None
    relative: float | None
    note: str = ""


def lines(
    one: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str], *, width: int | None = None, paint: Paint = plain
) -> list[str]:
    """A verdict, then the tensors that differ, the most different first."""
    ours, theirs = ({n: v for n, v in state.items() if isinstance(v, Tensor)} for state in (one, other))
    different = [found for name in ours if name in theirs and (found := compare(name, ours[name], theirs[name]))]
    alone = [
        f"only in {clean(run)}: {listed(map(clean, only))}" for run, only in zip(names, _alone(ours, theirs), strict=True) if only
    ]
    common = sum(name in theirs for name in ours)
    if not common:
        return ["weights: no tensor is in both", *alone]
    if not different:
        said = f"weights: all {common:,} tensors" if not alone else f"weights: the {common:,} tensors of both"
        return [f"{said} are bitwise equal", *alone]
    different.sort(key=lambda found: (found.relative is not None, -(found.relative or 0.0)))
    rows = [(clean(f.name), number(f.largest), number(f.relative), f.note) for f in different[:SHOWN]]
    table = columns(("tensor", "largest difference", "relative", ""), rows, left=("tensor", ""), width=width, paint=paint)
    more = [f"and {len(different) - SHOWN:,} more"] if len(different) > SHOWN else []
    return [f"weights: {len(different):,} of {common:,} tensors differ", *table, *more, *alone]


def compare(name: str, one: Tensor, other: Tensor) -> Compared | None:
    """How two tensors differ; None where they are bitwise equal (a nan equals itself, 0.0 is not -0.0)."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return Compared(name, None, None, f"{form(one)} and {form(other)}")
    if torch.equal(_bits(one), _bits(other)):
        return None
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    largest = float((one - other).abs().nan_to_num(nan=torch.inf, posinf=torch.inf).max())
    scale = float(torch.maximum(one.abs(), other.abs()).max())
    return Compared(name, largest, largest / scale if scale > 0 else 0.0, "" if largest else "only the sign of zeros")


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def _alone(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    return [name for name in ours if name not in theirs], [name for name in theirs if name not in ours]
