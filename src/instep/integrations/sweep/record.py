"""What a sweep knows of its trials. A trial is a run folder; the storage may hold it several times, once for each promotion."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Mode = Literal["min", "max"]
State = Literal["running", "finished", "pruned", "diverged", "failed"]


@dataclass(frozen=True)
class TrialRecord:
    """One trial as the storage has it."""

    trial: int  # its number in the sweep, from 0; its folder has it
    stored: Mapping[str, Any]  # its parameters, as the storage holds them
    state: State
    values: Mapping[int, float]  # the metric by the number of the evaluation, from 1
    marks: Mapping[str, tuple[int, Any]] = field(default_factory=dict)  # what the pruner noted, and at which evaluation
    is_over: bool = False  # its last evaluation is the last of its run
    error: str = ""

    @property
    def last(self) -> int:
        """How many evaluations it has."""
        return max(self.values, default=0)

    def best(self, mode: Mode) -> float | None:
        """The best value of its evaluations; nan is never it."""
        known = [value for value in self.values.values() if not math.isnan(value)]
        return (min(known) if mode == "min" else max(known)) if known else None


@dataclass(frozen=True)
class Ending:
    """How the training of a trial ended, as far as it came; "running" where it was interrupted and goes on later."""

    state: State
    error: str = ""
