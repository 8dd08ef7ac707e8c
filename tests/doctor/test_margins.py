"""Margins: by what factor the conditions of a rule held or failed."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.casebook import Case, on_an_edge
from instep.doctor.engine import Engine
from instep.doctor.finding import Finding
from instep.doctor.hub import Hub
from instep.doctor.margins import Margins, factor_between, factor_between_shares
from instep.doctor.rules import Rule
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace


def judged(values: list[tuple[float, int]], *, collecting: bool = True) -> tuple[Margins, list[str | None]]:
    """A rule that finds values above 10 that make up at least 80 of 100."""
    trace = Trace()

    def judge(trace: Trace) -> Iterator[Finding]:
        for value, count in values:
            if trace.exceeds(value, 10) and trace.has_share(count, 100, 0.8):
                yield Finding("no-seed", "seen", where=f"{value:g}")

    margins = Margins()
    trace.margins = margins if collecting else None
    engine = Engine(trace, Hub(trace, Locator()))
    engine._rules = [Rule("no-seed", judge, revocable=False)]
    engine.judge()
    return margins, [finding.where for finding in engine.findings.values()]


def test_a_finding_is_as_clear_as_its_weakest_condition() -> None:
    assert judged([(30, 100)])[0].found == {"no-seed": 3}
    assert judged([(30, 84)])[0].found == {"no-seed": pytest.approx(1.25)}  # 16 are missing where 20 may
    assert judged([(30, 84), (20, 100)])[0].found == {"no-seed": 2}  # the clearest of several


def test_nothing_is_as_clear_as_its_closest_miss() -> None:
    margins, found = judged([(2, 100), (30, 40), (8, 100)])
    assert found == []
    assert margins.found == {}
    assert margins.missed == {"no-seed": 1.25}


def test_nothing_is_collected_where_nobody_asks() -> None:
    margins, found = judged([(30, 100), (8, 100)], collecting=False)
    assert found == ["30"]
    assert margins == Margins()


def test_what_belongs_to_another_rule_is_no_condition() -> None:
    trace = Trace()
    trace.margins = Margins()
    assert trace.is_excluded(lambda: trace.is_below(1, 2))
    assert trace.margins == Margins()


def test_factors() -> None:
    assert factor_between(3, 2) == factor_between(2, 3) == 1.5
    assert factor_between(0, 2) == factor_between(-1, 2) == math.inf
    assert factor_between(2, 2) == 1
    assert factor_between_shares(0.99, 0.9) == pytest.approx(10)
    assert factor_between_shares(0.3, 0.6) == pytest.approx(2)


def test_a_case_on_an_edge_is_a_complaint() -> None:
    case = Case(Path("case.py"), frozenset({"graph-kept"}), frozenset())
    assert on_an_edge(case, {"found": {"graph-kept": 1.6}, "missed": {"graph-kept": 1.1, "no-seed": 1.5}}) == []
    assert on_an_edge(case, {"found": {"graph-kept": 1.4}, "missed": {"no-seed": 1.2}}) == [
        "graph-kept was found by a factor of 1.40 only; it must be 1.5",
        "no-seed was not found by a factor of 1.20 only; it must be 1.5",
    ]
