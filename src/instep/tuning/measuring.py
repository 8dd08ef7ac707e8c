"""Measuring: the largest size within a budget of memory, where trying would be too late: a CPU out of memory kills the process.

The footprints of small sizes are counted and extrapolated; the size that they allow is then run for real, and corrected by what
the process really took. The C library keeps freed blocks: that took 0 to 60 % more than the tensors of an MLP, a CNN and a
transformer need, and up to three times as much where many blocks are a little below 32 MB [M].
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

from torch import nn
from torch.optim import Optimizer

from instep.records import StepResult
from instep.tuning import resident
from instep.tuning.footprint import Footprint, measure
from instep.tuning.textplot import interpolated
from instep.tuning.trying import Tried

ALIKE = 0.02  # a footprint that was foreseen this well needs no further one
FIRST_OVERHEAD = 1.6  # what the process takes for each byte of tensors, until it is known
FURTHEST = 8  # times the largest size that was run: no extrapolation goes beyond
ROUNDS = 6
NEAR = 0.95  # of the budget: nearer is not worth another round
UPDATES = 3  # of a real run: the heap has its size after two

MakeUpdates = Callable[[int], Generator[StepResult, None, None]]


@dataclass
class Measuring:
    """What is known so far of the memory that sizes take. `aside_bytes` is held by the search itself and not by a training."""

    make: MakeUpdates
    model: nn.Module
    optimizer: Optimizer
    least: int
    most: int
    aside_bytes: int = 0
    base_bytes: int = 0  # of the process before an update, with the optimizer's state and without gradients
    overhead: float = FIRST_OVERHEAD
    footprints: list[Footprint] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)

    def largest(self, budget_bytes: float) -> int:
        """The largest size within the budget; 0 where not even the smallest is."""
        self._run(self.least, updates=2)
        self._set_base()
        self._count_small_sizes(budget_bytes)
        good = 0
        for _ in range(ROUNDS):
            size = self._next_size(budget_bytes)
            if size < self.least or size in [tried.samples for tried in self.tried]:
                break
            tried = self._really(size, budget_bytes)
            if tried.fits:
                good = max(good, size)
                if size == self.most or (tried.peak_bytes or 0) >= NEAR * budget_bytes:
                    break
        return good

    def predicted_bytes(self, samples: int) -> float:
        """What the process will hold at its peak with micro-batches of this size; what was run is known."""
        known = [tried.peak_bytes for tried in self.tried if tried.samples == samples and tried.peak_bytes is not None]
        if known:
            return known[0]
        return self.base_bytes + self.overhead * extrapolated(self.footprints, samples)

    def _count_small_sizes(self, budget_bytes: float) -> None:
        """Double the size until the next footprint is no surprise any more."""
        size = self.least
        while size <= self.most:
            foreseen = extrapolated(self.footprints, size) if len(self.footprints) >= 3 else None
            if self.footprints and self.predicted_bytes(size) > budget_bytes:
                return
            self.footprints.append(self._counted(size))
            found = self.footprints[-1].peak
            if foreseen is not None and abs(foreseen - found) <= ALIKE * found:
                return
            size *= 2

    def _next_size(self, budget_bytes: float) -> int:
        """The largest size that is predicted to fit, not too far from those that were run."""
        known = max([*(tried.samples for tried in self.tried if tried.fits), *(f.samples for f in self.footprints)])
        low, high = 0, min(self.most, FURTHEST * known) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.predicted_bytes(middle) <= budget_bytes else (low, middle)
        return low

    def _counted(self, size: int) -> Footprint:
        with closing(self.make(size)) as updates:
            return measure(lambda: next(updates), size, self.model, self.optimizer)

    def _really(self, size: int, budget_bytes: float) -> Tried:
        """Run a size for real, and learn from it how much more than its tensors the process takes."""
        self.optimizer.zero_grad(set_to_none=True)
        resident.give_back()
        told = resident.restart_peak()
        footprint = self._counted(size)
        self._run(size, updates=UPDATES)
        peak = resident.peak_bytes() if told else None
        self.footprints = sorted([*(f for f in self.footprints if f.samples != size), footprint], key=lambda f: f.samples)
        taken = self.base_bytes + footprint.peak if peak is None else peak - self.aside_bytes  # outside Linux: only the tensors
        self.tried.append(Tried(size, taken <= budget_bytes, taken))
        self.overhead = max(1.0, *(self._overhead(one) for one in self.tried if 2 * one.samples >= size))
        return self.tried[-1]

    def _overhead(self, tried: Tried) -> float:
        """What the process took for each byte of tensors. It varies, so the worst of sizes like the last one is what to fear."""
        return ((tried.peak_bytes or 0) - self.base_bytes) / max(extrapolated(self.footprints, tried.samples), 1.0)

    def _run(self, size: int, *, updates: int) -> None:
        with closing(self.make(size)) as made:
            for _ in range(updates):
                next(made)

    def _set_base(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        resident.give_back()
        self.base_bytes = max(0, (resident.resident_bytes() or 0) - self.aside_bytes)


def extrapolated(footprints: Sequence[Footprint], samples: int) -> float:
    """The peak at another size: between those that were counted on straight lines, beyond on a parabola through the last three.

    It neither falls nor bends down, and what is saved for backward grows in proportion: that is the least there can be.
    """
    points = [(f.samples, f.peak) for f in footprints]
    last = footprints[-1]
    if samples <= last.samples:
        return interpolated([x for x, _ in points], [y for _, y in points], samples)
    return max(last.saved * samples / last.samples, _parabola(points[-3:], samples))


def _parabola(points: Sequence[tuple[int, float]], x: float) -> float:
    """Beyond up to three points whose x grow, by Newton's divided differences."""
    if len(points) == 1:
        return points[0][1] * x / points[0][0]  # in proportion
    slopes = [max(0.0, (y1 - y0) / (x1 - x0)) for (x0, y0), (x1, y1) in pairwise(points)]
    x1, (x2, y2) = points[-2][0], points[-1]
    bend = max(0.0, (slopes[-1] - slopes[0]) / (x2 - points[0][0]))
    return y2 + slopes[-1] * (x - x2) + bend * (x - x2) * (x - x1)
