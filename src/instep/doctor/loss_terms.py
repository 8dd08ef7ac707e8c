"""What a loss that is written by hand is made of, read from its graph: log-softmax, softmax, sigmoid and binary cross-entropy
that are put together from plain operations, and entries that are picked from scores.
"""

from typing import Any

import torch
from torch import Tensor

SHAPES = frozenset(
    ("View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "Alias", "Clone", "Expand", "ToCopy", "Transpose",
     "T", "Permute")
)  # fmt: skip
ENDS = ("Neg", "Mean", "Sum", "Sub", "Add", "Rsub", "Mul", "Div", "Index", "MaskedSelect", "Where", "MaskedFill")  # of a loss
LARGEST = 1 << 20  # numbers that are looked at
NODES = 32


def operation(node: Any) -> str:
    """The operation that a node belongs to: "Rsub" for RsubBackward0 and RsubBackward1."""
    name: str = node.name()
    return name.rstrip("0123456789").removesuffix("Backward")


def children(node: Any) -> list[Any]:
    return [child for child, _ in node.next_functions]


def two(node: Any) -> tuple[Any, Any]:
    """The nodes of both sides; None for a number and for what has no graph."""
    found = children(node)
    return found[0], found[1] if len(found) > 1 else None


def shape_of(node: Any) -> tuple[int, ...]:
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[0].shape) if metadata else ()


def past_shapes(node: Any) -> Any:
    """The node before whatever only changes the shape."""
    for _ in range(8):
        if node is None or operation(node) not in SHAPES or not node.next_functions:
            break
        node = node.next_functions[0][0]
    return node


def saved(node: Any, name: str) -> Tensor | None:
    """A tensor that a node has kept, where looking at it is free."""
    try:
        tensor = getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # written to since
        return None
    return tensor if isinstance(tensor, Tensor) and tensor.device.type == "cpu" and 0 < tensor.numel() <= LARGEST else None


def axes(node: Any, dims: int) -> list[int]:
    """The axes that a sum runs over, from 0."""
    given = node._saved_dim
    found = [given] if isinstance(given, int) else list(given)
    return [(axis - (1 << 64) if axis >= 1 << 63 else axis) % max(dims, 1) for axis in found]


# -- over classes


def summed_scores(node: Any) -> tuple[Any, list[int]] | None:
    """(the scores, the axes) of a logarithm of a sum of exponentials, with or without the largest taken off before; else None."""
    name = operation(node)
    if name == "Logsumexp":
        return node.next_functions[0][0], axes(node, len(shape_of(node.next_functions[0][0])))
    summed = past_shapes(node.next_functions[0][0]) if name == "Log" else None
    if summed is None or operation(summed) != "Sum" or not hasattr(summed, "_saved_dim"):
        return None
    exponential = past_shapes(summed.next_functions[0][0])
    if exponential is None or operation(exponential) != "Exp":
        return None
    return past_largest(exponential.next_functions[0][0]), axes(summed, len(shape_of(exponential)))


def past_largest(node: Any) -> Any:
    """The scores before their largest was taken off."""
    if node is not None and operation(node) == "Sub":
        first, second = two(node)
        if second is None or operation(past_shapes(second) or second) in ("Max", "Amax"):
            return first
    return node


def hand_softmax(node: Any) -> list[int] | None:
    """The axes of a softmax that is written by hand: exponentials divided by their own sum; None for anything else."""
    node = past_shapes(node)
    if node is None or operation(node) != "Div":
        return None
    above, below = two(node)
    below = past_shapes(below)
    if above is None or below is None or operation(above) != "Exp" or operation(below) != "Sum":
        return None
    summed = past_shapes(below.next_functions[0][0])
    alike = summed is above or (
        summed is not None and operation(summed) == "Exp" and summed.next_functions[0][0] is above.next_functions[0][0]
    )
    return axes(below, len(shape_of(above))) if alike and hasattr(below, "_saved_dim") else None


