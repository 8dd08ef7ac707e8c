"""Tallies: counts of what happens at one line, of the whole run or of one phase of it.

A rule that asks for a share of all calls is outvoted where a mistake begins late: two hundred right steps of a first phase hide a
hundred wrong ones of the second. So the counts are noted when a phase begins (`watch/phases.py`), and rules judge each phase by
itself, and the whole run.
"""

import copy
from collections import Counter, deque
from dataclasses import fields
from typing import Any, TypeVar

# Whole numbers that are no counts.
KEPT = frozenset({
    "number", "phase", "made_step", "last_step", "first_step", "first_thrown", "first_old", "wasted_first", "run_first",
    "looks", "samples", "most", "backwards", "arrivals", "time",
})  # fmt: skip


ENOUGH = 8  # events in a phase: fewer are an exception, not a habit
EVENTS = ("count", "graphs", "calls", "graded", "steps")  # what a tally counts them by


class Tally:
    """A record of counts that rules judge by phases: a dataclass whose whole numbers and counters only grow."""

    __slots__ = ()


T = TypeVar("T", bound=Tally)


def noted(tally: T) -> T:
    """The tally as it is now: it does not grow with the other."""
    return _with(tally, {each.name: _copied(getattr(tally, each.name)) for each in fields(tally)})  # type: ignore[arg-type]


def since(tally: T, before: T | None, step: int) -> T | None:
    """What was counted after `before` was noted, at that step; None where that is nothing, or too little to say something."""
    if before is None:
        return tally if _is_enough(tally) else None
    names = [each.name for each in fields(tally)]  # type: ignore[arg-type]
    values = {name: (getattr(tally, name), getattr(before, name)) for name in names}
    if all(now == then for now, then in values.values()):
        return None
    differences = {name: _difference(name, now, then) for name, (now, then) in values.items()}
    if "recent" in differences:
        differences["recent"] = deque(fact for fact in differences["recent"] if fact.number >= step)
    if "first_step" in differences:
        differences["first_step"] = max(differences["first_step"], step)
    found = _with(tally, differences)
    return found if _is_enough(found) else None


def _is_enough(tally: Tally) -> bool:
    events = next((events for name in EVENTS if type(events := getattr(tally, name, None)) is int), ENOUGH)
    return events >= ENOUGH


def _with(tally: T, values: dict[str, Any]) -> T:
    made = copy.copy(tally)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (dict, deque, list)) else value


def _difference(name: str, now: Any, then: Any) -> Any:
    """Of counts; anything else stays as it is now."""
    if type(now) is int and type(then) is int and name not in KEPT:
        return now - then
    if isinstance(now, Counter):
        return now - then
    if isinstance(now, deque) and len(now) < (now.maxlen or 0):
        return deque(list(now)[len(then) :], now.maxlen)
    if name == "totals":
        return {key: count - then.get(key, 0) for key, count in now.items() if count > then.get(key, 0)}
    return now
