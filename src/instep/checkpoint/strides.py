"""Strides: how the elements of a tensor lie in memory, as arithmetic on shapes. Nothing here looks at a tensor's values."""

import math
from collections.abc import Sequence

from torch import Tensor


def row_by_row(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, as torch gives them."""
    if len(shape) < 2:
        return (1,) * len(shape)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether every place between the first element and the last is one element's, in any order: transposed, channels last, …"""
    step = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size != 1):
        if stride != step:
            return False
        step *= size
    return True


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many places lie between the first element and the last, both counted."""
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def covers_itself(tensor: Tensor) -> bool:
    """Whether several elements are one place in memory, as after `expand`."""
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