def is_distribution(node: Any, scores: Any) -> bool:
    """Whether the scores, of which `node` is the logarithm of a sum of exponentials, are a softmax already."""
    scores = past_shapes(scores)
    if scores is None:
        return False
    if operation(scores) == "Softmax" or hand_softmax(scores) is not None:
        return True
    values = saved(node, "self") if operation(node) == "Logsumexp" else None
    if values is None or not values.is_floating_point() or bool((values < 0).any()):
        return False
    (axis, *more) = axes(node, values.dim())
    if more or values.shape[axis] < 2 or values.numel() // values.shape[axis] < 4:
        return False
    return bool(((values.detach().sum(axis) - 1).abs() < 1e-3).all())


def normalised_axis(node: Any) -> int | None:
    """The axis over which log-probabilities by hand are normalised; None where they are something else."""
    node = past_shapes(node)
    if node is None:
        return None
    found: list[int] | None = None
    if operation(node) == "Sub":
        first, second = two(node)
        terms = summed_scores(past_shapes(second)) if second is not None else None
        found = terms[1] if terms is not None and past_shapes(terms[0]) is past_shapes(first) else None
    elif operation(node) == "Log":
        below = past_shapes(node.next_functions[0][0])
        while below is not None and operation(below) in ("Add", "Clamp", "ClampMin"):
            below = past_shapes(below.next_functions[0][0])
        found = hand_softmax(below)
    elif operation(node) == "LogSoftmax":
        found = axes(node, len(shape_of(node)))
    return found[0] if found is not None and len(found) == 1 else None


def picked_from(node: Any) -> Any:
    """The (rows, classes) from which one entry of each row is picked: by `gather`, by an index, by one-hot rows; else None."""
    name = operation(node)
    child = node.next_functions[0][0]
    if name == "Gather":
        index = saved(node, "index")
        dims = index.dim() if index is not None else 0
        last = index is not None and dims in (2, 3) and index.shape[-1] == 1 and axes(node, dims) == [dims - 1]
        return child if last else None
    if name == "Index":
        return child if _is_row_by_row(node, shape_of(child)) else None
    if name != "Mul":
        return None
    first, second = two(node)
    if (first is None) == (second is None):
        return None
    live, other = (first, saved(node, "other")) if second is None else (second, saved(node, "self"))
    if other is None or other.dim() != 2 or tuple(other.shape) != shape_of(live) or min(other.shape) < 2:
        return None
    one_hot = bool(((other == 0) | (other == 1)).all()) and bool((other.sum(1) == 1).all())
    return live if one_hot and not bool((other.sum(0) == 1).all()) else None


def picked_classes(root: Any) -> Tensor | None:
    """The class numbers by which a loss that is written by hand picks from its log-probabilities, masked or not; else None."""
    pending, seen = [root], 0
    while pending and seen < NODES:
        node = pending.pop(0)
        seen += 1
        name = operation(node)
        index = saved(node, "index") if name == "Gather" else None
        if index is not None and index.dim() in (2, 3) and index.shape[-1] == 1:
            return index.squeeze(-1)
        constant = saved(node, "other") if name == "Mul" and two(node)[1] is None else None
        constant = saved(node, "self") if name == "Mul" and two(node)[0] is None else constant
        if constant is not None and constant.dim() in (2, 3) and constant.shape[-1] > 2 and _is_one_hot(constant):
            return constant.argmax(-1)
        if name in ENDS or name in SHAPES:
            pending += [child for child in children(node) if child is not None]
    return None


def _is_one_hot(constant: Tensor) -> bool:
    return bool(((constant == 0) | (constant == 1)).all()) and bool((constant.sum(-1) == 1).all())


def _is_row_by_row(node: Any, shape: tuple[int, ...]) -> bool:
    indices = node._saved_indices
    if len(shape) != 2 or len(indices) != 2:
        return False
    if any(not isinstance(index, Tensor) or index.device.type != "cpu" or index.dtype != torch.long for index in indices):
        return False
    rows, target = indices
    return tuple(target.shape) == shape[:1] and torch.equal(rows.reshape(-1), torch.arange(shape[0]))


