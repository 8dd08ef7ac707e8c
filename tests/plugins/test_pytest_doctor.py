"""The doctor in pytest, in a real session of it: tests that train wrongly fail, by severity; others pay nothing."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from instep.doctor.rules import all_rules
from instep.doctor.watch import areas

pytest_plugins = ["pytester"]
areas()  # imported here, with torch: pytester forgets what a session imports, and torch cannot be imported twice
all_rules()
TESTS = """
    import pytest
    import torch
    from torch import nn

    def train(clear=True, tie=False):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept = []
        for _ in range(40 if tie else 8):
            if clear:
                optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,)))
            loss.backward()
            optimizer.step()
            kept.append(loss if tie else 0)  # a warning: graph-kept

    @pytest.fixture
    def trained():
        train(clear=False)

    def test_right():
        train()

    def test_wrong():
        train(clear=False)

    def test_warned():
        train(tie=True)

    def test_in_a_fixture(trained):
        pass

    @pytest.mark.instep_doctor(ignore=["missing-zero-grad"])
    def test_ignored():
        train(clear=False)

    @pytest.mark.instep_doctor(off=True)
    def test_off():
        train(clear=False)

    @pytest.mark.instep_doctor(fail_on="never")
    def test_never():
        train(clear=False)

    @pytest.mark.instep_doctor(fail_on="warning")
    def test_strict():
        train(tie=True)

    def test_that_judges_itself(instep_doctor):
        train(clear=False)
        instep_doctor.end()
        assert [finding.id for finding in instep_doctor.findings] == ["missing-zero-grad"]

    def test_with_the_fixture(instep_doctor):
        train(clear=False)

    def test_that_fails_anyway():
        train(clear=False)
        assert 1 == 2
"""


PLUGIN = ("-p", "instep.plugins.pytest_doctor", "-p", "no:cacheprovider")
WRONG = """
def test_it():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        torch.nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,))).backward()
        optimizer.step()
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # installed or not, it is loaded once
    pytester.makepyfile(dedent(TESTS))
    return pytester


def run(session: pytest.Pytester, *arguments: str) -> tuple[set[str], str]:
    """The tests that failed, and what was said."""
    ran = session.runpytest_inprocess(*PLUGIN, "-rf", *arguments)
    said = ran.stdout.str()
    failed = {line.split("::")[1].split()[0] for line in said.splitlines() if line.startswith("FAILED ")}
    return failed, said


def test_wrong_trainings_fail(session: pytest.Pytester) -> None:
    failed, said = run(session, "--instep-doctor")
    assert failed == {"test_wrong", "test_in_a_fixture", "test_strict", "test_with_the_fixture", "test_that_fails_anyway"}
    assert "Failed: missing-zero-grad" in said
    assert "optimizer.zero_grad()  # before each backward, or right after each step" in said
    summary = said.partition("instep doctor: found in tests that passed")[2]
    assert "::test_warned\n  instep doctor: warning graph-kept: test_wrong_trainings_fail.py:" in summary
    assert "::test_never\n  instep doctor: error missing-zero-grad" in summary
    assert "assert 1 == 2" in said  # its own failure, with what was found beside it
    assert "found by instep doctor" in said


def test_without_the_option_the_fixture_alone_watches(session: pytest.Pytester) -> None:
    failed, said = run(session)
    assert failed == {"test_with_the_fixture", "test_that_fails_anyway"}
    assert "graph-kept" not in said


def test_what_fails_can_be_chosen(session: pytest.Pytester) -> None:
    (session.path / "pyproject.toml").write_text('[tool.instep.doctor]\nfail-on = "warning"\nignore = ["missing-zero-grad"]\n')
    assert run(session, "--instep-doctor", "-k", "warned or wrong or right")[0] == {"test_warned"}
    assert run(session, "--instep-doctor", "--instep-doctor-fail-on", "error", "-k", "warned or wrong")[0] == set()
    session.makepyfile("import pytest\n@pytest.mark.instep_doctor(fail_on='hint')\ndef test_it(instep_doctor): pass")
    assert "instep_doctor(fail_on='hint') can be error, warning, never" in run(session)[1]


def test_a_baseline_is_written_and_shared(session: pytest.Pytester) -> None:
    session.makepyfile("import torch\n" + WRONG)
    said = session.runpytest_inprocess(*PLUGIN, "--instep-doctor-write-baseline")
    said.stderr.fnmatch_lines(["*--instep-doctor-write-baseline needs a file to write to; name it in *pyproject.toml*"])
    (session.path / "pyproject.toml").write_text('[tool.instep.doctor]\nbaseline = "known.json"\n')
    said = session.runpytest_inprocess(*PLUGIN, "--instep-doctor")
    said.stderr.fnmatch_lines(["*instep doctor: there is no baseline *known.json; write one*"])
    said = session.runpytest_inprocess(*PLUGIN, "--instep-doctor-write-baseline")
    said.assert_outcomes(passed=1)
    said.stdout.fnmatch_lines(["instep doctor: wrote 1 finding to *known.json."])
    said = session.runpytest_inprocess(*PLUGIN, "--instep-doctor")
    said.assert_outcomes(passed=1)
    said.stdout.fnmatch_lines(["*in the baseline: *missing-zero-grad*"])
    session.makepyfile(
        "import torch\n" + WRONG.replace("        torch.nn.f", "        optimizer.zero_grad()\n        torch.nn.f")
    )
    said = session.runpytest_inprocess(*PLUGIN, "--instep-doctor")
    said.stdout.fnmatch_lines(["instep doctor: 1 finding of the baseline is not found any more; writing it again takes it out."])
    session.makepyfile("import torch\n" + WRONG + "    assert False\n")
    said = session.runpytest_inprocess(*PLUGIN, "--instep-doctor-write-baseline")
    said.stdout.fnmatch_lines(["instep doctor: the baseline was not written: not all tests passed, or there were none."])


def test_marks_that_are_misspelt_are_said(session: pytest.Pytester) -> None:
    session.makepyfile(
        "import pytest\n@pytest.mark.instep_doctor(of=True)\ndef test_a(instep_doctor): pass\n"
        "@pytest.mark.instep_doctor(ignore=['no-sed'])\ndef test_b(instep_doctor): pass\n"
    )
    said = session.runpytest_inprocess(*PLUGIN).stdout.str()
    assert "the mark instep_doctor has no 'of'; it takes ignore, fail_on, off." in said
    assert "instep doctor: the doctor knows no 'no-sed'; did you mean no-seed?" in said
    assert "pytest_doctor.py" not in said


def test_pytest_pays_nothing_for_it() -> None:
    code = (
        "import sys, pytest; old = set(sys.modules); import instep.plugins.pytest_doctor; print(sorted(set(sys.modules) - old))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "['instep', 'instep.plugins', 'instep.plugins.pytest_doctor']\n"


def test_the_package_names_the_plugin() -> None:
    import importlib
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text())["project"]
    (name,) = project["entry-points"]["pytest11"].values()
    assert hasattr(importlib.import_module(name), "pytest_addoption")
