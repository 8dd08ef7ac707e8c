"""`instep bench`: a file's run beside the plain loop; nothing is trained or written."""

import json
from pathlib import Path
from typing import Any, Never

import pytest
import torch

from cli.said import Instep
from cli.test_find_lr import BUILD

FOLDER = "        seed=seed,\n        folder='runs/kept', valid=0.25, patience=1, monitor='valid/loss', schedule=OneCycle(0.1),\n"


@pytest.fixture(autouse=True)
def easy_file(folder: Path) -> Path:
    path = folder / "easy.py"
    path.write_text(BUILD)
    return path


def test_the_table_and_the_ratio_are_printed_and_nothing_is_written(instep: Instep) -> None:
    said = instep("bench", "easy.py", "--no-compile", "--updates", "12", "--width", "8")
    assert said.code == 0
    head, _, names, *_ = said.out.splitlines()
    assert head == f"batch_size=32, {_threads()}, cpu; 12 updates each, in 10 turns"
    assert names.split() == ["samples/s", "µs", "an", "update", "middle", "half"]
    assert "The Trainer is " in said.out
    assert "× as fast as the plain loop" in said.out
    assert "compile" not in said.out
    assert "hello from build" in said.err
    assert sorted(path.name for path in Path().iterdir()) == ["easy.py"]


def test_a_run_with_a_folder_evaluations_and_a_schedule_leaves_no_trace_either(instep: Instep, easy_file: Path) -> None:
    text = BUILD.replace("        seed=seed,\n", FOLDER).replace("import Trainer", "import OneCycle, Trainer")
    easy_file.write_text(text)
    said = instep("bench", "easy.py", "--no-compile", "--updates", "20")
    assert said.code == 0, said.err
    assert sorted(path.name for path in Path().iterdir()) == ["easy.py"]


def test_the_built_in_example(instep: Instep) -> None:
    said = instep("bench", "--no-compile", "--updates", "5")
    assert said.code == 0
    assert "5 updates each, in 5 turns" in said.out


def test_everything_is_in_the_json_file(instep: Instep) -> None:
    said = instep("bench", "easy.py", "--no-compile", "--updates", "3", "--json", "speed.json")
    told = json.loads(Path("speed.json").read_text())
    assert said.code == 0
    assert (told["batch_size"], told["updates"], told["total_steps"]) == (32, 3, 16)
    assert set(told["update_s"]) == {"plain loop", "Trainer"}
    assert told["ratio"]["Trainer / plain loop"] > 0


def test_a_compiler_that_fails_is_said_in_words(instep: Instep, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> Never:
        raise RuntimeError("\nno code for this processor\nand more")

    monkeypatch.setattr(torch, "compile", refuse)
    said = instep("bench", "easy.py", "--updates", "3")
    assert said.code == 0
    assert "could not be measured: no code for this processor" in " ".join(said.out.split())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_whether_compiling_pays(instep: Instep) -> None:
    said = instep("bench", "easy.py", "--updates", "10")
    assert said.code == 0
    assert "Trainer, compile=True" in said.out
    assert "compile=True pays after" in said.out or "compile=True does not pay: the first update takes" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("easy.py", "--updates", "0"), "--updates 0 is no number of updates to time; use 1 or more."),
        (("easy.py", "--json", "no/such.json"), "--json no/such.json: there is no folder no; make it, or name another file."),
        (("--no-compile", "easy.py"), "the file comes first: instep bench easy.py [options…]"),
    ],
)
def test_a_slip_is_one_line(instep: Instep, arguments: tuple[str, ...], words: str) -> None:
    said = instep("bench", *arguments)
    assert said.code == 2
    assert words in said.err.splitlines()[-1]


def _threads() -> str:
    threads = torch.get_num_threads()
    return f"{threads} thread{'s' if threads > 1 else ''}"
