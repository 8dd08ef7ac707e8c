"""Phases: a new loader, or a new optimizer, begins another part of a script, where other things may be wrong.

Watchers that look at the first calls of a line look again then: what was right in the first phase says nothing of the second.
"""

from dataclasses import dataclass
from typing import Any

from instep.doctor.hub import Hub
from instep.doctor.trace import Trace
from instep.doctor.watch.loaders import Pass

MOST = 64


@dataclass
class Phases:
    """The part of the trace about phases."""

    number: int = 0


class PhaseWatch:
    """Fills `Phases`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part, self._trace = trace.part(Phases), trace
        self._step = 0

    def on_pass_begins(self, begun: Pass, _: Any) -> None:
        if begun.number == 1:
            self._begin()

    def on_optimizer(self, *_: Any) -> None:
        self._begin()

    def _begin(self) -> None:
        """Not before anything was trained, and not twice at one step."""
        if self._trace.steps > self._step and self._part.number < MOST:
            self._part.number += 1
            self._step = self._trace.steps


OBSERVERS = [PhaseWatch]
