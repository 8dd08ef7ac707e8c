"""The trace: bounded summaries of what was seen, in parts, one for each area. Rules read it and nothing else.

A part is a plain class without arguments, defined beside the observer that fills it (`watch/<area>.py`). Parts hold counts,
names, sites and small numbers, never tensors, modules or loaders: those must be free to die. What grows with the run is a
`deque(maxlen=…)` or a dictionary with a limit.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from instep.doctor.margins import Margins, factor_between, factor_between_shares
from instep.doctor.tallies import Tally

P = TypeVar("P")


class Unjudged(Exception):
    """A part of the trace is asked for whose observer has failed, or needs one that has: what it holds may be wrong."""


class Trace:
    """What was seen so far. `trace.part(Gradients)` gives the part of that class, empty at first."""

    def __init__(self) -> None:
        self.steps = 0  # optimizer steps that have ended; one inside another (SAM, a wrapper) counts once
        self.watched = 0  # of those, how many were watched: what the counts of calls and backwards are compared with
        self.backwards = 0  # backward calls begun
        self.calls = 0  # root calls begun
        self.batches = 0  # batches drawn from loaders
        self.ended = False  # whether this is the last judgement
        self.strict = False
        self.probes = True  # whether a training call may be repeated to learn from it
        self.margins: Margins | None = None  # of the conditions of rules, where somebody asks for them
        self.failed: set[str] = set()  # modules of observers whose parts are no longer kept up
        self.asked: set[str] = set()  # modules whose parts were asked for: of an observer, those that it needs
        self._parts: dict[type[Any], Any] = {}

    def part(self, kind: type[P]) -> P:
        """The part of that class. Raises Unjudged where it is no longer kept up."""
        self.asked.add(kind.__module__)
        if kind.__module__ in self.failed:
            raise Unjudged(kind.__name__)
        part = self._parts.get(kind)
        if part is None:
            part = self._parts[kind] = kind()
        return cast(P, part)

    def tallies(self) -> Iterator[Tally]:
        """Every tally that a part holds."""
        for part in self._parts.values():
            for held in vars(part).values():
                for value in held.values() if isinstance(held, dict) else held if isinstance(held, list) else ():
                    if isinstance(value, Tally):
                        yield value

    # Rules compare what was measured by these. Counts that a program fixes (three steps, one pass) need no margin.

    def exceeds(self, value: float, limit: float) -> bool:
        """Whether a measured value is above a limit."""
        if self.margins is not None:
            self.margins.note(factor_between(value, limit), value > limit)
        return value > limit

    def is_below(self, value: float, limit: float) -> bool:
        """Whether a measured value is below a limit."""
        if self.margins is not None:
            self.margins.note(factor_between(value, limit), value < limit)
        return value < limit

    def has_share(self, count: float, whole: float, share: float) -> bool:
        """Whether `count` makes up at least that share of the whole."""
        if self.margins is not None and whole:
            self.margins.note(factor_between_shares(count / whole, share), count >= share * whole)
        return count >= share * whole

    def is_excluded(self, check: Callable[[], bool]) -> bool:
        """Whether a check holds that belongs to another rule: what it compares is no condition of this one."""
        margins, self.margins = self.margins, None
        try:
            return check()
        finally:
            self.margins = margins
