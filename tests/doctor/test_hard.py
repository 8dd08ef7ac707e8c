"""Hard scripts, by people who knew nothing of the doctor but the catalogue: half have one mistake, half have none.

Each says in its header what is expected. No rule was written with those in `hard/unseen` in view: what is named there is what
can be hoped for elsewhere, so they are to be measured, and not to be read by who changes a rule.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from doctor.casebook import Examination
from instep.doctor.catalogue import CATALOGUE
from programs import Programs

HARD = Path(__file__).parent / "hard"
# What the doctor does not name yet, or not by its cause.
MISSED = frozenset({"unseen/no_loader_85_phone_frames"})


@dataclass(frozen=True)
class Hard:
    """A script; `expected` are the ids of which one has to be named, none where it is right."""

    script: Path
    expected: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.script.parent.name}/{self.script.stem}"

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        in_framework = self.name.startswith(("frameworks/", "unseen/frameworks"))
        missed = pytest.mark.xfail(reason="not named yet", strict=False)
        return [pytest.mark.extras if in_framework else pytest.mark.slow, *([missed] if self.name in MISSED else [])]


def read(script: Path) -> Hard:
    header = dict(re.findall(r"^# (\w+): *(.*)$", script.read_text(encoding="utf-8"), re.M))
    ids = re.findall(r"[a-z0-9-]+", f"{header['expect'].partition('(')[0]} {header.get('also', '').partition('(')[0]}")
    return Hard(script, frozenset(ids) - {"nothing"})


SCRIPTS = [read(path) for path in sorted(HARD.glob("*/*.py"))]


def test_about_half_of_them_are_right_and_about_half_unseen() -> None:
    assert len(SCRIPTS) == 514
    assert sum(not hard.expected for hard in SCRIPTS) == 255
    assert sum(hard.script.parent.name == "unseen" for hard in SCRIPTS) == 305
    assert {id for hard in SCRIPTS for id in hard.expected} <= set(CATALOGUE)
    assert {hard.name for hard in SCRIPTS} >= MISSED


@pytest.fixture(scope="session")
def examination(programs: Programs) -> Iterator[Examination]:
    with Examination(jobs=1 if "PYTEST_XDIST_WORKER" in os.environ else 2, programs=programs) as examination:
        yield examination


@pytest.mark.parametrize("hard", [pytest.param(hard, id=hard.name, marks=hard.marks) for hard in SCRIPTS])
def test_what_is_named(hard: Hard, examination: Examination) -> None:
    answer = examination.answer(hard.script)
    assert not answer["error"], f"the script failed: {answer['error']}\n{answer['said']}"
    assert not answer["failures"]
    found = {finding["id"]: finding for finding in answer["findings"]}
    assert {id: text(one) for id, one in found.items() if id not in hard.expected and one["severity"] != "hint"} == {}
    assert not hard.expected or hard.expected & set(found), f"none of {sorted(hard.expected)} was named"


def text(finding: dict[str, Any]) -> str:
    return f"{finding['where']}: {finding['message']}"
