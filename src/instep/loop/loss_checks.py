"""What torch's own losses cannot mean: outputs and targets that they take in silence and that nobody wants, or refuse in
words of the inside of torch.

`check` looks at shapes alone, so it can look at every micro-batch. `wrong_values` looks at the first batch of a run. `explain`
is asked only where torch has refused already, and may look at values.
"""

import re
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from instep.errors import ObjectiveError

# What a loss compares: class scores with labels, log-probabilities with labels, logits or probabilities with 0 and 1, numbers.
Compares = Literal["scores", "log-probabilities", "logits", "probabilities", "numbers"]
CLASSES = ("scores", "log-probabilities")
BINARY = ("logits", "probabilities")
_TO_ZERO_AND_ONE: dict[tuple[float, float], str] = {
    (0, 255): "use y / 255",
    (1, 2): "use y - 1",
    (-1, 1): "use (y + 1) / 2",
}


def checker(name: str, compares: Compares | None) -> Callable[[tuple[Any, ...]], None] | None:
    """What to call with the arguments of each call of the loss `name`; None where there is nothing to check."""
    if compares == "numbers":
        return lambda arguments: _require_no_spreading(name, *arguments[:2])
    if compares == "scores":
        return lambda arguments: _require_classes(name, *arguments[:2])
    return None


def _require_no_spreading(name: str, output: Tensor, target: Tensor) -> None:
    """(n, 1) against (n,) is n x n numbers for torch: a loss that trains every output towards the mean of all targets.

    So is (n, n) against (n,), n outputs a sample and one target: each sample's outputs are compared with the targets of all.
    """
    if output.shape == target.shape:
        return
    try:
        shape = torch.broadcast_shapes(output.shape, target.shape)
    except RuntimeError:
        raise ObjectiveError(_misfit(name, output, target)) from None
    compared = "every output compared with every target; "
    if shape.numel() <= max(output.numel(), target.numel()):
        compared = "numbers compared that may not belong together; if that is meant, call the loss in an objective=, else "
    raise ObjectiveError(
        f"{name}: {shapes_of(output, target)} would be spread to {tuple(shape)}, {compared}{same_shape(output, target)}."
    )


def _require_classes(name: str, output: Tensor, target: Tensor) -> None:
    if output.ndim > 1 and output.shape[1] == 1:
        numbers = ", or mse_loss for numbers of that shape" if target.is_floating_point() else ""
        raise ObjectiveError(
            f"{name}: an output of shape {tuple(output.shape)} has a single class, whose loss is always 0, so nothing would be "
            "trained; give the model an output for each class, or use binary_cross_entropy_with_logits with a target of "
            f"the output's shape, 0.0 or 1.0{numbers}."
        )


def wrong_values(name: str, compares: Compares | None, target: Any) -> str | None:
    """Targets of a binary loss lie between 0 and 1: beyond them its loss has no lower end. Reads the values, so once a run."""
    if compares not in BINARY or not isinstance(target, Tensor) or not target.numel():
        return None
    least, most = (edge.item() for edge in torch.aminmax(target.detach()))
    if (least >= 0 and most <= 1) or least != least:  # nan is found by its loss
        return None
    advice = _TO_ZERO_AND_ONE.get((least, most))
    return (
        f"{name} takes targets from 0 to 1, and the target goes from {least:g} to {most:g}, for which its loss has no lowest "
        f"value; {advice or 'bring the targets to 0.0 and 1.0, or use mse_loss for other numbers'}."
    )


def explain(
    name: str, compares: Compares | None, arguments: tuple[Any, ...], ignore_index: int | None, error: Exception
) -> ObjectiveError | None:
    """An error of a loss in words; None where nothing better can be said than it says itself."""
    if compares is None:
        return None
    output, target = arguments[:2]
    for look in (_lengths, _labels, _binary, _numbers):
        found = look(name, compares, output, target, ignore_index)
        if found is not None:
            return found if isinstance(found, ObjectiveError) else ObjectiveError(found)
    if compares in CLASSES and "weight tensor should be defined" in str(error):
        weights = re.search(r"shape: \[(\d+)\]", str(error))
        return ObjectiveError(
            f"{name} has weights for {weights[1] if weights else 'other'} classes, and the model has {output.shape[1]} outputs; "
            "give each of them a weight, class_weights=[…], or take away outputs."
        )
    return None


Found = str | ObjectiveError | None


def _lengths(name: str, compares: Compares, output: Tensor, target: Tensor, ignore_index: int | None) -> Found:
    if not output.ndim or not target.ndim or len(output) == len(target):
        return None
    return ObjectiveError(f"{name}: the model gave {len(output)} outputs for {len(target)} targets; give one for each sample.")


