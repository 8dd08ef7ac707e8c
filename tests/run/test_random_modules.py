"""What the plan of several processes says: what is the same as on one, and what is not."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from instep.run.plan import plan_of
from tiny import make


class Drops(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(x), 0.5, self.training)


class Noisy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(sum((torch.randn_like(x) for _ in range(1)), x))


class Quiet(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).tanh()


def said_of(*modules: nn.Module) -> str:
    trainer = make(nn.Sequential(nn.Linear(4, 3)))
    description = trainer.run._description
    model = nn.Sequential(*modules, nn.Linear(3, 3))
    return dict(plan_of(replace(description, model=model, processes=2)).rows)["processes"]


@pytest.mark.parametrize("module", [nn.Linear(3, 3), nn.Dropout(0.0), nn.LayerNorm(3), Quiet(3, 3), nn.LSTM(3, 3)])
def test_what_neither_draws_nor_counts_is_the_same(module: nn.Module) -> None:
    assert said_of(module) == "2, the same training as on one"


@pytest.mark.parametrize(
    "module",
    [nn.Dropout(0.1), nn.RReLU(), nn.LSTM(3, 3, 2, dropout=0.1), nn.MultiheadAttention(3, 1, 0.1), Drops(3, 3), Noisy(3, 3)],
)
def test_what_draws_is_named(module: nn.Module) -> None:
    name = type(module).__name__
    drawn = f"what {name} draws, which each process does for its own part of a batch"
    assert said_of(module) == f"2, the same training as on one but for {drawn}"


def test_so_is_batch_norm() -> None:
    statistics = "the statistics of BatchNorm, which each process takes of its own part"
    assert said_of(nn.BatchNorm1d(3)) == f"2, the same training as on one but for {statistics}"
    assert said_of(nn.BatchNorm1d(3).eval()) == "2, the same training as on one"
    assert said_of(nn.Dropout(), nn.BatchNorm1d(3)).endswith(f"its own part of a batch, and for {statistics}")
