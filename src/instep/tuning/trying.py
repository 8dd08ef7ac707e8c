"""Trying: the largest size that fits, found by doubling and bisecting."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

import torch

from instep.data.device import clean_up, is_out_of_memory
from instep.records import StepResult

CLOSE = 0.03  # of the size: nearer than that nobody needs to know it


@dataclass(frozen=True)
class Tried:
    """A size that was tried; `peak_bytes` where it was measured."""

    samples: int
    fits: bool
    peak_bytes: int | None = None


def largest_fitting(fits: Callable[[int], bool], *, least: int, most: int) -> list[Tried]:
    """Every size that was tried, in order: doubled from `least` until one does not fit, then bisected; none above `most`."""
    tried: list[Tried] = []

    def try_out(samples: int) -> bool:
        tried.append(Tried(samples, fits(samples)))
        return tried[-1].fits

    good, size = 0, least
    while try_out(size):
        if size == most:
            return tried
        good, size = size, min(2 * size, most)
    bad = size
    while good and bad - good > max(1, CLOSE * good):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if try_out(middle) else (good, middle)
    return tried


def fits(make: Callable[[], Generator[StepResult, None, None]], device: torch.device) -> bool:
    """Whether two updates go through without running out of memory; what they left is cleaned up."""
    try:
        with closing(make()) as updates:
            for _ in range(2):  # the optimizer's state is there from the first step on, gradients only until the second
                float(next(updates).loss)
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
            return True
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    clean_up(device)  # here, where the error with its frames and all they hold is gone
    return False
