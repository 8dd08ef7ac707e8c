"""Forms: what an output and a target are, told from their shapes: classes, a single logit, labels, numbers.

    scores (n, classes, …) and class indices (n, …)       classes: the highest score is chosen
    logits and targets of one shape, (n,) or (n, 1, …)    two classes: a logit above the threshold means class 1
    logits and targets of one shape (n, labels, …)        labels: each is there or not
    predictions and targets of one shape                  numbers

Whatever is neither is an error with both shapes.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from instep.data.device import readable
from instep.errors import ObjectiveError
from instep.loop.torch_losses import Threshold

IGNORED = -100  # what torch's losses ignore where nothing else is said


@dataclass(frozen=True)
class Classified:
    """What was chosen and what is right, as indices of one shape; `counted` is False where the target is ignored."""

    kind: Literal["classes", "labels"]
    number: int  # of classes, or of labels, which stand in dimension 1
    chosen: Tensor
    right: Tensor  # 0 where it does not count
    counted: Tensor


def classify(name: str, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> Classified:
    """The classes or labels that an output chooses."""
    output, target = as_scores(name, output, target, threshold)
    target, counted = counted_targets(target, ignore_index)
    if output.ndim > target.ndim:
        classes = output.shape[1]
        _require_classes(name, target, counted, classes)
        return Classified("classes", classes, output.argmax(1), _index(target, counted), counted)
    require_binary(name, target, counted, threshold)
    border = threshold if isinstance(threshold, int | float) else 0.0
    chosen, right = output > border, (target > 0.5) & counted
    kind, number = _kind(output.shape)
    return Classified(kind, number, chosen.long(), right.long(), counted)


def as_scores(name: str, output: Any, target: Any, threshold: Threshold) -> tuple[Tensor, Tensor]:
    """Scores (n, classes, …) with indices (n, …), or logits and targets of one shape."""
    output, target = require_tensors(name, output, target)
    if _are_classes(output, target):
        return output, target
    if output.shape == target.shape:
        if threshold is None and output.ndim > 1 and output.shape[1] > 1:
            return output, target.argmax(1)  # class probabilities
        return output, target
    is_single = output.ndim == target.ndim + 1 and output.shape[1:2] == (1,) and output.squeeze(1).shape == target.shape
    if is_single and (target.is_floating_point() or target.dtype is torch.bool):  # indices would be of a single class
        return output, target.unsqueeze(1)
    raise mismatch(name, output, target)


def as_classes(name: str, output: Any, target: Any, ignore_index: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Scores (n, classes, …), indices (n, …) that are 0 where they do not count, and whether they do. Nothing else will do."""
    output, target = as_scores(name, output, target, None)
    if output.ndim == target.ndim:
        raise mismatch(name, output, target, "scores (n, classes, …) for class indices (n, …)")
    target, counted = counted_targets(target, ignore_index)
    _require_classes(name, target, counted, output.shape[1])
    return output, _index(target, counted), counted


def as_numbers(name: str, output: Any, target: Any) -> tuple[Tensor, Tensor]:
    """Predictions and targets of one shape; (n, 1) against (n,) can mean one thing only."""
    output, target = require_tensors(name, output, target)
    if output.shape != target.shape:
        one, other = (side.squeeze(1) if side.ndim == 2 and side.shape[1] == 1 else side for side in (output, target))
        if one.shape != other.shape or one.ndim != 1:
            raise mismatch(name, output, target, "a prediction for each target, both of one shape")
        output, target = one, other
    return output, target


def by_label(values: Tensor) -> Tensor:
    """(n, labels, …) as (n·…, labels)."""
    return values.movedim(1, -1).flatten(0, -2)


def require_tensors(name: str, output: Any, target: Any) -> tuple[Tensor, Tensor]:
    for side, value in (("output", output), ("target", target)):
        if not isinstance(value, Tensor):
            raise ObjectiveError(
                f"{name} compares tensors, and the {side} is a {type(value).__name__}; return Loss(value, count, output, target) "
                "with the two tensors from an objective."
            )
    return output, target


def mismatch(name: str, output: Tensor, target: Tensor, expected: str | None = None) -> ObjectiveError:
    """An error with both shapes, and what to do about them where that is clear."""
    expected = expected or "scores (n, classes, …) for class indices (n, …), or logits of the target's own shape"
    said = (
        f"{name} cannot compare an output of shape {tuple(output.shape)} with a target of shape {tuple(target.shape)}; "
        f"expected {expected}."
    )
    if output.ndim == target.ndim + 1 and output.shape[:1] + output.shape[2:] == target.shape and target.is_floating_point():
        return ObjectiveError(f"{said} Class indices are whole numbers, and the target is {target.dtype}: use target.long().")
    if output.ndim > 2 and output.shape[:-1] == target.shape:
        return ObjectiveError(
            f"{said} Here the classes stand last: return Loss(…, output.transpose(1, -1), target) from an objective (and shift "
            "the target where the model predicts the next token)."
        )
    return ObjectiveError(said)


def _are_classes(output: Tensor, target: Tensor) -> bool:
    return (
        not target.is_floating_point()
        and output.ndim == target.ndim + 1
        and output.shape[1] > 1
        and output.shape[:1] + output.shape[2:] == target.shape
    )


def _kind(shape: torch.Size) -> tuple[Literal["classes", "labels"], int]:
    """What dimension 1 of logits holds, of the target's own shape."""
    if len(shape) < 2 or shape[1] == 1:
        return "classes", 2
    return "labels", shape[1]


def counted_targets(target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """The target, and where it counts. In uint8, 156 would equal an ignore_index of -100."""
    target = target if target.is_floating_point() else target.long()
    return target, target != (IGNORED if ignore_index is None else ignore_index)


def require_binary(name: str, target: Tensor, counted: Tensor, threshold: Threshold) -> None:
    """That targets of single outputs are there or not: 0 and 1, -1 and 1, or with a loss on probabilities something between."""
    if not readable(target) or not target.numel() or not target.is_floating_point():
        return
    bad = ((target < 0) & (target != -1)) | (target > 1)
    if threshold == "nearest":
        bad |= target != target.round()
    bad &= counted
    if not bad.any():
        return
    raise ObjectiveError(
        f"{name} compares classes, and the target holds {target[bad][0].item():.4g} for an output of one number; use mae or r2, "
        "or a model with an output for each class and targets of whole numbers (n,)."
    )


def _index(target: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, target, 0).long()


def _require_classes(name: str, target: Tensor, counted: Tensor, classes: int) -> None:
    """On an accelerator nobody waits to look: torch's losses and indexing look there themselves."""
    if not readable(target) or not target.numel():
        return
    index = _index(target, counted)
    least, most = int(index.min()), int(index.max())
    if least < 0 or most >= classes:
        raise ObjectiveError(
            f"{name} found class {least if least < 0 else most} in the target, and the output has scores for {classes} classes, "
            f"0 to {classes - 1}; a target that does not count is marked with the loss's ignore_index."
        )
