"""The promises beside other libraries: README and docs show what was measured, and Instep's part can be measured here."""

import importlib.metadata
import json
import re
from typing import Any

import pytest

from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.promise.results import (
    JSON,
    LIBRARIES,
    PAGE,
    README,
    ROOT,
    TO_ROUNDING,
    best,
    details,
    measured_on,
    read_between,
    table,
    word,
)
from benchmarks.promise.task import PROMISES, SAMPLES
from benchmarks.promises import measure
from programs import Programs

MEASURED: dict[str, Any] = json.loads(JSON.read_text(encoding="utf-8"))
EXACT = {"split", "short cycle"}  # equal up to rounding; the others are equal bit for bit


def holds(promise: str, way: dict[str, Any]) -> bool:
    apart = float(way["difference"])
    return apart <= TO_ROUNDING if promise in EXACT else apart == 0.0


def test_the_tables_show_what_was_measured() -> None:
    """`make bench-promises ARGS=--write` measures; `--redraw` writes the pages anew from the numbers that are there."""
    assert read_between(README) == table(MEASURED)
    assert read_between(PAGE) == "\n\n".join([measured_on(MEASURED), table(MEASURED), details(MEASURED)])


def test_every_library_was_measured_in_the_versions_of_the_lock_file() -> None:
    assert list(MEASURED["libraries"]) == LIBRARIES
    for library, ways in MEASURED["libraries"].items():
        assert list(ways) == list(PROMISES), library
        assert [way for found in ways.values() for way in found if "failed" in way] == [], library
    lock = (ROOT / "benchmarks" / "peers.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)$", lock, re.MULTILINE))
    packages = {CONTESTANTS[name].package for name in LIBRARIES} - {"instep"}
    assert {name: MEASURED["versions"][name].partition("+")[0] for name in packages} == {name: pinned[name] for name in packages}


def test_the_libraries_do_the_same_work() -> None:
    """Where each micro-batch counts the same, all are wrong by the same number."""
    apart = {name: [way["difference"] for way in ways["split"]] for name, ways in MEASURED["libraries"].items()}
    same = {name for name, found in apart.items() if apart["plain"][0] in found}
    assert same == {"plain", "lightning", "fabric", "accelerate", "transformers", "ignite", "skorch", "pytorch-accelerated"}


def test_a_library_is_shown_at_its_best() -> None:
    ways: list[dict[str, Any]] = [
        {"how": "a", "difference": 3e-3},
        {"how": "b", "difference": 4e-8},
        {"how": "c", "failed": "ended"},
    ]
    assert best(ways)["how"] == "b"
    assert [word(way) for way in ways] == ["3e-3", "**4e-8**", "failed"]
    assert word({"difference": 0.0}) == "**0**"


def test_the_arrangements_are_what_the_page_says() -> None:
    sizes = [SAMPLES - PROMISES[name].one.batch * (SAMPLES // PROMISES[name].one.batch) for name in ("split", "short cycle")]
    assert sizes == [31, 15]  # the last update of an epoch
    assert [PROMISES[name].other.cycle for name in ("split", "short cycle")] == [4, 3]


def test_instep_keeps_the_promises_and_the_plain_loop_does_not(programs: Programs) -> None:
    command = ["-W", "ignore", "-m", "benchmarks.promise.measure", "instep", "plain"]
    lines = programs.run(command, cwd=ROOT, check=True).stdout.splitlines()
    found = {name: ways for line in lines for name, ways in json.loads(line).items()}
    for promise in PROMISES:
        assert holds(promise, best(found["instep"][promise])), (promise, found["instep"])
        assert not holds(promise, best(found["plain"][promise])), (promise, found["plain"])  # so the task can tell
    assert found["instep"]["resume"][0]["micro_batches"] < 16
    for library in ("instep", "plain"):
        kinds = {promise: holds(promise, best(ways)) for promise, ways in MEASURED["libraries"][library].items()}
        assert kinds == {promise: holds(promise, best(ways)) for promise, ways in found[library].items()}


@pytest.mark.extras
@pytest.mark.parametrize("library", ["lightning", "accelerate", "ignite"])
def test_another_library_does_as_the_table_says(library: str) -> None:
    """Where the version is the one that was measured."""
    package = CONTESTANTS[library].package
    pytest.importorskip(CONTESTANTS[library].module)
    if importlib.metadata.version(package) != MEASURED["versions"][package]:
        pytest.skip(f"another version of {package}")
    found = measure(library)[library]
    shown = MEASURED["libraries"][library]
    kinds = [{name: holds(name, best(ways)) for name, ways in one.items()} for one in (found, shown)]
    assert kinds[0] == kinds[1]