def _labels(name: str, compares: Compares, output: Tensor, target: Tensor, ignore_index: int | None) -> Found:
    if compares not in CLASSES:
        return None
    shape = tuple(target.shape)
    if output.ndim < 2:
        return (
            f"{name}: the output has shape {tuple(output.shape)} and no dimension for the classes; it must be (samples, classes)."
        )
    if shape == tuple(output.shape):
        return (
            f"{name}: the target has the output's shape {shape} and is {target.dtype}; use y.argmax(1) for labels, or y.float() "
            "for the probabilities of the classes."
        )
    if target.ndim == 2 and target.shape[1] == 1 and output.ndim == 2:
        return f"{name} takes one label a sample, a target of shape {shape[:1]}, and got {shape}; use y.squeeze(1)."
    if output.ndim > 2 and tuple(output.shape[:-1]) == shape:
        return (
            f"{name} wants the classes in dimension 1, and the output is {tuple(output.shape)} for a target of {shape}: the "
            "classes stand last; give output.transpose(1, -1)."
        )
    if (output.shape[0], *output.shape[2:]) != shape:
        expected = (output.shape[0], *output.shape[2:])
        return (
            f"{name}: an output of shape {tuple(output.shape)} goes with a target of shape {expected}, and the target is {shape}."
        )
    return _label_types(name, target) or _label_range(name, output, target, ignore_index)


def _label_types(name: str, target: Tensor) -> str | None:
    if target.dtype in (torch.int64, torch.uint8):
        return None
    if target.is_floating_point() and bool((odd := target != target.round()).any()):
        value = target[odd][0].item()
        return (
            f"{name} takes labels, whole numbers, and the target holds {value:.4g} ({target.dtype}); for a regression use "
            "mse_loss, with a model of one output a sample."
        )
    frame = 'where the target is a column of a table, table["…"].astype("int64")'
    return f"{name} takes labels as int64, and the target is {target.dtype}; use y.long(), or {frame}."


def _label_range(name: str, output: Tensor, target: Tensor, ignore_index: int | None) -> ObjectiveError | None:
    classes = output.shape[1]
    bad = ((target < 0) | (target >= classes)) & (target != (-100 if ignore_index is None else ignore_index))
    if not bad.any():
        return None
    row = int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
    label = int(target[bad][0])
    least, most = (int(edge) for edge in torch.aminmax(target))
    advice = f"use a model with {most + 1} outputs, or mark what does not count with ignore_index={label}."
    if least == 1 and most == classes:
        advice = f"the labels go from 1 to {most}: use y - 1."
    elif label < 0:
        advice = f"labels count from 0; mark what does not count with the loss's ignore_index={label}."
    return ObjectiveError(
        f"label {label} is none of the {classes} classes, 0 to {classes - 1}, that an output of shape {tuple(output.shape)} has "
        f"for {name}; {advice}",
        row=row,
    )


def _binary(name: str, compares: Compares, output: Tensor, target: Tensor, ignore_index: int | None) -> Found:
    if compares not in BINARY:
        return None
    if output.shape != target.shape:
        return _misfit(name, output, target)
    if target.dtype != output.dtype and not target.is_floating_point():
        return f"{name} takes targets of the output's type, {output.dtype}, and the target is {target.dtype}; use y.float()."
    if (wrong := wrong_values(name, compares, target)) is not None:
        return wrong
    if compares == "probabilities" and output.numel():
        least, most = (edge.item() for edge in torch.aminmax(output.detach()))
        if not (least >= 0 and most <= 1):
            return (
                f"{name} takes probabilities, from 0 to 1, and the output goes from {least:.4g} to {most:.4g}; use "
                "binary_cross_entropy_with_logits, or end the model with nn.Sigmoid()."
            )
    return None


def _numbers(name: str, compares: Compares, output: Tensor, target: Tensor, ignore_index: int | None) -> Found:
    if compares != "numbers":
        return None
    if output.shape != target.shape:
        return _misfit(name, output, target)
    if not target.is_floating_point():
        return f"{name} compares numbers of one type: the output is {output.dtype}, the target {target.dtype}; use y.float()."
    return None


def _misfit(name: str, output: Tensor, target: Tensor) -> str:
    return f"{name} got {shapes_of(output, target)}; {same_shape(output, target)}."


def shapes_of(output: Tensor, target: Tensor) -> str:
    return f"an output of shape {tuple(output.shape)} and a target of shape {tuple(target.shape)}"


def same_shape(output: Tensor, target: Tensor) -> str:
    """What to type, where (n, 1) meets (n,)."""
    if output.ndim and target.ndim and output.numel() == target.numel() == len(output) == len(target):
        if output.ndim == 2 and target.ndim == 1:
            return 'use y.unsqueeze(1), with a frame target=["…"], or end the model with nn.Flatten(0)'
        if output.ndim == 1 and target.ndim == 2:
            return "use y.squeeze(1), or end the model without a squeeze"
    return "they must be the same"
