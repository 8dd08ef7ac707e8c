"""Losses that are means over a batch, known by the beginning of their graphs: of torch's own, by hand, weighted, added up."""

from typing import Any

from torch import Tensor

from instep.doctor.loss_terms import children, factor, operation, past_shapes, saved, shape_of, two


def is_mean(node: Any, depth: int = 3) -> bool:
    """Whether a graph begins with a mean, with a sum of terms of which one is an unweighted mean, or with a mixture of means.

    A weight of 1 and more stands for no division either.
    """
    node = _past_sign(node)
    if node is None:
        return False
    if operation(node) == "Mean" or getattr(node, "_saved_reduction", None) == 1 or _is_by_rows(node):
        return True
    weight = _weight(node) if operation(node) == "Mul" else None
    if weight is not None:
        return weight >= 1
    if depth <= 0 or operation(node) not in ("Add", "Sub"):
        return False
    terms = children(node)[: 1 if operation(node) == "Sub" else 2]
    return any(is_mean(following, depth - 1) for following in terms) or _is_mixture(node)


def divisor(node: Any, depth: int = 3) -> float | None:
    """What a sum is divided by, where a loss is a sum over a count, or has such a term that is not weighted; else None."""
    node = _past_sign(node)
    if node is None:
        return None
    if operation(node) == "Div":
        above, *below = children(node)
        other, summed = saved(node, "other"), _past_sign(above)
        total = summed is not None and operation(summed) in ("Sum", "Nansum") and shape_of(summed) == ()
        return float(other) if total and not any(below) and other is not None and other.numel() == 1 else None
    if depth <= 0 or operation(node) not in ("Add", "Sub"):
        return None
    terms = children(node)[: 1 if operation(node) == "Sub" else 2]
    return next((found for each in terms if (found := divisor(each, depth - 1)) is not None), None)


def divisors(node: Any) -> tuple[float, ...]:
    """The plain numbers that a mean is divided by, the last one first: `0.5 * loss / 4` gives (4, 2); () for anything else."""
    found: list[float] = []
    while node is not None and operation(node) in ("Div", "Mul") and len(found) < 4:
        live, number = _number(node)
        if not number:
            return ()
        found.append(round(number if operation(node) == "Div" else 1 / number, 4))
        node = live
    return tuple(found) if found and is_mean(node) else ()


def are_counts(divisors: list[float | None]) -> bool:
    """Whether each micro-batch of an update was divided by a count of its own.

    Not by one that is the same for all, which may be that of the whole update; nor by multiples of the number of micro-batches.
    """
    known = [each for each in divisors if each is not None]
    if len(known) < len(divisors) or len(set(known)) < 2 or any(each < 1 or each != int(each) for each in known):
        return False
    return any(each % len(known) for each in known)


def _number(node: Any) -> tuple[Any, float | None]:
    """The other side of a product or quotient with one number, and that number; None where there is no such number."""
    one, other = two(node)
    if one is not None and other is None:
        live, constant = one, saved(node, "other")
    elif one is None and operation(node) == "Mul":
        live, constant = other, saved(node, "self")
    else:
        return None, None
    plain = constant is not None and constant.numel() == 1 and not constant.is_complex()
    return live, float(constant) if plain and constant is not None else None


def _past_sign(node: Any) -> Any:
    """The node below a sign. Not below that of rewards times log-probabilities: who adds up episodes may mean it."""
    if node is None or operation(node) != "Neg":
        return node
    below = children(node)[0]
    inner = past_shapes(children(below)[0]) if below is not None and operation(below) in ("Mean", "Sum") else None
    found = factor(inner) if inner is not None else None
    rewarded = inner is not None and operation(inner) == "Mul" and (found is None or bool((found[0] < 0).any()))
    return node if rewarded else below


def _is_by_rows(node: Any) -> bool:
    """Whether a sum is divided by the number of rows that it goes over, or of all numbers."""
    count = divisor(node, 0)
    if count is None:
        return False
    summed = _past_sign(children(node)[0])
    shape = tuple(getattr(summed, "_saved_self_sym_sizes", ()))
    size = 1
    for each in shape:
        size *= each
    return bool(shape) and shape[0] > 1 and count in (shape[0], size)


def _is_mixture(node: Any) -> bool:
    """Whether a sum is made of two means whose weights add up to 1, as `0.9 * loss + 0.1 * other`.

    Not of equal weights: 0.5 may be one by the number of micro-batches.
    """
    weights = [weight for following in children(node) if (weight := _weight(following)) is not None]
    if len(weights) != 2 or min(weights) <= 0:
        return False
    return abs(sum(weights) - 1) < 1e-5 and abs(weights[0] - weights[1]) > 0.05


def _weight(node: Any) -> float | None:
    """The number by which a mean is multiplied; None where it is something else."""
    if node is None or node.name() != "MulBackward0":
        return None
    one, other = children(node)
    if (one is None) == (other is None):
        return None
    mean, weight = (one, node._saved_other) if other is None else (other, node._saved_self)
    if operation(mean) == "Neg":  # of log-probabilities
        mean = children(mean)[0]
    if not is_mean(mean, 1) or not isinstance(weight, Tensor):
        return None
    return float(weight) if weight.numel() == 1 and weight.device.type == "cpu" else None
