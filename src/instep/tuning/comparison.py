"""A comparison: how long an update takes in several ways of making it, which take turns, and whether compiling the model pays.

A slow moment of the machine hits all of them. A ratio is the median over the turns: both sides of it come from the same moment.
"""

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from instep.text import columns, many, plural, wrapped

ROUNDS = 10
LEAST_S = 2.0  # each way is timed for about so long, unless somebody says how many updates
MOST_UPDATES = 2_000
WIDTH = 80  # of the text

PLAIN, TRAINER, COMPILED = "plain loop", "Trainer", "Trainer, compile=True"


@dataclass(frozen=True)
class Timing:
    """How long one way of making updates took: its first one, and the mean of each block."""

    first_s: float
    blocks_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.blocks_s)

    @property
    def middle_s(self) -> tuple[float, float]:
        """The quartiles."""
        return quartiles(self.blocks_s)


@dataclass(frozen=True)
class Comparison:
    """What was measured; `print` shows it in words."""

    batch_size: int
    threads: int
    device: str
    updates: int  # that each way made under the clock
    total_steps: int  # of the run
    timings: Mapping[str, Timing]
    compilations: int = 1  # of a compiled model: one for each size of batch
    compile_failed: str | None = None  # why the compiled model could not be timed
    waiting: float = 0.0  # the share of the Trainer's time that was spent waiting for batches
    left_out: tuple[str, ...] = ()  # arguments of the run that the plain loop does not have

    def ratio(self, way: str, other: str) -> tuple[float, float, float]:
        """How many times as fast `way` is as `other`: the median over the turns, and the quartiles."""
        pairs = zip(self.timings[other].blocks_s, self.timings[way].blocks_s, strict=True)
        ratios = [theirs / own for theirs, own in pairs]
        return (statistics.median(ratios), *quartiles(ratios))

    @property
    def pays_after(self) -> int | None:
        """After how many updates compile=True has paid for its compiling; None where it never does, or was not timed."""
        if COMPILED not in self.timings:
            return None
        compiled, plain = self.timings[COMPILED], self.timings[TRAINER]
        gain_s = plain.median_s - compiled.median_s
        is_faster = self.ratio(COMPILED, TRAINER)[1] > 1  # in three turns of four
        return math.ceil(self.compilations * compiled.first_s / gain_s) if is_faster and gain_s > 0 else None

    def as_json(self) -> dict[str, Any]:
        """Everything, in JSON's types."""
        pairs = [(TRAINER, PLAIN), (COMPILED, TRAINER)]
        return asdict(self) | {
            "update_s": {way: timing.median_s for way, timing in self.timings.items()},
            "samples_per_s": {way: self.batch_size / timing.median_s for way, timing in self.timings.items()},
            "ratio": {f"{one} / {other}": self.ratio(one, other)[0] for one, other in pairs if one in self.timings},
            "pays_after": self.pays_after,
        }

    def __str__(self) -> str:
        rows = [
            (way, many(self.batch_size / timing.median_s), _us(timing.median_s), "–".join(map(_us, timing.middle_s)))
            for way, timing in self.timings.items()
        ]
        sentences = [self._against_plain(), self._compiling()]
        if self.waiting >= 0.05:
            sentences.append(f"The Trainer spends {self.waiting:.0%} of its time waiting for batches.")
        if self.left_out:
            sentences.append(f"Only the Trainer has {', '.join(self.left_out)}.")
        head = f"batch_size={self.batch_size}, {plural(self.threads, 'thread')}, {self.device}; "
        return "\n".join(
            [
                f"{head}{plural(self.updates, 'update')} each, in {len(self.timings[PLAIN].blocks_s)} turns",
                "",
                *columns(("", "samples/s", "µs an update", "middle half"), rows, left=("",)),
                "",
                *(line for sentence in sentences if sentence for line in wrapped(sentence, WIDTH)),
            ]
        )

    def _against_plain(self) -> str:
        ratio, low, high = self.ratio(TRAINER, PLAIN)
        spread = f"{low:.2f} to {high:.2f} in the middle half of the turns"
        return f"The Trainer is {ratio:.2f} × as fast as the plain loop ({spread})."

    def _compiling(self) -> str:
        if self.compile_failed is not None:
            return f"Whether compile=True pays could not be measured: {self.compile_failed}"
        if COMPILED not in self.timings:
            return ""
        compiled = self.timings[COMPILED]
        again = ", as does the smaller last batch of an epoch" if self.compilations > 1 else ""
        first = f"the first update takes {compiled.first_s:.1f} s{again}"
        measured = f"{first}; the others are {self.ratio(COMPILED, TRAINER)[0]:.2f} × as fast as without it."
        if self.pays_after is None:
            return f"compile=True does not pay: {measured}"
        after, length = plural(self.pays_after, "update"), plural(self.total_steps, "update")
        return f"compile=True pays after {after}: {measured} This run has {length}."


def quartiles(values: tuple[float, ...] | list[float]) -> tuple[float, float]:
    """The bounds of the middle half."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


class Way:
    """One way of making updates, under the clock. The first update is timed alone, and a second one warms up."""

    def __init__(self, updates: Iterator[object], device: torch.device) -> None:
        self._updates = updates
        self._device = device
        self._blocks_s: list[float] = []
        self.total_s = 0.0
        self._first_s = self._block_s(1)
        self._block_s(1)

    def time(self, updates: int) -> None:
        """Make a block of updates."""
        self._blocks_s.append(self._block_s(updates) / updates)

    def timing(self) -> Timing:
        return Timing(self._first_s, tuple(self._blocks_s))

    def _block_s(self, updates: int) -> float:
        taken = block_s(self._updates, updates, self._device)
        self.total_s += taken
        return taken


def take_turns(ways: Sequence[Way], updates: int) -> None:
    """Time so many updates of each way, in blocks that take turns."""
    rounds = min(ROUNDS, updates)
    for done in range(rounds):
        length = updates * (done + 1) // rounds - updates * done // rounds
        for way in ways:
            way.time(length)


def enough_updates(updates: Iterator[object], device: torch.device) -> int:
    """So many updates that they take about LEAST_S; the first one warms up."""
    next(updates)
    update_s = min(block_s(updates, 1, device) for _ in range(3))
    return max(ROUNDS, min(MOST_UPDATES, round(LEAST_S / max(update_s, 1e-9))))


def block_s(updates: Iterator[object], count: int, device: torch.device) -> float:
    """Seconds of so many updates."""
    begun = time.perf_counter()
    for _ in range(count):
        next(updates)
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - begun


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}"
