"""What was not looked at is unknown, and unknown is not wrong: rules that are shown it say nothing.

Records of every part of the trace are made with their counts of what happened, and without what somebody saw when they looked.
"""

import dataclasses
import itertools
import typing
from collections import Counter, deque
from typing import Any

import pytest
from torch import nn

from instep.doctor.rules import Rule, all_rules
from instep.doctor.trace import Trace
from instep.doctor.watch import areas
from instep.doctor.watch.calls import Root
from instep.doctor.watch.losses import FUNCTIONS
from instep.doctor.watch.rows import Rows

HAPPENED = {
    "all_steps", "arrivals", "backwards", "batches", "calls", "count", "eval_calls", "full_passes", "given", "graded", "graphs",
    "length", "made", "parameters", "passes", "samples", "size", "steps", "train_calls",
    "train_steps", "trained", "with_graph",
}  # fmt: skip
LOOKED = {"compared", "examined", "looked", "looks", "sampled", "seen", "walked"}
# Records that are there only because something was seen: they are the finding.
SEEN = {
    ("Comparisons", "crossed"), ("Comparisons", "learned"), ("Dropouts", "leaks"), ("Norms", "early"), ("Ranks", "bypasses"),
    ("Owners", "dead"), ("Owners", "orphans"), ("Owners", "stale"), ("Owners", "starved"),
    ("Structure", "shared"), ("Structure", "sharings"), ("Structure", "typos"),
}  # fmt: skip
MANY = 1000
NAMES = {
    "function": [*FUNCTIONS, "clip_grad_norm_"],
    "name": ["Adam", "SGD", "ReduceLROnPlateau", "LambdaLR", "OneCycleLR", "CosineAnnealingLR", "MultiStepLR"],
}


def made(kind: Any, counts: dict[str, int], **named: str) -> Any:
    """A record in which nothing is known but those counts, and what it is called."""
    hints = typing.get_type_hints(kind)
    given: dict[str, Any] = dict(named)
    for each in dataclasses.fields(kind):
        hint = hints[each.name]
        if each.name in named:
            continue
        if each.name in counts and hint is int:
            given[each.name] = counts[each.name]
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            given[each.name] = plain(hint, counts)
    return kind(**given)


def plain(hint: Any, counts: dict[str, int]) -> Any:
    """A value of that type that says nothing."""
    if hint is Root:
        root = Root(0, nn.Linear(2, 2))
        root.trained = root.in_train = counts.get("trained", 0)
        return root
    if typing.get_origin(hint) in (tuple, list, dict):
        return () if typing.get_origin(hint) is tuple else typing.get_origin(hint)()
    if type(None) in typing.get_args(hint):
        return "train.py:1" if str in typing.get_args(hint) else None
    if dataclasses.is_dataclass(hint):
        return made(hint, counts)
    return {str: "name", bool: False, float: 0.0, int: 0}.get(hint)


def key_of(hint: Any, record: Any) -> Any:
    if typing.get_origin(hint) is tuple:
        return (getattr(record, "function", "name"), getattr(record, "site", None))
    return getattr(record, "number", 0) if hint is int else getattr(record, "site", None)


def fill(part: Any, counts: dict[str, int]) -> None:
    """One record in each container of a part."""
    for name, hint in typing.get_type_hints(type(part)).items():
        container, types = getattr(part, name, None), typing.get_args(hint)
        record_type = types[-1] if types else None
        if (type(part).__name__, name) in SEEN or not dataclasses.is_dataclass(record_type):
            continue
        for record in records(record_type, counts):
            if isinstance(container, dict) and not isinstance(container, Counter):
                container[key_of(types[0], record)] = record
            elif isinstance(container, (list, deque)):
                container.append(record)


def records(kind: Any, counts: dict[str, int]) -> list[Any]:
    """One, or one for each name that rules know."""
    called = next((name for name in NAMES if name in {each.name for each in dataclasses.fields(kind)}), None)
    if called is None or kind.__name__ in ("Movement", "Norm", "Line", "Loaded", "Moves"):
        return [made(kind, counts)]
    made_ones = [made(kind, counts, **{called: name}) for name in NAMES[called]]
    for number, each in enumerate(made_ones):
        if hasattr(each, "number"):
            each.number = number
    return made_ones


def is_part(kind: Any, module: str) -> bool:
    """Whether it is a class of that module that needs no arguments."""
    return kind.__module__ == module and all(each.default is not each.default_factory for each in dataclasses.fields(kind))


def unknown(counts: dict[str, int], *, ended: bool) -> Trace:
    trace = Trace()
    trace.steps = trace.backwards = trace.calls = MANY
    trace.ended = ended
    for module in areas():
        for kind in vars(module).values():
            if isinstance(kind, type) and dataclasses.is_dataclass(kind) and is_part(kind, module.__name__):
                fill(trace.part(kind), counts)
    trace.part(Rows).seeded = True
    return trace


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in all_rules()])
def test_a_rule_is_silent_about_what_is_not_known(rule: Rule) -> None:
    happened, looked = dict.fromkeys(HAPPENED, MANY), dict.fromkeys(LOOKED, MANY)
    for counts, ended in itertools.product(({}, happened, happened | looked), (False, True)):
        assert list(rule.judge(unknown(counts, ended=ended))) == [], (counts, ended)
    assert list(rule.judge(Trace())) == []
