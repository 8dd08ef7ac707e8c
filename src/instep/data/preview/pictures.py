"""Pictures: the images in a batch as colours, whichever way round they are and however they were normalised."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from instep.data.preview.summary import Picture

SMALLEST = 4  # pixels of a side; below that it is no image


class Normalised(NamedTuple):
    """How images were normalised: (x - mean) / std, by channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def images_in(leaves: list[tuple[str, Any]]) -> Tensor | None:
    """The first column that holds images, as (samples, channels, height, width)."""
    for _, column in leaves:
        if not isinstance(column, Tensor) or column.dtype == torch.bool:
            continue
        if column.ndim == 4 and min(column.shape[2:]) >= SMALLEST and column.shape[1] in (1, 3):
            return column.detach().cpu()
        if column.ndim == 4 and min(column.shape[1:3]) >= SMALLEST and column.shape[3] in (1, 3):
            return column.detach().cpu().permute(0, 3, 1, 2)
        if (
            column.ndim == 3
            and min(column.shape[1:]) >= 2 * SMALLEST
            and (column.is_floating_point() or column.dtype == torch.uint8)
        ):
            return column.detach().cpu()[:, None]
    return None


def as_pictures(images: Tensor, normalised: Normalised | None) -> tuple[tuple[Picture, ...], str]:
    """Colours from 0 to 255, and in words how the values became them."""
    if images.dtype == torch.uint8:
        return _pictures(images.float() / 255), "as they are, 0 to 255"
    values = images.float()
    channels = values.shape[1]
    if normalised is not None and len(normalised.mean) in (1, channels):
        mean, std = (torch.tensor(numbers).view(1, -1, 1, 1) for numbers in normalised)
        values = values * std + mean
        told = f"de-normalised with mean {_listed(normalised.mean)} and std {_listed(normalised.std)}"
        if values.max() > 2:
            values, told = values / 255, f"{told}, of 255"
        return _pictures(values), told
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        return _pictures(values), "as they are, 0 to 1"
    stretched = (values - low) / (high - low) if high > low else torch.zeros_like(values)
    return _pictures(stretched), f"stretched from {low:.3g} to {high:.3g}"


def normalisation_in(things: list[Any]) -> Normalised | None:
    """That of a `Normalize` of torchvision, kornia or Albumentations among some things."""
    for thing in things:
        mean, std = getattr(thing, "mean", None), getattr(thing, "std", None)
        if type(thing).__name__ == "Normalize" and mean is not None and std is not None:
            scale = float(getattr(thing, "max_pixel_value", 1.0) or 1.0)
            means, stds = (tuple(float(number) * scale for number in np.asarray(numbers).reshape(-1)) for numbers in (mean, std))
            return Normalised(means, stds)
    return None


def _pictures(values: Tensor) -> tuple[Picture, ...]:
    colours = (values.nan_to_num(0).clamp(0, 1) * 255).round().to(torch.uint8)
    colours = colours.expand(-1, 3, -1, -1) if colours.shape[1] == 1 else colours
    return tuple(image.permute(1, 2, 0).contiguous().numpy() for image in colours)


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)
