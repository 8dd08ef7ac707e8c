"""Trying: the largest size that fits, found by doubling and bisecting; and how a device says that something does not fit."""

import gc
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

import torch

from instep.records import Done

CLOSE = 0.03  # of the size: nearer than that nobody needs to know it

# What devices say instead of raising torch.OutOfMemoryError.
SAID = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")


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


def fits(make: Callable[[], Generator[Done, None, None]], device: torch.device) -> bool:
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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory does not suffice, in whatever words its device has for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in SAID)


def clean_up(device: torch.device) -> None:
    """Let go of what a failed attempt held; an accelerator's cache is emptied, or the next attempt would find it taken."""
    gc.collect()
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()