def bare_scores(root: Any) -> bool:
    """Whether a loss is nothing but the negative mean of picked scores of a layer: it has no lowest value."""
    node, negative = root, False
    for _ in range(12):
        if node is None:
            return False
        picked = picked_from(node) if operation(node) in ("Gather", "Index", "Mul") else None
        if picked is not None:
            source = past_shapes(picked)
            return negative and source is not None and operation(source) in ("Addmm", "Mm")
        live = [child for child in children(node) if child is not None]
        name = operation(node)
        added = name == "Add" and len(live) == 2
        if added:
            live = [child for child in live if not is_penalty(child)]
        if len(live) != 1:
            return False
        if not added and name not in ("Neg", "Mean", "Sum") and name not in SHAPES and not _is_scaled(node, name):
            return False
        negative ^= name == "Neg"
        (node,) = live
    return False


PENALTIES = frozenset(
    ("Add", "Mul", "Div", "Pow", "Abs", "Sum", "Mean", "Sqrt", "Norm", "LinalgVectorNorm", "Stack", "Cat", "View", "Square")
)


def is_penalty(root: Any) -> bool:
    """Whether a term of a loss is made of weights alone: sizes of them, added up."""
    pending, seen = [root], {root}
    while pending and len(seen) < 8 * NODES:
        node = pending.pop()
        if node.name() == "torch::autograd::AccumulateGrad":
            continue
        if operation(node) not in PENALTIES:
            return False
        new = [child for child in children(node) if child is not None and child not in seen]
        seen.update(new)
        pending += new
    return not pending


def _is_scaled(node: Any, name: str) -> bool:
    """A product or quotient with one number above 0."""
    if name not in ("Mul", "Div") or children(node)[0] is None:
        return False
    other = getattr(node, "_saved_other", None)
    if isinstance(other, Tensor):
        return other.numel() == 1 and other.device.type == "cpu" and float(other) > 0
    return other is None or (isinstance(other, int | float) and other > 0)


# -- two classes


def is_sigmoid(node: Any) -> bool:
    """Whether a node is a sigmoid, of torch's or by hand: 1 / (1 + exp(-x))."""
    node = past_shapes(node)
    if node is None:
        return False
    if operation(node) == "Sigmoid":
        return True
    if operation(node) == "Mul":  # `1 / x` is a reciprocal times 1
        node = next((child for child in children(node) if child is not None), None)
    if node is None or operation(node) not in ("Reciprocal", "Div"):
        return False
    below = past_shapes(children(node)[-1])
    if below is None or operation(below) != "Add":
        return False
    return any(child is not None and operation(child) == "Exp" for child in children(below))


def logits_of(node: Any) -> Any:
    """What a softplus, a log-sigmoid or log1p(exp(-|x|)) is taken of: logits, in a binary cross-entropy; else None."""
    name = operation(node)
    if name in ("Softplus", "LogSigmoid"):
        child = node.next_functions[0][0]
        return child.next_functions[0][0] if child is not None and operation(child) == "Neg" else child
    if name not in ("Log1P", "Log"):
        return None
    child = past_shapes(node.next_functions[0][0])
    if name == "Log" and child is not None and operation(child) == "Add":  # log(1 + exp(-|x|))
        child = next((each for each in children(child) if each is not None), None)
    for expected in ("Exp", "Neg", "Abs"):
        if child is None or operation(child) != expected:
            return None
        child = child.next_functions[0][0]
    return child


def factor(node: Any) -> tuple[Tensor, Any] | None:
    """(the constant, the live side) of a product of many numbers with a constant."""
    if operation(node) != "Mul" or len(node.next_functions) != 2:
        return None
    first, second = children(node)
    if (first is None) == (second is None):
        return None
    constant, live = (saved(node, "other"), first) if second is None else (saved(node, "self"), second)
    if constant is None or constant.numel() < 2 or constant.is_complex():
        return None
    return (constant if constant.is_floating_point() else constant.float()), live
