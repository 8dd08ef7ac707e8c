"""Positions of sequences: which input a target follows one position later, and what a later position may reach.

A target is given to a loss of torch's; of a loss by hand it is what differs from an output by what the loss squares, or takes the
size of.
"""

from typing import Any

import torch
from torch import Tensor

from instep.doctor.loss_terms import operation, saved

NODES = 64  # of the graph of a loss by hand
RESIDUALS = 6  # that are looked at
AHEAD = 8  # positions by which numbers that are predicted may come later
PARTS = 8  # an output may have so many numbers at each position: a mean and a variance, quantiles
CLOSE = 1e-4  # of the spread: a target that was computed from an output is not exact
LAYERS = ("Convolution", "Addmm", "Mm", "Bmm", "NativeLayerNorm", "NativeBatchNorm", "Embedding", "ThnnFused", "MkldnnRnn")


def shifted(source: Tensor, target: Tensor, *, close: bool = False) -> int | None:
    """The time axis along which the target is the source, or one of its features, one position later; None where it is not.

    `close`: the target may differ by a little, since it was computed.
    """
    if any(tensor.layout is not torch.strided for tensor in (source, target)):
        return None  # a sparse adjacency, rows of several lengths: nothing to take positions from
    if source.dim() == 3 and source.is_floating_point() and not target.is_floating_point() and _is_one_hot(source):
        source = source.argmax(-1)
    if source.dim() < 2 or target.device != source.device or source.is_floating_point() != target.is_floating_point():
        return None
    series = source.dim() == 3 and source.is_floating_point()
    for axis in (1, 0, 2) if series else (1, 0):
        if _follows(source, target, axis, close):
            return axis
    if series and target.numel() < source.numel():
        for part in range(min(source.shape[2], PARTS)):
            for axis in (1, 0):
                if _follows(source[..., part], target, axis, close, far=part == 0):
                    return axis
        for part in range(min(source.shape[1], PARTS)):
            if _follows(source[:, part], target, 1, close, far=part == 0):
                return 2
    return None


def _follows(source: Tensor, target: Tensor, axis: int, close: bool, *, far: bool = True) -> bool:
    """Whether a target is the source one position later; of numbers, a few positions later will do."""
    ahead = AHEAD if far and source.is_floating_point() and not close else 1
    return any(_follows_by(source, target, axis, places, close) for places in range(1, ahead + 1))


def _follows_by(source: Tensor, target: Tensor, axis: int, places: int, close: bool) -> bool:
    kept = source.shape[axis] - places
    if kept < 3 * places:
        return False
    later = source.narrow(axis, places, kept)
    if target.numel() == source.numel():
        earlier = target.reshape(source.shape).narrow(axis, 0, kept)
    elif target.numel() == later.numel():
        earlier = target.reshape(later.shape)
    else:
        return False
    return _agree(earlier, later, close) and not _agree(earlier, source.narrow(axis, 0, kept), close)


def _is_one_hot(source: Tensor) -> bool:
    return bool(((source == 0) | (source == 1)).all()) and bool((source.sum(-1) == 1).all())


def _agree(target: Tensor, source: Tensor, close: bool) -> bool:
    """Whether targets are the source, those that are left out (-100) aside: a prompt, padding; enough of them, not all alike."""
    if target.is_floating_point():
        if not close:
            return torch.equal(target, source)
        return bool((target[:1] - source[:1]).abs().max() <= CLOSE * source.std()) and bool(
            (target - source).abs().max() <= CLOSE * source.std()
        )
    counted = target >= 0
    kept = target[counted]
    if len(kept) < max(8, 0.05 * target.numel()) or bool((kept == kept[0]).all()):
        return False
    return bool((kept == source[counted]).all())


# -- losses by hand


def predicted_numbers(root: Any, outputs: list[Tensor]) -> list[Tensor]:
    """What a loss by hand may compare an output with: the output, and more or less what is squared in its graph."""
    found: list[Tensor] = []
    for residual in residuals(root):
        for output in outputs:
            for part in parts_of(output):
                if part.shape == residual.shape:
                    found += [part + residual, part - residual]
    return found[: 4 * RESIDUALS]


