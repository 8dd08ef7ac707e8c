"""A grid of pictures: as one array for a file, and as text, two pixels to a sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

GAP = 2  # pixels between two pictures
BACKGROUND = 24
SHADES = " .:-=+*#%@"
LEAST, MOST = 64, 512  # pixels: small pictures are enlarged in a file, large ones made smaller


def grid(pictures: Sequence[Any], *, across: int | None = None) -> Any:
    """All pictures in rows, as an array (height, width, 3); they need not have one size."""
    across = min(len(pictures), 8) if across is None else max(1, min(across, len(pictures)))
    height = max(picture.shape[0] for picture in pictures)
    width = max(picture.shape[1] for picture in pictures)
    down = math.ceil(len(pictures) / across)
    whole = np.full((down * (height + GAP) - GAP, across * (width + GAP) - GAP, 3), BACKGROUND, np.uint8)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, across)
        top, left = row * (height + GAP), column * (width + GAP)
        whole[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return whole


def for_file(pictures: Sequence[Any]) -> Any:
    """The grid with pictures that can be seen: enlarged pixel by pixel, or made smaller."""
    longest = max(max(picture.shape[:2]) for picture in pictures)
    if longest < LEAST:
        factor = -(-LEAST // longest)
        return grid([picture.repeat(factor, 0).repeat(factor, 1) for picture in pictures])
    share = min(1.0, MOST / longest)
    return grid([resized(picture, *_scaled(picture, share)) for picture in pictures])


def for_terminal(pictures: Sequence[Any], *, width: int, colour: bool) -> list[str]:
    """The grid as lines no longer than `width`: half blocks in colour, or shades of grey as signs."""
    longest = max(max(picture.shape[:2]) for picture in pictures)
    side = max(8, min(longest, 24, width))
    across = max(1, min(len(pictures), (width + GAP) // (side + GAP)))
    small = [resized(picture, *_scaled(picture, min(1.0, side / longest))) for picture in pictures[: 2 * across]]
    whole = grid(small, across=across)
    if len(whole) % 2:
        whole = np.concatenate([whole, np.full_like(whole[:1], BACKGROUND)])
    pairs = zip(whole[0::2], whole[1::2], strict=True)
    return [_coloured(top, bottom) if colour else _grey(top, bottom) for top, bottom in pairs]


def resized(picture: Any, height: int, width: int) -> Any:
    """The picture in another size, each pixel the mean of those it stands for."""
    if picture.shape[:2] == (height, width):
        return picture
    rows = np.linspace(0, picture.shape[0], height + 1).astype(int)
    columns = np.linspace(0, picture.shape[1], width + 1).astype(int)
    summed = np.add.reduceat(np.add.reduceat(picture.astype(np.float64), rows[:-1], 0), columns[:-1], 1)
    counts = np.diff(rows)[:, None] * np.diff(columns)[None, :]
    return (summed / counts[..., None]).round().astype(np.uint8)


def _scaled(picture: Any, share: float) -> tuple[int, int]:
    return max(1, round(picture.shape[0] * share)), max(1, round(picture.shape[1] * share))


def _coloured(top: Any, bottom: Any) -> str:
    """A sign whose upper half has one colour and its lower half another."""
    signs = [
        f"\x1b[38;2;{above[0]};{above[1]};{above[2]};48;2;{below[0]};{below[1]};{below[2]}m▀"
        for above, below in zip(top.tolist(), bottom.tolist(), strict=True)
    ]
    return "".join(signs) + "\x1b[0m"


def _grey(top: Any, bottom: Any) -> str:
    light = (top.astype(int) + bottom).sum(-1) / (6 * 255)
    return "".join(SHADES[min(len(SHADES) - 1, int(value * len(SHADES)))] for value in light)
