"""docs/tutorial.md: each diff fits, the program runs after each step, prints what the page shows, and keeps its weights."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks import differs

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"


def steps() -> Iterator[tuple[str, str]]:
    """The program after each step, and what the page says that it prints."""
    program = ""
    for kind, block in re.findall(
        r"```(python tutorial|diff|text output)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    ):
        if kind == "text output":
            yield program, block
        else:
            program = applied(block, program) if kind == "diff" else block


def applied(diff: str, program: str) -> str:
    """The program with a diff, whose old lines stand in it exactly once."""
    lines = diff.splitlines(keepends=True)
    assert {line[0] for line in lines} <= set(" +-"), diff
    old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
    assert program.count(old) == 1, f"{program.count(old)} times:\n{old}"
    return program.replace(old, new)


def test_each_step_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ends = []
    for program, shown in steps():
        said = run(program)
        assert not differs(said, shown), differs(said, shown)
        ends.append(said.splitlines()[-1])
    assert len(ends) == 6  # the start, and five steps
    assert ends[0].startswith("weights: ['")
    assert not any(differs(end, ends[0]) for end in ends)
    assert (tmp_path / "runs" / "tutorial" / "run.json").exists()
    assert run(program) == said  # a finished run is read, not trained again


def run(program: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(program, "train.py", "exec"), {"__name__": "__main__"})
    return output.getvalue()


def test_a_diff_that_does_not_fit_is_an_error() -> None:
    assert applied(" a\n-b\n+c\n", "a\nb\n") == "a\nc\n"
    with pytest.raises(AssertionError, match="0 times"):
        applied("-x\n+y\n", "a\nb\n")
