"""`instep profile`: tables, a trace, advice; nothing is trained, and nothing else is written."""

import gzip
import json
from pathlib import Path

import pytest

from cli.said import Instep
from cli.test_find_lr import BUILD


@pytest.fixture(autouse=True)
def easy_file(folder: Path) -> Path:
    path = folder / "easy.py"
    path.write_text(BUILD)
    return path


def test_the_tables_are_printed_and_only_the_trace_is_written(instep: Instep) -> None:
    said = instep("profile", "easy.py", "--no-compile", "--updates", "4", "--json", "all.json")
    assert said.code == 0, said.err
    for words in ("where the time goes", "forward", "backward", "optimizer", "heaviest operators", "Memory: weights"):
        assert words in said.out
    assert "trace: easy-trace.json.gz, to be opened at ui.perfetto.dev" in said.out
    assert "hello from build" in said.err
    assert "USDT" not in said.err
    assert sorted(path.name for path in Path().iterdir()) == ["all.json", "easy-trace.json.gz", "easy.py"]
    with gzip.open("easy-trace.json.gz", "rt") as trace:
        assert json.load(trace)["traceEvents"]
    told = json.loads(Path("all.json").read_text())
    assert told["updates"] == 4
    assert abs(sum(told["shares"].values()) - 1) < 1e-6
    assert {one["name"] for one in told["advice"]} >= {"bf16"}


def test_a_look_without_advice_or_a_trace(instep: Instep) -> None:
    said = instep("profile", "easy.py", "--no-advice", "--no-trace", "--updates", "2")
    assert said.code == 0, said.err
    assert "Of no clear use" not in said.out
    assert "trace:" not in said.out
    assert sorted(path.name for path in Path().iterdir()) == ["easy.py"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--updates", "0"), "--updates 0 is no number of updates to time; use 1 or more."),
        (("--trace", "no/such.json"), "--trace no/such.json: there is no folder no; make it, or name another file."),
        (("--trace", "trace.txt"), "--trace trace.txt ends in .txt; use .json or .json.gz."),
        (("--trace", "a.json", "--no-trace"), "--trace and --no-trace say the opposite; leave one out."),
    ],
)
def test_a_slip_is_one_line(instep: Instep, arguments: tuple[str, ...], words: str) -> None:
    said = instep("profile", "easy.py", *arguments)
    assert said.code == 2
    assert words in said.err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiling_is_measured_too(instep: Instep) -> None:
    said = instep("profile", "easy.py", "--no-trace", "--updates", "4", "--json", "all.json")
    assert said.code == 0
    assert "compile" in {one["name"] for one in json.loads(Path("all.json").read_text())["advice"]}
