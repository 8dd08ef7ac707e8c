"""Whose code a file is: that decides which lines of a traceback are shown, and which line an error names."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import instep
from instep import Trainer
from instep.cli.recipes import train_digits
from instep.errors import Notice, is_instep_file, is_user_file

PACKAGE = Path(instep.__file__).parent


def test_whose_file_it_is(tmp_path: Path) -> None:
    assert is_user_file(str(tmp_path / "train.py"))
    assert is_user_file(__file__)
    for filename in (torch.__file__, json.__file__, str(PACKAGE / "trainer.py"), "<string>", "<frozen importlib._bootstrap>"):
        assert not is_user_file(filename), filename
    assert is_instep_file(str(PACKAGE / "trainer.py"))
    assert not is_instep_file(torch.__file__)


def test_the_recipe_counts_as_the_users() -> None:
    assert is_user_file(train_digits.__file__)
    assert not is_instep_file(train_digits.__file__)


def test_so_does_the_cell_of_a_notebook() -> None:
    assert is_user_file("<ipython-input-3-a1b2c3>")
    assert is_user_file("/tmp/ipykernel_123/456.py")


def test_a_notice_points_at_the_users_line() -> None:
    x, y = torch.randn(8, 2), torch.randint(2, (8,))
    model = nn.Linear(2, 2)

    def mine(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target)

    with pytest.warns(Notice, match="counts as a mean over samples") as caught:
        Trainer(
            model, loss=mine, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), train=(x, y), epochs=1, progress=False
        ).fit()
    assert caught[0].filename == __file__
