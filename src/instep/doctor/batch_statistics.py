"""Normalisation by hand that takes its statistics from the batch in eval mode too: each number less the mean of the samples,
divided by their spread, their range or their norm. What one sample gives then depends on who else is there.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from instep.doctor.mixing import LARGEST, Mixing, Record
from instep.doctor.sites import Locator

STATISTICS = frozenset({
    "mean", "var", "std", "var_mean", "std_mean", "sum", "nanmean", "max", "min", "amax", "amin", "aminmax", "norm", "median",
    "quantile", "normalize",
})  # fmt: skip
BEFORE = 4  # operations from the first of the statistics to where they meet the samples
NEAR = 12  # operations from the first of the statistics to what is normalised
SPREAD = (0.7, 1.1)  # of what is standardised: something small may have been added to what it was divided by
STANDARDISED, SCALED, CENTRED = "its mean and its spread", "its range or its norm", "its mean"


def batch_statistics(forward: Callable[[], Any], inputs: list[Tensor], mixing: Mixing, batch: int, locator: Locator) -> str:
    """Which statistics of the samples those are by which numbers are normalised, feature by feature or all together; "" where
    what mixes samples is something else."""
    with Record(locator) as record:
        forward()
    first, last = max(mixing.index - BEFORE, 0), mixing.index + 1 + NEAR
    names = [name.strip("_") for name, _, _ in record.kept[first : mixing.index + 1]]
    place = next((place for place, name in enumerate(names) if name in STATISTICS), None)
    if place is None:
        return ""
    start = first + place
    before = record.kept[start - 1][2] if start else None
    after = [tensor for _, _, tensor in record.kept[start if names[place] == "normalize" else start + 1 : last]]
    if (before is None or not _is_standard(before, batch)) and any(_is_standard(tensor, batch) for tensor in after):
        return STANDARDISED
    given = [*(each for each in inputs if each.is_floating_point()), *(tensor for _, _, tensor in record.kept[:start])]
    sources = [each for each in given if each.dim() >= 2 and len(each) == batch and each.numel() <= LARGEST]
    return _linear_kind(sources[-4:], after, batch)


def _linear_kind(sources: list[Tensor], after: list[Tensor], batch: int) -> str:
    """The same where numbers stay in proportion to what they were."""
    found = ""
    for tensor in after:
        if tensor.dim() < 2 or len(tensor) != batch or batch < 4:
            continue
        for source in sources:
            if source.shape != tensor.shape or torch.equal(source, tensor) or not _is_linear(source, tensor):
                continue
            if _is_scaled(tensor) and not _is_scaled(source):
                return SCALED
            found = found or (CENTRED if _is_centred(tensor) and not _is_centred(source) else "")
    return found


def _is_standard(tensor: Tensor, batch: int) -> bool:
    if tensor.dim() < 2 or tensor.shape[0] != batch or batch < 4 or tensor.shape[1] < 2:
        return False
    features = _features(tensor)
    live = features.std(1) > 1e-3  # a unit that is dead stays where it is
    if int(live.sum()) < 2 or float(live.double().mean()) < 0.25:
        return False
    means, spreads = features[live].mean(1), features[live].std(1, correction=0)
    return bool((means.abs() < 1e-3).all()) and bool(((spreads > SPREAD[0]) & (spreads < SPREAD[1])).all())


def _is_centred(tensor: Tensor) -> bool:
    features = _features(tensor)
    spreads = features.std(1)
    return bool((spreads > 0).any()) and bool((features.mean(1).abs() <= 1e-4 * spreads + 1e-12).all())


def _is_scaled(tensor: Tensor) -> bool:
    """Whether the largest of each feature over the samples is 1 and the smallest 0, or the norm over the samples is 1."""
    elements = tensor.flatten(1).t().double()
    for features in (elements, _features(tensor), elements.reshape(1, -1)):
        live = features[features.std(1) > 1e-6]
        if not len(live) or live.shape[1] < 4:
            continue
        ranges = _are(live.amax(1), 1.0) and _are(live.amin(1), 0.0)
        if ranges or _are(live.abs().amax(1), 1.0) or _are(live.norm(dim=1), 1.0):
            return True
    return False


def _are(values: Tensor, value: float) -> bool:
    return bool(((values - value).abs() < 1e-4).all())


def _is_linear(source: Tensor, result: Tensor) -> bool:
    """Whether each element of the result is the same multiple of the source in every sample, plus the same number."""
    one, other = (each.flatten(1).double() for each in (source, result))
    one, other = one - one.mean(0), other - other.mean(0)
    square = (one * one).sum(0)
    live = square > 1e-10
    if not bool(live.any()):
        return False
    slope = (one * other).sum(0) / square.clamp(min=1e-10)
    rest = (other - slope * one)[:, live].norm()
    return float(rest) <= 1e-3 * float(other.norm()) and float(other.norm()) > 0


def _features(tensor: Tensor) -> Tensor:
    """(features, everything else)"""
    return tensor.movedim(1, 0).flatten(1).double()
