"""Measuring: the largest size within a budget of memory, where trying would be too late: a CPU out of memory kills the process.

Sizes grow step by step, and each is run for real. How far a step may go is judged by what the sizes before it took.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from instep.errors import InstepError
from instep.loop.freed_memory import keep_freed_memory
from instep.records import StepResult
from instep.tuning import resident
from instep.tuning.trying import Tried

UPDATES = 3  # of a run: the heap has its size after two
# Further samples are taken to need this much more than those before them: memory may grow with the square of the samples, and the
# C library keeps freed blocks, up to three times as much as the tensors need where many are a little below 32 MB [M].
CAUTION = 2.0
CLOSE = 0.02  # of the size: nearer is not worth another run


def largest_within(budget_bytes: float, peak_of: Callable[[int], int], *, least: int, most: int) -> list[Tried]:
    """Every size that was run, in order; each at most twice the one before, and none that is foreseen above the budget."""
    tried: list[Tried] = []
    size = least
    while True:
        peak_bytes = peak_of(size)
        tried.append(Tried(size, peak_bytes <= budget_bytes, peak_bytes))
        if not tried[-1].fits:
            return tried
        further = min(size, most - size, int((budget_bytes - peak_bytes) / _sample_bytes(tried)))
        if further <= 0 or (further < CLOSE * size and size + further < most):
            return tried
        size += further


def _sample_bytes(tried: list[Tried]) -> float:
    """What a further sample is foreseen to take: by the last step, or by all of them where that says more."""
    *before, last = [(one.samples, one.peak_bytes or 0) for one in tried]
    slopes = [(last[1] - peak_bytes) / (last[0] - samples) for samples, peak_bytes in (*before[:1], *before[-1:])]
    return max(CAUTION * max(slopes, default=0.0), 1e-9)


@dataclass
class Measuring:
    """Runs sizes and reads what the process holds. `aside_bytes` is held by the search itself and not by a training."""

    make: Callable[[int], Generator[StepResult, None, None]]
    optimizer: Optimizer
    aside_bytes: int = 0

    def peak_bytes(self, size: int) -> int:
        """The most that the process holds while it trains with micro-batches of this size."""
        self.optimizer.zero_grad(set_to_none=True)
        resident.give_back()
        resident.restart_peak()
        with keep_freed_memory(torch.device("cpu")), closing(self.make(size)) as updates:  # as a training does
            for _ in range(UPDATES):
                next(updates)
        peak = resident.peak_bytes()
        if peak is None:
            raise InstepError(
                'how much memory this process holds cannot be told on this system; use how="trying", and mind that a CPU out of '
                "memory may end the process."
            )
        return max(0, peak - self.aside_bytes)
