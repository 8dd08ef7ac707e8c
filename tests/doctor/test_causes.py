"""One mistake is one finding: what follows from another stands under it, and a cause on several lines is said once."""

from dataclasses import replace

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.causes import SIGNALS, gather
from instep.doctor.finding import Finding
from instep.doctor.report import render
from instep.doctor.sarif import as_sarif


def gathered(*findings: Finding, ignored: tuple[str, ...] = ()) -> list[Finding]:
    found = {finding.key: finding for finding in findings}
    return list(gather(found, lambda finding: None if finding.where in ignored else finding).values())


def test_a_cause_takes_what_follows_from_it() -> None:
    cause = Finding("missing-zero-grad", "seen", where="a.py:3")
    [said] = gathered(Finding("diverging-loss", "grew", where="a.py:2"), cause, Finding("non-finite", "nan", where="a.py:2"))
    assert said == replace(cause, signals=("diverging-loss (a.py:2): grew", "non-finite (a.py:2): nan"), severity="error")
    assert "Seen with it: diverging-loss (a.py:2): grew" in render([said])
    assert Finding.from_json(said.as_json()).signals == said.signals


def test_what_was_taken_takes_nothing() -> None:
    """The first of a chain has all that it explains; what only the second explains stays a finding of its own."""
    said = gathered(*(Finding(id, "seen", where="a.py:1") for id in ("inputs-not-scaled", "non-finite", "missing-zero-grad")))
    assert [finding.id for finding in said] == ["inputs-not-scaled", "missing-zero-grad"]


def test_several_lines_are_places_of_one_finding() -> None:
    lines = [Finding("metric-broadcast", f"seen {line}", where=f"a.py:{line}") for line in (4, 9, 12)]
    [said] = gathered(*lines)
    assert (said.where, said.places) == ("a.py:4", ("a.py:9", "a.py:12"))
    assert "Also at a.py:9, a.py:12." in render([said])
    [result] = as_sarif([said])["runs"][0]["results"]
    assert [one["physicalLocation"]["region"]["startLine"] for one in result["relatedLocations"]] == [9, 12]
    [said] = gathered(*lines, ignored=("a.py:4",))
    assert (said.where, said.places) == ("a.py:9", ("a.py:12",))
    apart = [Finding("dropout-extreme", "seen", where="a.py:4", cause=cause) for cause in ("one", "two")]
    assert gathered(*apart) == apart


def test_who_ignores_a_cause_does_not_hear_of_what_follows() -> None:
    cause, signal = Finding("missing-zero-grad", "seen", where="a.py:3"), Finding("diverging-loss", "grew", where="a.py:2")
    assert gathered(cause, signal, ignored=("a.py:3",)) == []


def test_hints_that_many_scripts_get_stand_in_one_line() -> None:
    seed, whole = Finding("no-seed", "never", where="a.py:1"), Finding("whole-model-pickled", "once", where="a.py:9")
    said = render([seed, whole, Finding("one-cycle-max-lr", "low", where="a.py:5")], steps=10)
    line = "hints that many scripts get: no-seed (a.py:1), whole-model-pickled (a.py:9); instep doctor --explain ID"
    assert line in " ".join(said.split())
    assert "never" not in said
    assert "low" in said
    assert "never" in render([replace(seed, severity="warning")])


def test_the_table_knows_its_ids() -> None:
    assert {id for cause, signals in SIGNALS.items() for id in (cause, *signals)} <= set(CATALOGUE)
    assert all(cause not in signals for cause, signals in SIGNALS.items())
