"""`instep init`: a file to start from that is never written over another."""

import re
from pathlib import Path

import pytest

from cli.said import Instep


def test_it_writes_a_file_that_names_itself(instep: Instep) -> None:
    assert instep("init").out == "wrote train.py; train it with: instep train train.py\n"
    assert instep("init", "digits.py").code == 0
    text = Path("digits.py").read_text()
    assert "instep train digits.py --lr" in text
    assert re.findall(r"^(?:from|import) instep.*", text, re.MULTILINE) == ["import instep"]  # public names only
    assert "train.py" not in text.replace("instep train digits.py", "")
    Path("sub").mkdir()
    assert instep("init", "sub").out == "wrote sub/train.py; train it with: instep train sub/train.py\n"


def test_what_it_writes_trains_as_it_is(instep: Instep) -> None:
    instep("init")
    said = instep("train", "train.py", "--epochs", "2", "--hidden", "16")
    assert said.code == 0
    assert "valid/accuracy" in said.out


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("there.py", "there.py is there already and is not overwritten; name another: instep init other.py"),
        ("notes", "notes would be no Python file; say instep init notes.py"),
        ("no/where.py", "no/where.py cannot be written: No such file or directory."),
    ],
)
def test_what_it_refuses(instep: Instep, path: str, words: str) -> None:
    Path("there.py").write_text("precious")
    said = instep("init", path)
    assert (said.code, said.out, said.err) == (2, "", f"instep: {words}\n")
    assert Path("there.py").read_text() == "precious"
