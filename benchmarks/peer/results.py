"""What was measured: medians, quartiles and ratios, and whether a contestant did the work at all."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

Measure = Literal["train_s", "processor_s", "construct_s"]
Pair = dict[str, list[tuple[float, float]]]  # by measure: seconds of Instep and of the other, next to each other in time
ENOUGH = 8  # pairs: with fewer, the rounds tell more
TO_ROUNDING = 1e-4  # of the largest weight; AdamW blows rounding up where the true gradient is 0
OWN_OPTIMIZER = 2e-2  # of the loss, or of 0.1 where the loss is smaller


@dataclass
class Entry:
    """A contestant in a row of the table: seconds of each round, or why there are none."""

    train_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)
    construct_s: list[float] = field(default_factory=list)
    loss: float | None = None
    weights: str | None = None
    reason: str | None = None  # why there is nothing to measure
    failed: str | None = None

    def add(self, answer: dict[str, Any]) -> None:
        self.train_s.append(answer["train_s"])
        self.processor_s.append(answer["processor_s"])
        self.construct_s.append(answer["construct_s"])

    def seconds(self, measure: Measure = "train_s") -> list[float]:
        return {"train_s": self.train_s, "processor_s": self.processor_s, "construct_s": self.construct_s}[measure]

    def median(self, measure: Measure = "train_s") -> float:
        return statistics.median(self.seconds(measure))

    def quartiles(self) -> tuple[float, float]:
        return quartiles(self.train_s)

    def __bool__(self) -> bool:
        return bool(self.train_s) and self.failed is None


@dataclass
class Results:
    """All entries, by work, number of threads and contestant; and what they were measured on."""

    machine: dict[str, Any]
    versions: dict[str, str]
    rounds: int
    entries: dict[str, dict[str, dict[str, Entry]]] = field(default_factory=dict)
    pairs: dict[str, dict[str, dict[str, Pair]]] = field(default_factory=dict)  # by work, threads and whom Instep stood beside

    def entry(self, work: str, threads: int, contestant: str) -> Entry:
        return self.entries.setdefault(work, {}).setdefault(str(threads), {}).setdefault(contestant, Entry())

    def pair(self, work: str, threads: int, other: str) -> Pair:
        rows = self.pairs.setdefault(work, {}).setdefault(str(threads), {})
        return rows.setdefault(other, {"train_s": [], "processor_s": []})

    def seconds_beside(
        self, work: str, threads: int, of: str, against: str, measure: Measure = "train_s"
    ) -> list[tuple[float, float]]:
        """Seconds of both, measured next to each other; where that was not done often enough, in the same round."""
        pairs = self.pairs.get(work, {}).get(str(threads), {}).get(against, {}).get(measure)
        if of == "instep" and pairs and len(pairs) >= ENOUGH:
            return pairs
        one, other = self.entry(work, threads, of), self.entry(work, threads, against)
        return list(zip(one.seconds(measure), other.seconds(measure), strict=True)) if one and other else []

    def speed(self, work: str, threads: int, of: str, against: str, measure: Measure = "train_s") -> float | None:
        """How many times as fast one contestant is as another: the median of the ratios."""
        beside = self.seconds_beside(work, threads, of, against, measure)
        return statistics.median(b / a for a, b in beside) if beside else None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Results":
        entries = {
            work: {threads: {name: Entry(**one) for name, one in row.items()} for threads, row in rows.items()}
            for work, rows in told["entries"].items()
        }
        return cls(told["machine"], told["versions"], told["rounds"], entries, told.get("pairs", {}))


def quartiles(seconds: Sequence[float]) -> tuple[float, float]:
    if len(seconds) < 2:
        return seconds[0], seconds[0]
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return low, high


def check_trained(entry: Entry, answer: dict[str, Any], weights: Path, plain: Path, plain_loss: float | None) -> None:
    """Sets `failed` where the loss did not fall, or where the result is not that of the plain loop."""
    before, after = answer["loss_before"], answer["loss_after"]
    entry.loss = after
    if not after < before:
        entry.failed = f"did not train: the loss was {before:.4f} and is {after:.4f}"
    elif weights.exists() and plain.exists():
        entry.weights, entry.failed = compare(weights, plain, after, plain_loss)


def compare(weights: Path, plain: Path, loss: float, plain_loss: float | None) -> tuple[str | None, str | None]:
    """How near the weights are to those of the plain loop, and what is wrong where they are not."""
    mine, theirs = np.load(weights), np.load(plain)
    largest = float(np.abs(theirs).max())
    apart = float(np.abs(mine - theirs).max()) / largest if mine.shape == theirs.shape else float("inf")
    if apart == 0.0:
        return "bitwise", None
    if apart <= TO_ROUNDING:
        return "to rounding", None
    if plain_loss is not None and abs(loss - plain_loss) <= OWN_OPTIMIZER * max(plain_loss, 0.1):
        return "near, with the same loss", None
    return None, f"another result: loss {loss:.4f}, the plain loop has {plain_loss}"
