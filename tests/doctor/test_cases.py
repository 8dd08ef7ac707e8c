"""Every case: what must be found is found, in that script, and nothing else."""

from typing import Any

import pytest

from doctor.casebook import CASES, Case, cases, complaints, examine


@pytest.fixture(scope="session")
def answers(request: pytest.FixtureRequest) -> dict[Any, dict[str, Any]]:
    """Those of the selected cases, from one zygote."""
    parameters = [getattr(getattr(item, "callspec", None), "params", {}).get("case") for item in request.session.items]
    return dict(examine([case.script for case in parameters if isinstance(case, Case)]))  # other tests have cases of their own


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_found(case: Case, answers: dict[Any, dict[str, Any]]) -> None:
    wrong = complaints(case, answers[case.script])
    assert not wrong, "\n".join(wrong)


def test_every_script_is_in_its_manifest() -> None:
    listed = {case.script for case in cases()}
    scripts = {path for path in CASES.glob("*/*.py") if not path.name.startswith("_")}
    assert scripts == listed
