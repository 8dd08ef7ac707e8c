"""The README tells the truth: every block of Python in it runs; one marked `continued` goes on where the one before ended."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def blocks() -> list[str]:
    found: list[str] = []
    for mark, code in re.findall(r"```python( continued)?\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL):
        if mark:
            found[-1] += code
        else:
            found.append(code)
    return found


@pytest.mark.parametrize("code", blocks(), ids=range(len(blocks())))
def test_a_block_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, str(README), "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


def test_every_make_target_exists() -> None:
    text = README.read_text(encoding="utf-8")
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\S+)", text, re.MULTILINE)):
        assert f"\n{target}:" in makefile