def residuals(root: Any) -> list[Tensor]:
    """Tensors in the graph of a loss, before the next layer, that a function of differences has kept."""
    pending, seen = [root], {root}
    found: list[Tensor] = []
    while pending and len(seen) < NODES and len(found) < RESIDUALS:
        node = pending.pop(0)
        name = operation(node)
        if name in ("Pow", "Abs", "Mul", "Maximum", "Cosh", "Sgn", "Div", "SmoothL1Loss", "Square"):
            for each in ("self", "other") if name in ("Mul", "Maximum") else ("self",):
                kept = saved(node, each)
                if kept is not None and kept.dim() >= 2 and kept.is_floating_point():
                    found.append(kept.detach())
        if not name.startswith(LAYERS):
            for child, _ in node.next_functions:
                if child is not None and child not in seen:
                    seen.add(child)
                    pending.append(child)
    return found


def parts_of(output: Tensor) -> list[Tensor]:
    """An output, and what it holds of several kinds at each position."""
    found = [output]
    if output.dim() == 3:
        if output.shape[2] <= PARTS:
            found += [output[..., part] for part in range(output.shape[2])]
        if output.shape[1] <= PARTS:
            found += [output[:, part] for part in range(output.shape[1])]
    return found


# -- what a later position reaches


class Layout:
    """Where positions stand in a source: and in what a model makes of it."""

    def __init__(self, source: Tensor, axis: int) -> None:
        self.source = source.transpose(1, 2) if axis == 2 else source  # positions along the first axis or the second
        self._given, self._numbers = axis, source.is_floating_point()
        self.axis = min(axis, 1)
        self.length, self.samples = self.source.shape[self.axis], self.source.shape[1 - self.axis]

    def accept(self, output: Tensor) -> bool:
        """Whether it is known where the positions of an output are."""
        return self._order(output) != ""

    def changes(self, apart: Tensor) -> Tensor:
        """The largest number at each sample and position, in the order of the source."""
        order = self._order(apart)
        if order == "classes first":
            apart = apart.transpose(1, 2)
        return apart.reshape(*self.source.shape[:2], -1).amax(-1)

    def _order(self, output: Tensor) -> str:
        length, samples, axis = self.length, self.samples, self.axis
        if output.dim() == 3 and output.shape[1] == output.shape[2] == length:
            return ""  # positions and classes, who knows which
        if self._given == 2 and output.dim() == 3 and len(output) == samples and output.shape[2] == length:
            return "classes first"
        if output.dim() >= 3 and output.shape[axis] == length and output.shape[1 - axis] == samples:
            return "whole"
        # As cross_entropy takes it: (samples, classes, positions).
        if output.dim() == 3 and axis == 1 and len(output) == samples and output.shape[2] == length != output.shape[1]:
            return "classes first"
        if output.dim() == 2 and len(output) == length * samples:
            return "flat"
        # One number at each position: of a series, not of words.
        return "numbers" if self._numbers and output.shape == self.source.shape[:2] else ""

    def change_at(self, position: int, tensor: Tensor) -> Tensor:
        """A copy of the source in which samples have exchanged that position."""
        changed = tensor.clone()
        axis = 2 if self._given == 2 else self.axis
        changed.select(axis, position).copy_(tensor.select(axis, position).roll(1, 0))
        return changed


def telling_positions(source: Tensor, axis: int) -> list[int]:
    """Late positions at which rows differ: the last one is often padding, or an end, in all of them."""
    length = source.shape[axis]
    differ = [
        position
        for position in range(length - 1, 0, -1)
        if not torch.equal(source.select(axis, position), source.select(axis, position).roll(1, 0))
    ]
    return list(dict.fromkeys([*differ[:1], *differ[len(differ) // 2 :][:1]]))


def padding(source: Tensor, axis: int) -> Tensor:
    """Where rows are padded: runs of one value at either end, of a value that is there twice or more in some row.

    What comes out there counts for nothing. Attention whose mask leaves out the padded queries looks at all positions from them.
    """
    rows = source.transpose(0, 1 - axis).flatten(2) if source.dim() > 2 else source.transpose(0, 1 - axis).unsqueeze(-1)
    found = torch.zeros(rows.shape[:2], dtype=torch.bool, device=rows.device)
    for late in (False, True):
        ends = rows.flip(1) if late else rows
        run = (ends == ends[:, :1]).all(-1).long().cumprod(1).bool()
        values = ends[run[:, 1], 0].unique(dim=0)
        known = (ends[:, :1] == values).all(-1).any(1)
        padded = run & known[:, None]
        found |= padded.flip(1) if late else padded
    return found.transpose(0, 1 - axis)
