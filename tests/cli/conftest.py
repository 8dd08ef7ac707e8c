"""Commands are called in this process, in a folder of their own; what they loaded is forgotten afterwards."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.said import BUILD, Instep, Said
from instep.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def instep(capsys: pytest.CaptureFixture[str]) -> Instep:
    def call(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(arguments)
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def build_file(folder: Path) -> Path:
    """A file to train, `my.py` in the present folder."""
    path = folder / "my.py"
    path.write_text(BUILD)
    return path
