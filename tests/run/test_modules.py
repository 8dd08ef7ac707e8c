"""The modules of a model as a table in the plan: every kind of layer once, and short."""

import torch
from torch import nn

from instep import Trainer, freeze
from instep.run.modules import MOST, module_rows


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)


class Tower(nn.Module):
    def __init__(self, blocks: int = 12) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.embed = nn.Embedding(10, 4)
        self.blocks = nn.ModuleList(Block(4) for _ in range(blocks))
        self.head = nn.Linear(4, 2)


def test_layers_with_their_shapes_and_what_trains() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    freeze(model, "0")
    assert module_rows(model) == [
        ("0", "Linear", "8×5", "48", "0"),
        ("1", "ReLU", "", "0", "0"),
        ("2", "Linear", "3×8", "27", "27"),
    ]


def test_repeated_blocks_are_one_row_and_stand_for_all() -> None:
    rows = module_rows(Tower())
    assert rows == [
        ("scale", "Parameter", "3", "3", "3"),
        ("embed", "Embedding", "10×4", "40", "40"),
        ("blocks.0 to 11", "12 × Block", "", "336", "336"),
        ("head", "Linear", "2×4", "10", "10"),
    ]
    one = module_rows(Tower(blocks=1))
    assert [row[0] for row in one] == ["scale", "embed", "blocks.0.norm", "blocks.0.linear", "head"]


def test_a_large_model_has_few_rows() -> None:
    wide = nn.Sequential(*(nn.Linear(i + 1, i + 2) for i in range(50)))
    rows = module_rows(wide)
    assert len(rows) == MOST
    assert rows[-1][0] == "and 31 more"
    total = sum(p.numel() for p in wide.parameters())
    assert sum(int(row[3].replace(",", "")) for row in rows) == total
    deep = nn.ModuleDict({"a": wide, "b": nn.Sequential(wide, nn.Tanh())})
    assert [row[:2] for row in module_rows(deep)] == [("a", "Sequential"), ("b", "Sequential")]


def test_print_shows_it() -> None:
    model = nn.Linear(4, 2)
    x = torch.randn(8, 4)
    trainer = Trainer(
        nn.Sequential(model, nn.Linear(2, 2)),
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        train=(x, x[:, :2]),
        epochs=1,
    )
    lines = str(trainer).splitlines()
    head = next(i for i, line in enumerate(lines) if line.split() == ["module", "type", "weight", "parameters", "trainable"])
    assert lines[head - 1] == ""
    assert lines[head + 1].split() == ["0", "Linear", "2×4", "10", "10"]
    assert lines[head + 2].split() == ["1", "Linear", "2×2", "6", "6"]
