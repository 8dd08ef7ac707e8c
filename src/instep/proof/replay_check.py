"""Whether a replay is what the run was: the rows of its log, against those of the history."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from instep.run.history import History, Row
from instep.text import number, plural

# Values of a row that a replay makes too. What somebody logged in a loop of their own is not among them.
KINDS = ("update", "evaluation")
NOT_COMPARED = ("clock", "kind", "tables")
ROUNDING = 1e-5  # relative, below which a difference may come from the order of sums; sums of float32 have about 7 digits


@dataclass(frozen=True)
class RowDifference:
    """A value of the history that a replay does not have."""

    step: int
    name: str
    recorded: Any
    replayed: Any

    @property
    def relative(self) -> float:
        """Relative to the larger one; inf where one of them is no finite number."""
        one, other = self.recorded, self.replayed
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in (one, other)):
            return math.inf
        return float(abs(one - other) / max(abs(one), abs(other)))

    def __str__(self) -> str:
        return f"{self.name} is {number_or_word(self.replayed)}, the history has {number_or_word(self.recorded)}"


@dataclass(frozen=True)
class Check:
    """What was compared: `rows` of the history, the last of them with `step` updates made."""

    rows: int
    step: int | None = None
    differences: tuple[RowDifference, ...] = ()  # the earliest first

    @property
    def verdict(self) -> Literal["bitwise", "rounding", "differs", "nothing"]:
        """`nothing` where no row of the history lies in what was replayed."""
        if not self.rows:
            return "nothing"
        if not self.differences:
            return "bitwise"
        return "rounding" if max(one.relative for one in self.differences) <= ROUNDING else "differs"

    def __str__(self) -> str:
        if not self.rows or self.step is None:
            return "no row of it lies between the two steps, so nothing could be compared"
        compared = f"{plural(self.rows, 'row')} of it, to step {self.step:,}"
        if not self.differences:
            return f"{compared}: the same, bit for bit"
        largest = max(one.relative for one in self.differences)
        if self.verdict == "rounding":
            return f"{compared}: the same up to rounding, {number(largest)} at most"
        return f"{compared}: they differ, first at step {self.differences[0].step:,}: {self.differences[0]}"


def number_or_word(value: Any) -> str:
    """Enough digits to tell two numbers apart."""
    return "nothing" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def check(recorded: History, replayed: History, after: int) -> Check:
    """Compare the rows that a replay made with those of the history, from the first one after so many updates on."""
    pairs = list(pair_rows(recorded, replayed, after))
    found = [one for before, now in pairs for one in compare_rows(before, now)]
    return Check(len(pairs), max((row["step"] for _, row in pairs), default=None), tuple(found))


def pair_rows(one: History, other: History, after: int = 0) -> Iterator[tuple[Row, Row]]:
    """The rows of two histories that stand for the same updates, from the first one after so many updates on.

    A row of the log is a mean over the updates since the row before it, so that one has to be at the same step in both.
    """
    theirs = dict(_with_their_starts(other, after))
    for key, row in _with_their_starts(one, after):
        if key in theirs:
            yield row, theirs[key]


def _with_their_starts(history: History, after: int) -> Iterator[tuple[tuple[str, int, int], Row]]:
    """Each row by its kind, the step at which its updates begin, and its own; that of the first row stands in no history."""
    begun: dict[str, int] = {}
    for row in _rows_after(history, after):
        kind = row.get("kind")
        if kind in KINDS:
            yield (kind, begun.get(kind, after), row["step"]), row
            begun[kind] = row["step"]


def compare_rows(recorded: Row, replayed: Row) -> list[RowDifference]:
    """The values that both have and that are not the same; nan is the same as nan."""
    return [
        RowDifference(recorded["step"], name, recorded[name], replayed[name])
        for name in recorded
        if name in replayed and name not in NOT_COMPARED and not same_value(recorded[name], replayed[name])
    ]


def same_value(one: Any, other: Any) -> bool:
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return both_nan or one == other


def _rows_after(history: History, step: int) -> list[Row]:
    """From the end: of a long history only these are parsed."""
    found = []
    for place in range(len(history.rows) - 1, -1, -1):
        row = history.rows[place]
        if row["step"] <= step:
            break
        found.append(row)
    return found[::-1]
