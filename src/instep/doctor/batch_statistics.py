"""Normalisation by hand that takes its statistics from the batch in eval mode too: each number less the mean of the samples, and
divided by their spread. What one sample gives then depends on who else is there.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from instep.doctor.mixing import Mixing, Record
from instep.doctor.sites import Locator

STATISTICS = frozenset({"mean", "var", "std", "var_mean", "std_mean", "sum"})
BEFORE = 4  # operations from the first of the statistics to where they meet the samples
NEAR = 12  # operations from the first of the statistics to what is normalised


def is_standardised(forward: Callable[[], Any], mixing: Mixing, batch: int, locator: Locator) -> bool:
    """Whether what mixes samples is a mean, after which numbers have mean 0 and spread 1 over the samples, feature by feature."""
    with Record(locator) as record:
        forward()
    first, last = max(mixing.index - BEFORE, 0), mixing.index + 1 + NEAR
    names = [name.strip("_") for name, _, _ in record.kept[first : mixing.index + 1]]
    place = next((place for place, name in enumerate(names) if name in STATISTICS), None)
    if place is None:
        return False
    before = record.kept[first + place - 1][2] if first + place else None
    after = [tensor for _, _, tensor in record.kept[first + place + 1 : last]]
    return (before is None or not _is_standard(before, batch)) and any(_is_standard(tensor, batch) for tensor in after)


def _is_standard(tensor: Tensor, batch: int) -> bool:
    if tensor.dim() < 2 or tensor.shape[0] != batch or batch < 4 or tensor.shape[1] < 2:
        return False
    features = tensor.movedim(1, 0).flatten(1).double()
    live = features.std(1) > 1e-3  # a unit that is dead stays where it is
    if int(live.sum()) < 2 or float(live.double().mean()) < 0.25:
        return False
    means, spreads = features[live].mean(1), features[live].std(1, correction=0)
    return bool((means.abs() < 1e-3).all()) and bool(((spreads - 1).abs() < 0.05).all())
