"""Class numbers in the graph of a loss that is written by hand: which entry of the log-probabilities was picked at each place.

`-log_probs.gather(-1, tags.unsqueeze(-1)).mean()` and its like, by `gather`, by an index, by a product with one-hot vectors. Only
where every place counts alike: a mask, a weight or a choice on the way means that somebody has thought of it.
"""

from typing import Any

import torch
from torch import Tensor

NODES = 24
# Nodes that leave every place in the loss, and none out.
ALIKE = frozenset(
    f"{name}Backward{number}"
    for name in ("Neg", "Mean", "Sum", "Sub", "Add", "Rsub", "View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze",
                 "Unsqueeze", "Alias", "Transpose", "T", "Permute", "Clone")
    for number in (0, 1, 2)
)  # fmt: skip
SHAPES = frozenset(
    f"{name}Backward{number}"
    for name in ("View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "Alias", "Clone", "Expand")
    for number in (0, 1, 2)
)


def picked_targets(root: Any) -> tuple[Any, Tensor] | None:
    """(node of the log-probabilities, class numbers); None where a loss is something else. The numbers have a shape as the
    log-probabilities have it without the classes."""
    pending, seen = [(root, False)], 0
    while pending and seen < NODES:
        node, normalised = pending.pop(0)
        seen += 1
        if node is None:
            continue
        name = node.name()
        if name == "GatherBackward0":
            found = _gathered(node)
        elif name == "IndexBackward0":
            found = _indexed(node)
        elif name == "MulBackward0":
            found = _multiplied(node)
        else:
            found = None
        if found is not None and (normalised or _is_normalised(found[0])):
            return found
        children = [child for child, _ in node.next_functions]
        if name in ALIKE:
            normalised = normalised or (name == "SubBackward0" and any(_is_sum_of_classes(child) for child in children))
            pending += [(child, normalised) for child in children]
        elif name in ("DivBackward0", "MulBackward0") and _is_by_number(node):
            pending += [(child, normalised) for child in children]
    return None


def _gathered(node: Any) -> tuple[Any, Tensor] | None:
    index, child = node._saved_index, node.next_functions[0][0]
    dims, axis = index.dim(), int(node._saved_dim)
    axis = axis - (1 << 64) if axis >= 1 << 63 else axis
    if child is None or dims not in (2, 3) or axis % dims != dims - 1 or index.shape[-1] != 1:
        return None
    return child, index.squeeze(-1)


def _indexed(node: Any) -> tuple[Any, Tensor] | None:
    """`log_probs[torch.arange(n), target]`, or with two such counts before the target."""
    indices, child = node._saved_indices, node.next_functions[0][0]
    shape = _shape(child) if child is not None else ()
    if len(shape) not in (2, 3) or len(indices) != len(shape):
        return None
    if any(not isinstance(index, Tensor) or index.is_floating_point() or index.dtype == torch.bool for index in indices):
        return None
    *counts, target = indices
    if tuple(target.shape) != shape[:-1] or target.device.type != "cpu":
        return None
    whole = all(
        index.numel() == size and torch.equal(index.reshape(-1), torch.arange(size))
        for index, size in zip(counts, shape, strict=False)
    )
    return (child, target) if whole else None


def _multiplied(node: Any) -> tuple[Any, Tensor] | None:
    """A product with vectors of which each has a single 1."""
    children = [child for child, _ in node.next_functions]
    if len(children) != 2 or (children[0] is None) == (children[1] is None):
        return None
    live, other = (children[0], node._saved_other) if children[1] is None else (children[1], node._saved_self)
    if not isinstance(other, Tensor) or other.dim() not in (2, 3) or tuple(other.shape) != _shape(live) or other.shape[-1] < 3:
        return None
    if other.device.type != "cpu" or not bool(((other == 0) | (other == 1)).all()) or not bool((other.sum(-1) == 1).all()):
        return None
    return live, other.argmax(-1)


def _is_normalised(node: Any) -> bool:
    """Whether these are log-probabilities, with nothing done to them since."""
    node = _past_shapes(node)
    if node is None:
        return False
    name = node.name()
    children = [child for child, _ in node.next_functions]
    if name == "SubBackward0":
        return any(_is_sum_of_classes(child) for child in children)
    below = _past_shapes(children[0]) if name == "LogBackward0" else None
    return name == "LogSoftmaxBackward0" or (below is not None and below.name() == "SoftmaxBackward0")


def _is_sum_of_classes(node: Any) -> bool:
    """Whether this is the logarithm of the sum of exponentials over the last axis, at each place."""
    node = _past_shapes(node)
    if node is None or node.name() != "LogsumexpBackward0":
        return False
    given = node._saved_self
    axes = [axis - (1 << 64) if axis >= 1 << 63 else axis for axis in node._saved_dim]
    return [axis % given.dim() for axis in axes] == [given.dim() - 1]


def _is_by_number(node: Any) -> bool:
    """Whether a product or quotient is by a number, or something else without a graph that is the same for all places."""
    children = [child for child, _ in node.next_functions]
    if len(children) != 2 or (children[0] is None) == (children[1] is None):
        return False
    other = node._saved_other if children[1] is None else node._saved_self
    return other is None or other.numel() == 1


def _past_shapes(node: Any) -> Any:
    for _ in range(8):
        if node is None or node.name() not in SHAPES or not node.next_functions:
            break
        node = node.next_functions[0][0]
    return node


def _shape(node: Any) -> tuple[int, ...]:
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[0].shape) if metadata else ()


def unreduced_targets(root: Any) -> tuple[Any, Tensor, int, Any] | None:
    """(node of the log-probabilities, class numbers, what is ignored, weights) of a loss of torch's with reduction="none" that is
    then averaged, or added up, with every place in it; None where a loss is something else. Whole rows may have weights."""
    pending, seen, most = [root], 0, 0
    while pending and seen < NODES:
        node = pending.pop(0)
        seen += 1
        if node is None:
            continue
        name = node.name()
        if name in ("NllLossBackward0", "NllLoss2DBackward0"):
            target = node._saved_target
            if int(node._saved_reduction) != 0 or most >= target.numel() or target.device.type != "cpu":
                return None
            target = target.squeeze(1) if target.dim() == 3 and target.shape[1] == 1 else target
            return node.next_functions[0][0], target, int(node._saved_ignore_index), node._saved_weight
        children = [child for child, _ in node.next_functions]
        if name in ALIKE:
            pending += children
        elif name in ("DivBackward0", "MulBackward0") and len(children) == 2 and (children[0] is None) != (children[1] is None):
            other = node._saved_other if children[1] is None else node._saved_self
            most = max(most, other.numel() if other is not None else 1)
            pending += children
    return None
