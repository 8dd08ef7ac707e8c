"""A model's state_dict goes through a checkpoint and back into a model, bit for bit."""

from pathlib import Path

import pytest
import torch
from torch import nn

from checkpoint.made import bits, round_trip, same, trained
from instep.checkpoint import restore_model
from instep.errors import CheckpointError


def test_a_model_comes_back(tmp_path: Path) -> None:
    model, _ = trained()
    state = round_trip(model.state_dict(), tmp_path)
    other, _ = trained(steps=0)
    restore_model(other, state)
    assert same(dict(model.state_dict()), dict(other.state_dict()))
    assert other[0].weight is other[2].weight  # type: ignore[index]


def test_a_module_that_needs_its_version_comes_back(tmp_path: Path) -> None:
    """Without the versions in the state_dict, old-style spectral norm asks for a key that it has not had for years."""
    model = nn.utils.spectral_norm(nn.Linear(3, 3))
    state = round_trip(model.state_dict(), tmp_path)
    restore_model(nn.utils.spectral_norm(nn.Linear(3, 3)), state)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, tuple[int, ...]] = {}

    def get_extra_state(self) -> object:
        return {"seen": self.seen, "history": [torch.tensor(1.5)]}

    def set_extra_state(self, state: dict[str, dict[int, tuple[int, ...]]]) -> None:
        self.seen = state["seen"]


def test_extra_state_comes_back(tmp_path: Path) -> None:
    counting = Counting()
    counting.seen = {3: (1, 2)}
    model = nn.Sequential(counting, nn.Linear(2, 2))
    other = nn.Sequential(Counting(), nn.Linear(2, 2))
    restore_model(other, round_trip(model.state_dict(), tmp_path))
    assert other[0].seen == {3: (1, 2)}
    assert bits(other[1].weight) == bits(model[1].weight)  # type: ignore[arg-type]


def test_another_model_is_refused_with_what_differs() -> None:
    state = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3)).state_dict()
    other = nn.Sequential(nn.Linear(2, 2).double(), nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3))
    with pytest.raises(CheckpointError) as caught:
        restore_model(other, state)
    message = str(caught.value)
    assert "the model is not that of the checkpoint: 2.weight is not in the checkpoint" in message
    assert "1.bias is not in the model" in message
    assert "0.weight is torch.float64 of shape (2, 2), in the checkpoint it is torch.float32 of shape (2, 2)" in message
    many = nn.Sequential(*(nn.Linear(1, 1) for _ in range(6)))
    with pytest.raises(CheckpointError, match=r"3.bias is not in the checkpoint; and 4 more\.$"):
        restore_model(many, {})
