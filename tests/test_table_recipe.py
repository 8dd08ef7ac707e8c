"""docs/recipes.md, "A table from CSV to prediction", walked from its words: its files are made, its commands typed in turn."""

import csv
import re
import runpy
import sys
from pathlib import Path

import pytest

from instep.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "recipes.md"
BLOCK = re.compile(r"^```(?:python file (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_table_goes_from_csv_to_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## A table from CSV to prediction\n")[2].partition("\n## ")[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    said = {}
    for name, block in BLOCK.findall(section):
        if name:
            (tmp_path / f"{name}.py").write_text(block, encoding="utf-8")
        else:
            for line in block.splitlines():
                run(line)
                said[line] = capfd.readouterr().out
    last = re.search(r"last +.*valid/accuracy (\d\.\d+)", said["instep train train.py"])
    assert last
    assert float(last[1]) > 0.85  # 0.96; 0.3 without Standardise
    assert re.fullmatch(r"row 0: pro, \d+%\nrow 1: basic, \d+%\n", said["python predict.py"])
    with open("plans.csv", encoding="utf-8", newline="") as file:
        assert [row["predicted"] for row in csv.DictReader(file)] == ["pro", "basic"]


def run(line: str) -> None:
    """A command of the page, in this process: a new one takes seconds to start."""
    name, *arguments = line.split()
    if name == "python":
        runpy.run_path(arguments[0], run_name="__main__")
        sys.modules.pop("train", None)
    else:
        assert name == "instep", line
        assert main(arguments) == 0, line
