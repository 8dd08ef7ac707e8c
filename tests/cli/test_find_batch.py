"""`instep find-batch`: from a command line to the largest micro-batch; nothing is trained or written."""

import json
from pathlib import Path

import pytest

from cli.said import Instep
from cli.test_find_lr import BUILD
from instep.cli.border import WrongUse
from instep.cli.find_batch import in_bytes


@pytest.fixture(autouse=True)
def easy_file(folder: Path) -> Path:
    path = folder / "easy.py"
    path.write_text(BUILD)
    return path


def test_the_largest_and_how_to_reach_the_effective_batch(instep: Instep) -> None:
    said = instep("find-batch", "easy.py", "--memory-bytes", "100GB")
    assert said.code == 0
    text = said.out.replace("\n", " ")
    assert text.startswith("largest micro-batch: 256 samples; that is all there is to try, and the process held")
    assert "of memory_bytes=100 GB." in text
    assert "samples  samples/s" in said.out
    assert said.out.endswith("batch_size=32 fits at once: update_cycle=1.\n")
    assert sorted(path.name for path in Path().iterdir()) == ["easy.py"]


def test_json_is_all_that_stands_on_stdout(instep: Instep) -> None:
    said = instep("find-batch", "easy.py", "--json", "--most", "20", "--no-paces", "--width", "4")
    told = json.loads(said.out)
    assert (told["largest"], told["update_cycle"], told["paces"]) == (20, 2, [])


def test_where_nothing_fits_the_exit_code_is_one(instep: Instep) -> None:
    said = instep("find-batch", "easy.py", "--memory-bytes", "1MB")
    assert said.code == 1
    assert "nothing fits" in said.out


@pytest.mark.parametrize(("text", "size"), [("8GB", 8e9), ("500 mb", 5e8), ("1.5kB", 1500), ("8e9", 8e9), ("100B", 100)])
def test_sizes_as_people_write_them(text: str, size: float) -> None:
    assert in_bytes(text) == size


def test_what_is_no_size(instep: Instep) -> None:
    with pytest.raises(WrongUse, match="--memory-bytes lots is no size; write it like 8GB, 500MB or 8e9"):
        in_bytes("lots")
    said = instep("find-batch", "easy.py", "--memory-bytes", "lots")
    assert said.code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--json", "easy.py"), "the file comes first: instep find-batch easy.py [options…]"),
        (("easy.py", "--margin", "2"), "--margin 2.0 is no share of the memory to leave free"),
    ],
)
def test_a_slip_is_one_line(instep: Instep, arguments: tuple[str, ...], words: str) -> None:
    said = instep("find-batch", *arguments)
    assert said.code == 2
    assert words in said.err.splitlines()[-1]
