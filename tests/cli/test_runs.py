"""`instep show` and `instep runs` hand over to the report; what they print is tested there."""

import pytest

from cli.said import Instep


@pytest.mark.usefixtures("build_file")
def test_a_run_is_shown_and_listed(instep: Instep) -> None:
    instep("train", "my.py")
    shown = instep("show", "runs/my")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("runs/my: Linear\n")
    assert "best: valid/loss" in shown.out
    listed = instep("runs")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines()[1].startswith("my   finished")
    assert instep("runs", "runs").out.split()[:1] == ["run"]


def test_what_is_not_there(instep: Instep) -> None:
    for arguments, words in [
        (["show", "runs/none"], "runs/none does not exist; `instep runs` lists the runs there are."),
        (["show"], "missing: RUN. See instep show --help."),
        (["runs", "none"], "there is no folder none;"),
    ]:
        said = instep(*arguments)
        assert (said.code, said.out) == (2, "")
        assert words in said.err
        assert said.err.count("\n") == 1
