"""Class weights: what `class_weights=` says, put into a loss of torch, whose own counts keep every split exact.

"balanced" gives class c the weight n / (classes · n_c), from the labels of the training data alone: so every process has the
same, and a resumed run too.
"""

import copy
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from instep.data.position import Indices, Source
from instep.data.sources.labels import labels_of, target_column
from instep.data.sources.stream import Stream
from instep.errors import DescriptionError
from instep.loop.objective import ClassWeights, LossFunction, name_of
from instep.loop.torch_losses import known, unwrapped
from instep.text import listed

_HOW = 'use "balanced", one weight a class like [1.0, 4.0], or {class: weight}'
_LOSSES = "cross_entropy, nll_loss or binary_cross_entropy_with_logits, or its module"


def weigh_classes(
    loss: LossFunction | None, weights: ClassWeights, source: Source | Stream, *, dtype: torch.dtype | None, device: torch.device
) -> LossFunction:
    """The loss with these weights of the classes; `source` is the training data, `dtype` that of the model's output."""
    counted = None if loss is None else known(loss)
    if loss is None or counted is None or counted.compares not in ("scores", "log-probabilities", "logits"):
        of = "an objective of your own" if loss is None else f"loss={name_of(loss)}"
        raise DescriptionError(f"class_weights= does not go with {of}; use {_LOSSES}, or weigh the classes in it.")
    option = "pos_weight" if counted.compares == "logits" else "weight"
    base, _, bound = unwrapped(loss)
    if bound.get(option) is not None or getattr(base, option, None) is not None:
        raise DescriptionError(f"class_weights= is given, and the loss has a {option} of its own; leave one out.")
    found = _positive_weight(weights, source) if option == "pos_weight" else _weight(weights, source)
    return _with_option(loss, option, found.to(device, dtype or torch.float32))


def _weight(weights: ClassWeights, source: Source | Stream) -> Tensor:
    """One weight a class, the first for class 0."""
    if isinstance(weights, str):
        if weights != "balanced":
            raise DescriptionError(f"class_weights={weights!r} is not known; {_HOW}.")
        return _balanced(_labels(source))
    if isinstance(weights, Mapping):
        if not weights or not all(isinstance(label, int) and label >= 0 for label in weights):
            raise DescriptionError(f"class_weights= has the classes {listed(map(repr, weights))}; they are numbers from 0 on.")
        labels = None if isinstance(source, Stream) else labels_of(source)
        last = max(*weights, -1 if labels is None else int(labels.max()))
        weights = [weights.get(label, 1.0) for label in range(last + 1)]
    return _checked(weights)


def _checked(weights: Any) -> Tensor:
    try:
        found = torch.as_tensor(weights, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise DescriptionError(f"class_weights={weights!r} holds no numbers; {_HOW}.") from None
    if found.ndim != 1 or not len(found) or not bool(found.isfinite().all()) or bool((found < 0).any()) or not found.sum() > 0:
        raise DescriptionError(
            f"class_weights={found.tolist()!r} must be finite numbers, one a class, none below 0, not all 0; {_HOW}."
        )
    return found


def _balanced(labels: Indices) -> Tensor:
    counts = np.bincount(labels[labels >= 0])  # below 0 is what a loss ignores
    missing = np.flatnonzero(counts == 0)
    if len(missing):
        raise DescriptionError(
            f'class_weights="balanced" finds no sample of class {missing[0]} in the training data, which has '
            f"{len(counts)} classes by its largest label; pass the weights themselves, class_weights=[…]."
        )
    return torch.from_numpy(counts.sum() / (len(counts) * counts))


def _labels(source: Source | Stream) -> Indices:
    labels = None if isinstance(source, Stream) else labels_of(source)
    if labels is None or not (labels >= 0).any():
        raise DescriptionError(
            f'class_weights="balanced" cannot find the labels of {source.name} without loading it; pass the weights themselves, '
            "class_weights=[…]."
        )
    return labels


def _positive_weight(weights: ClassWeights, source: Source | Stream) -> Tensor:
    """How much a 1 weighs beside a 0, for each label: with "balanced" as much as all zeros have together."""
    if not isinstance(weights, str):
        if isinstance(weights, Mapping):
            weights = [weights.get(0, 1.0), weights.get(1, 1.0)]
        zero, one = (float(weight) for weight in weights) if weights is not None and len(weights) == 2 else (0.0, 0.0)
        if not zero > 0:
            raise DescriptionError(f"class_weights={weights!r}: a loss of logits has two classes, 0 and 1; give each a weight.")
        return _checked([one / zero])[0]
    if weights != "balanced":
        raise DescriptionError(f"class_weights={weights!r} is not known; {_HOW}.")
    target = None if isinstance(source, Stream) else target_column(source)
    if target is None or not bool(((target == 0) | (target == 1)).all()):
        raise DescriptionError(
            f'class_weights="balanced" finds no column of zeros and ones in {source.name}; pass the weights of 0 and 1 '
            "themselves, class_weights=[1.0, 4.0]."
        )
    ones = (target == 1).double().sum(0)
    if bool(((ones == 0) | (ones == len(target))).any()):
        raise DescriptionError('class_weights="balanced" finds a label that is always the same; pass the weights themselves.')
    return (len(target) - ones) / ones


def _with_option(loss: LossFunction, option: str, weight: Tensor) -> LossFunction:
    """The same loss with one more option; that of a module goes into a copy of it."""
    base, args, bound = unwrapped(loss)
    if not isinstance(base, nn.Module):
        return functools.partial(loss, **{option: weight})
    weighted = copy.deepcopy(base)
    setattr(weighted, option, weight)  # a buffer, which is None so far
    return functools.partial(weighted, *args, **bound) if args or bound else weighted
