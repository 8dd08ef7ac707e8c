"""The trace: bounded summaries of what was seen, in parts, one for each area. Rules read it and nothing else.

A part is a plain class without arguments, defined beside the observer that fills it (`watch/<area>.py`). Parts hold counts,
names, sites and small numbers, never tensors, modules or loaders: those must be free to die. What grows with the run is a
`deque(maxlen=…)` or a dictionary with a limit.
"""

from typing import Any, TypeVar, cast

P = TypeVar("P")


class Trace:
    """What was seen so far. `trace.part(Gradients)` gives the part of that class, empty at first."""

    def __init__(self) -> None:
        self.steps = 0  # optimizer steps that have ended; one inside another (SAM, a wrapper) counts once
        self.backwards = 0  # backward calls begun
        self.calls = 0  # root calls begun
        self.batches = 0  # batches drawn from loaders
        self.ended = False  # whether this is the last judgement
        self.strict = False
        self.probes = True  # whether a training call may be rehearsed
        self._parts: dict[type[Any], Any] = {}

    def part(self, kind: type[P]) -> P:
        """The part of that class."""
        part = self._parts.get(kind)
        if part is None:
            part = self._parts[kind] = kind()
        return cast(P, part)
