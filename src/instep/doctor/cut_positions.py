"""Positions that a loss leaves out: `loss(model(x)[:, 8:], y[:, 8:])`, where the first ones have too little to go by.

Which positions of an output are compared is known by their values, whatever views and copies came between; a target belongs to
the same positions of the input.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from instep.doctor.positions import parts_of, residuals, shifted

SHORTEST = 4  # positions that must be left
STARTS = 8  # places at which the positions that are left may begin

Cut = tuple[int, int, int]  # all positions, those before the ones that are compared, and how many those are


def find_cut(outputs: list[Tensor], compared: Tensor) -> Cut | None:
    """Which positions of an output a loss has been given; None where it was all of them, or nobody knows."""
    if not compared.numel() or compared.layout is not torch.strided:
        return None
    for output in (part for each in outputs if each.numel() and each.layout is torch.strided for part in parts_of(each)):
        for axis in range(output.dim() - 1, -1, -1):
            length = output.shape[axis]
            kept, rest = divmod(compared.numel() * length, max(output.numel(), 1))
            if rest or not SHORTEST <= kept < length:
                continue
            for start in _possible_starts(output, axis, compared):
                if start + kept <= length and _is_same(output.narrow(axis, start, kept), compared):
                    return length, start, kept
    return None


def shifted_by_hand(source: Tensor, outputs: list[Tensor], root: object) -> tuple[int, Cut] | None:
    """As `shifted`, of a loss by hand that compares some positions of an output: the axis, and which positions."""
    for residual in residuals(root):
        for output in (part for each in outputs for part in parts_of(each)):
            for cut, kept in _pieces(output, residual):
                for numbers in (kept + residual, kept - residual):
                    axis = shifted_in(source, numbers, cut, close=True)
                    if axis is not None:
                        return axis, cut
    return None


def shifted_in(source: Tensor, target: Tensor, cut: Cut, *, close: bool = False) -> int | None:
    """As `shifted`, for a target that belongs to some positions of the source."""
    length, start, kept = cut
    if source.layout is not torch.strided:
        return None
    for axis in range(min(source.dim(), 3)):
        if source.shape[axis] == length and shifted(source.narrow(axis, start, kept), target, close=close) == axis:
            return axis
    return None


def _pieces(output: Tensor, residual: Tensor) -> Iterator[tuple[Cut, Tensor]]:
    """Pieces of an output of the shape of a residual, along one axis."""
    if output.dim() != residual.dim():
        return
    unlike = [axis for axis in range(output.dim()) if output.shape[axis] != residual.shape[axis]]
    if len(unlike) != 1:
        return
    length, kept = output.shape[unlike[0]], residual.shape[unlike[0]]
    if SHORTEST <= kept < length:
        for start in _starts(length - kept):
            yield (length, start, kept), output.narrow(unlike[0], start, kept)


def _starts(left_out: int) -> list[int]:
    """Where what is kept may begin: at the end of what is left out, at the beginning, in between."""
    return list(dict.fromkeys([left_out, 0, *range(min(left_out, STARTS))]))


def _possible_starts(output: Tensor, axis: int, compared: Tensor) -> list[int]:
    """Where the first number of what is compared stands along an axis: the rest is looked at only there."""
    line = output.movedim(axis, -1)
    line = line[(0,) * (line.dim() - 1)]
    found: list[int] = (line == compared[(0,) * compared.dim()]).nonzero().flatten().tolist()
    return found[:STARTS]


def _is_same(kept: Tensor, compared: Tensor) -> bool:
    if kept.shape == compared.shape or kept.dim() < 3:
        return torch.equal(kept.reshape(compared.shape), compared)
    turned = kept.transpose(1, 2)  # classes first, as cross_entropy takes them
    return any(torch.equal(each.reshape(compared.shape), compared) for each in (kept, turned))
