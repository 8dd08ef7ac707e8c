"""`instep graph`."""

from pathlib import Path

import pytest

from cli.said import Instep

GATED = """
import torch
from torch import nn
from instep import Trainer

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.extra = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.first(x)
        return self.extra(y) if x.mean() > 0 else y

def build(lr: float = 0.1) -> Trainer:
    print("building")
    x = torch.full((8, 4), -1.0)
    x[0] = 100.0  # one of the two batches has it
    model = Net()
    return Trainer(model, objective=lambda m, b: m(b[0]).sum() / len(b[0]), optimizer=torch.optim.SGD(model.parameters(), lr=lr),
                   train=(x, torch.zeros(8)), epochs=1, batch_size=4)
"""


@pytest.mark.usefixtures("build_file")
def test_a_file_is_shown_as_a_tree(instep: Instep) -> None:
    said = instep("graph", "my.py", "--deep")
    assert said.code == 0, said.err
    assert said.out.startswith("batch 0, 8 samples: ")
    assert "│ │ ├ ● weight  3 × 4" in said.out
    assert len(instep("graph", "my.py", "--deep", "--depth", "1").out.splitlines()) < len(said.out.splitlines())


@pytest.mark.parametrize("form", ["html", "svg", "dot", "mmd"])
@pytest.mark.usefixtures("build_file")
def test_it_is_written_as_its_name_ends(instep: Instep, form: str) -> None:
    said = instep("graph", "my.py", "-o", f"graph.{form}")
    assert said.code == 0, said.err
    assert said.out.startswith(f"graph: graph.{form} (")
    assert Path(f"graph.{form}").stat().st_size > 100
    assert instep("graph", "my.py", "-o", f"graph.{form}").code == 0  # its own file may be replaced
    Path(f"graph.{form}").write_text("mine")
    said = instep("graph", "my.py", "-o", f"graph.{form}")
    assert said.code == 2
    assert f"graph.{form} exists and was not made by instep graph; name another file with -o." in said.err
    assert Path(f"graph.{form}").read_text() == "mine"


@pytest.mark.usefixtures("folder")
def test_the_recipe_can_be_looked_at(instep: Instep) -> None:
    assert "NllLoss" in instep("graph").out


@pytest.mark.usefixtures("folder")
def test_a_difference_between_two_batches(instep: Instep) -> None:
    Path("gated.py").write_text(GATED)
    said = instep("graph", "gated.py", "--diff")
    assert said.code == 0, said.err
    assert "building" not in said.out
    assert said.out.startswith("batch 0, 4 samples -> batch 1, 4 samples: ")
    assert ": 1 module call: extra: Linear" in said.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--depth", "0"), "--depth 0 shows nothing; use 1 or more."),
        (("--open",), "--open needs a file to open: -o graph.html --open"),
        (("-o", "graph.png"), "graph.png does not say in which form to save a graph"),
        (("-o", "none/graph.svg"), "none/graph.svg cannot be written: No such file or directory."),
        (("--objective", "d"), "no objective is called 'd'"),
    ],
)
@pytest.mark.usefixtures("build_file")
def test_slips(instep: Instep, options: tuple[str, ...], words: str) -> None:
    said = instep("graph", "my.py", *options)
    assert said.code == 2
    assert words in said.err
