"""The doctor says the same about the same run: with other threads, another hash seed, and beside busy processes."""

import contextlib
import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from doctor.casebook import cases, examine

CASES = 50
RACES = {"ranks-diverge": {"compared", "apart", "relative_difference", "tensor"}}  # ranks compare as far as both have come


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Processes beside this one that never rest."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Where two answers differ, numbers by more than a thousandth."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [line for key in one | other for line in differences(one.get(key), other.get(key), f"{place}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for i, pair in enumerate(zip(one, other, strict=True)) for line in differences(*pair, f"{place}[{i}]")]
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-3):
        return []
    return [] if one == other else [f"{place}: {one!r}, then {other!r}"]


def findings(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of an answer, without their sentences (numbers are rounded there) and what depends on a race."""
    kept = ("id", "severity", "where", "since_step", "process")
    return [
        {name: found[name] for name in kept}
        | {"evidence": {k: v for k, v in found["evidence"].items() if k not in RACES.get(found["id"], ())}}
        for found in answer["findings"]
    ]


def test_differences_are_seen() -> None:
    assert differences({"a": [1, 2.0]}, {"a": [1, 2.0001]}) == []
    assert differences({"a": [1, 2.0]}, {"a": [1, 2.1], "b": 1}) == [".a[1]: 2.0, then 2.1", ".b: None, then 1"]


@pytest.mark.slow
@pytest.mark.xdist_group("alone")
def test_the_doctor_says_the_same_twice() -> None:
    book = cases()
    chosen = [case.script for case in book[:: len(book) // CASES]][:CASES]
    first = examine(chosen)
    with busy(2):
        second = examine(chosen, threads=2, hash_seed=7)
    differing = {
        f"{script.parent.name}/{script.stem}": lines
        for script in chosen
        if (lines := differences(findings(first[script]), findings(second[script])))
    }
    assert differing == {}
