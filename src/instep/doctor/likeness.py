"""Likeness of samples that were read twice: whether each is a changed copy of what stood at its place before.

A crop, a flip, noise or a shift leaves much of a sample as it was: somewhere, one laid over the other, they agree. Samples of the
same class that stand elsewhere are the measure of how well two agree that have nothing else in common.
"""

import torch
from torch import Tensor


def likeness(before: Tensor, after: Tensor, labels: Tensor) -> float | None:
    """By how many standard errors samples agree better with their own place than with another one of their class.

    About a standard normal number where all samples are new. None where there are too few of a class, or where all samples have
    changed in one and the same way, as when what they are scaled by is learned.
    """
    partners, kept = _partners(labels)
    if len(kept) < 24 or before.shape != after.shape or not 2 <= before.dim() <= 4 or _is_rescaled(before, after):
        return None
    one, other = _normalised(before), _normalised(after)
    gain = _agreement(one[kept], other[kept]) - _agreement(one[kept], other[partners])
    spread = float(gain.std())
    return float(gain.mean()) / spread * len(kept) ** 0.5 if spread > 0 else None


def _partners(labels: Tensor) -> tuple[Tensor, Tensor]:
    """(for each sample the next one of its class, the samples that have one)."""
    count = len(labels)
    order = torch.arange(count)
    apart = (order[None] - order[:, None]) % count  # 0 for itself
    apart = torch.where((labels[:, None] == labels[None]) & (apart > 0), apart, count)
    nearest = apart.min(1)
    kept = (nearest.values < count).nonzero().squeeze(1)
    return nearest.indices[kept], kept


def _is_rescaled(before: Tensor, after: Tensor) -> bool:
    """Whether every number is the old one, moved and scaled as the same number of every other sample is."""
    one, other = (tensor.flatten(1) - tensor.flatten(1).mean(0) for tensor in (before, after))
    norm = (one.square().sum(0) * other.square().sum(0)).sqrt()
    correlation = (one * other).sum(0)[norm > 0] / norm[norm > 0]
    return not len(correlation) or float(correlation.median()) > 0.9999


def _normalised(samples: Tensor) -> Tensor:
    """(samples, channels, places…) with mean 0 and length 1 each."""
    samples = samples if samples.dim() == 4 else samples.unsqueeze(1)
    axes = tuple(range(1, samples.dim()))
    samples = samples - samples.mean(axes, keepdim=True)
    return samples / samples.square().sum(axes, keepdim=True).sqrt().clamp_min(1e-12)


def _agreement(one: Tensor, other: Tensor) -> Tensor:
    """For each pair the best correlation over all shifts, as it is and mirrored."""
    axes = tuple(range(2, one.dim()))
    sizes = [2 * size for size in one.shape[2:]]
    first = torch.fft.rfftn(one, sizes, axes)
    found = []
    for each in (other, other.flip(-1)):
        product = (first * torch.fft.rfftn(each, sizes, axes).conj()).sum(1)
        found.append(torch.fft.irfftn(product, sizes, [axis - 1 for axis in axes]).flatten(1).amax(1))
    return torch.maximum(*found)
