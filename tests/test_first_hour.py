"""docs/first-hour.md walked from its words alone: its files are made, its diffs applied, its commands typed in turn."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from instep.cli import main
from test_tutorial import applied

PAGE = Path(__file__).parent.parent / "docs" / "first-hour.md"
BLOCK = re.compile(r"^```(python file|diff|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Typed in the clone, before there is a folder of one's own; the environment of the tests is there.
IN_THE_CLONE = ("make demo", "source ", "mkdir ", "cd ")


def test_the_page_can_be_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Up to the two processes, which take longer."""
    page, found, _ = PAGE.read_text(encoding="utf-8").partition("## 5. ")
    assert found
    monkeypatch.chdir(tmp_path)
    said = {line: capfd.readouterr().out for line in walk(page, tmp_path)}
    assert "wrote plants.csv: (300, 5)" in said["python make_plants.py"]
    assert "240 samples" in said["instep train train.py --dry-run"]  # of 300 plants a fifth is held out
    assert "valid/accuracy" in said["instep train train.py"]
    assert "confusion matrix" in said["instep evaluate runs/train"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["train", "train-2"]
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_two_processes_come_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {line: capfd.readouterr().out for line in walk(PAGE.read_text(encoding="utf-8"), tmp_path)}
    compared = said["instep diff runs/train-3 runs/train-4"]
    assert re.search(r"^processes +1 +2$", compared, re.MULTILINE)
    apart = [float(number) for number in re.findall(r"e-\d+ +(\d\S+)$", compared, re.MULTILINE)]
    assert len(apart) == 4
    assert max(apart) < 1e-5


def walk(page: str, folder: Path) -> Iterator[str]:
    """Does what the page says, and gives each command that it typed."""
    program = folder / "train.py"
    for kind, block in BLOCK.findall(page):
        if kind == "python file":
            (folder / "make_plants.py").write_text(block, encoding="utf-8")
        elif kind == "diff":
            program.write_text(applied(block, program.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            for line in block.splitlines():
                if not line.startswith(IN_THE_CLONE):
                    type_command(line)
                    yield line


def type_command(line: str) -> None:
    name, *arguments = shlex.split(line)
    if name == "python":
        subprocess.run([sys.executable, *arguments], check=True)
    else:
        assert name == "instep", line
        assert main(arguments) == 0, line
