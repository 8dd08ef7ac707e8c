"""Pace: samples a second over sizes, and the knee from which on larger ones no longer help."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

import torch

from instep.records import StepResult

ENOUGH = 0.9  # of the best pace: who has that is at the knee
LEAST_S = 0.05  # a size is timed for as long as this, by as many updates as that takes
MOST_UPDATES = 20


@dataclass(frozen=True)
class Paced:
    """How fast updates on micro-batches of one size are."""

    samples: int
    samples_per_s: float


def sizes_up_to(largest: int, least: int = 1) -> list[int]:
    """Powers of two from `least` on, and the largest itself."""
    powers = [2**power for power in range(largest.bit_length()) if least <= 2**power < largest]
    return [*powers, largest] if largest >= least else []


def timed(make: Callable[[int], Generator[StepResult, None, None]], samples: int, device: torch.device) -> Paced:
    """The fastest of several updates: whatever else the machine does only ever makes one slower."""
    with closing(make(samples)) as updates:
        _update_s(updates, device)  # the first one warms up
        seconds: list[float] = []
        while sum(seconds) < LEAST_S and len(seconds) < MOST_UPDATES:
            seconds.append(_update_s(updates, device))
    return Paced(samples, samples / max(min(seconds), 1e-9))


def knee(paces: Sequence[Paced]) -> int | None:
    """The smallest size that is nearly as fast as the fastest; None where nothing was timed."""
    best = max((pace.samples_per_s for pace in paces), default=0.0)
    return next((pace.samples for pace in sorted(paces, key=lambda p: p.samples) if pace.samples_per_s >= ENOUGH * best), None)


def _update_s(updates: Generator[StepResult, None, None], device: torch.device) -> float:
    begun = time.perf_counter()
    next(updates)
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - begun
