"""Every case: what must be found is found, in that script, and nothing else.

By default one wrong script and one correct look-alike of each id run; the others are slow.
"""

import os
from collections.abc import Iterator

import pytest

from doctor.casebook import CASES, Case, Examination, cases, complaints
from instep.doctor.catalogue import CATALOGUE
from programs import Programs


@pytest.fixture(scope="session")
def examination(request: pytest.FixtureRequest, programs: Programs) -> Iterator[Examination]:
    """One process that runs the cases, for each worker of pytest-xdist one."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    with Examination(jobs=2 if alone else 1, programs=programs) as examination:
        if alone:  # two at a time; a worker does not know which tests will be its own
            chosen = [getattr(getattr(item, "callspec", None), "params", {}).get("case") for item in request.session.items]
            examination.send([case.script for case in chosen if isinstance(case, Case)])
        yield examination


def _parameter(case: Case) -> object:
    return pytest.param(case, id=case.name, marks=() if case.shows else pytest.mark.slow)


@pytest.mark.parametrize("case", [_parameter(case) for case in cases()])
def test_what_is_found(case: Case, examination: Examination) -> None:
    wrong = complaints(case, examination.answer(case.script))
    assert not wrong, "\n".join(wrong)


def test_every_script_is_in_its_manifest() -> None:
    listed = {case.script for case in cases()}
    scripts = {path for path in CASES.glob("*/*.py") if not path.name.startswith("_")}
    assert scripts == listed


def test_every_id_is_shown_by_a_wrong_script_and_a_correct_one() -> None:
    shown = {id: sorted(id in case.expected for case in cases() if id in case.shows) for id in CATALOGUE}
    assert {id: pair for id, pair in shown.items() if pair != [False, True]} == {}
    assert {id for case in cases() for id in case.shows} == set(CATALOGUE)
