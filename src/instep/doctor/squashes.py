"""Softmax and sigmoid before a loss, past what only picks, pools or puts numbers together: what lies within 0..1 stays there."""

from typing import Any

from torch import Tensor

from instep.doctor.loss_terms import children, operation, saved, two

SQUASHES = ("Softmax", "Sigmoid")
PICKING = frozenset({"Cat", "Stack", "Gather", "MaskedSelect", "IndexSelect", "Take", "Max", "Amax", "Min", "Amin", "Mean"})
POOLING = ("Upsample", "AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
SHAPES = frozenset(
    ("View", "UnsafeView", "Reshape", "ReshapeAlias", "Permute", "Transpose", "T", "Slice", "Select", "Squeeze", "Unsqueeze",
     "Expand", "Alias", "Clone", "ToCopy", "Split", "Narrow", "Unbind", "Index")
)  # fmt: skip
DEPTH = 12
SHARPEST = 4.0  # a factor: scores that are larger may be meant


def squash_before(node: Any) -> Any:
    """The softmax or sigmoid whose numbers a tensor holds, chosen or pooled, the same in all of its parts; else the node."""
    found = _source(node, DEPTH)
    return found if found is not None and operation(found) in SQUASHES else node


def _source(node: Any, depth: int) -> Any:
    if node is None or depth <= 0:
        return None
    name = operation(node)
    if name in SQUASHES:
        return node
    if name not in SHAPES and name not in PICKING and not name.startswith(POOLING):
        return None
    found = [_source(child, depth - 1) for child in children(node)]
    if not found or found[0] is None:
        return None
    return found[0] if all(each is not None and operation(each) == operation(found[0]) for each in found) else None


def scaled_softmax(node: Any) -> Any:
    """The softmax that a tensor is a small multiple of; None for anything else. A temperature belongs before it."""
    if node is None or operation(node) not in ("Mul", "Div"):
        return None
    first, second = two(node)
    live, other = (first, saved(node, "other")) if second is None else (second, saved(node, "self"))
    if operation(node) == "Div" and first is None:
        return None
    if live is None or operation(live) != "Softmax" or not isinstance(other, Tensor) or other.numel() != 1:
        return None
    factor = float(other) if operation(node) == "Mul" else 1 / float(other) if float(other) else 0.0
    return live if 0 < factor <= SHARPEST and (first is None or second is None) else None
