"""`instep find-lr`: from a command line to a suggestion; nothing is trained or written."""

import json
from pathlib import Path

import pytest

from cli.said import Instep

BUILD = '''\
import torch
from torch import nn

from instep import Trainer


def build(lr: float = 0.1, width: int = 16, seed: int = 0) -> Trainer:
    """A line that is easy to learn.

    Args:
        width: How wide the hidden layer is.
    """
    print("hello from build")
    x = torch.randn(256, 4)
    y = x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))
    return Trainer(
        model,
        loss=nn.functional.mse_loss,
        optimizer=torch.optim.Adam(model.parameters(), lr=lr),
        train=(x, y),
        epochs=2,
        batch_size=32,
        seed=seed,
    )
'''


@pytest.fixture(autouse=True)
def easy_file(folder: Path) -> Path:
    path = folder / "easy.py"
    path.write_text(BUILD)
    return path


def test_the_curve_the_rules_and_the_reason_are_printed(instep: Instep) -> None:
    said = instep("find-lr", "easy.py", "--width", "8")
    assert said.code == 0
    assert "▲  before divergence" in said.out
    assert "suggestion 0." in said.out
    assert "hello from build" in said.err
    assert sorted(path.name for path in Path().iterdir()) == ["easy.py"]


def test_json_is_all_that_stands_on_stdout(instep: Instep) -> None:
    said = instep("find-lr", "easy.py", "--json", "--steps", "60", "--repeats", "1")
    told = json.loads(said.out)
    assert said.code == 0
    assert 1e-3 < told["suggestion"] < 1.0
    assert len(told["sweeps"]) == 1
    assert len(told["lrs"]) <= 60


def test_it_is_drawn_into_a_file(instep: Instep) -> None:
    said = instep("find-lr", "easy.py", "--save", "range.svg", "--mode", "linear", "--low", "1e-4", "--high", "1")
    assert said.code == 0
    assert said.out.endswith("drawn into range.svg\n")
    assert Path("range.svg").read_text().startswith("<svg")
    assert instep("find-lr", "easy.py", "--save", "range.jpg").code == 2


def test_without_a_suggestion_the_exit_code_is_one(instep: Instep) -> None:
    said = instep("find-lr", "easy.py", "--high", "1e-6")
    assert said.code == 1
    assert "no suggestion: flat: from lr 1e-07 to 1e-06 the loss stays at" in said.out.replace("\n", " ")


def test_the_same_command_gives_the_same_answer(instep: Instep) -> None:
    first = instep("find-lr", "easy.py", "--json").out
    assert instep("find-lr", "easy.py", "--json").out == first
    assert instep("find-lr", "easy.py", "--json", "--seed", "1").out != first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--json", "easy.py"), "easy.py stands after options; the file comes first: instep find-lr easy.py [options…]"),
        (("missing.py",), "missing.py does not exist"),
        (("easy.py", "--steps", "3"), "--steps 3 updates show no curve; use 20 or more, such as 100."),
        (("easy.py", "--lowest", "1"), "has no option --lowest; did you mean --low?"),
    ],
)
def test_a_slip_is_one_line(instep: Instep, arguments: tuple[str, ...], words: str) -> None:
    said = instep("find-lr", *arguments)
    assert said.code == 2
    assert words in said.err.splitlines()[-1]


def test_an_option_of_the_command_cannot_be_builds_too(instep: Instep) -> None:
    Path("both.py").write_text(BUILD.replace("width: int", "repeats: int").replace("width", "repeats"))
    said = instep("find-lr", "both.py")
    assert said.code == 2
    assert said.err.endswith(
        "build() of both.py has the parameter repeats, which instep find-lr itself uses; give it another name.\n"
    )
