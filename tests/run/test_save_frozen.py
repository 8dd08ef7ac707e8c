"""`save_frozen=False`: checkpoints without the weights that nobody trains, which go onto the same base only."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer, freeze, load_model, unfreeze
from instep.checkpoint import read
from instep.checkpoint.checkpoint_folder import path_of
from instep.errors import CheckpointError, DescriptionError

X = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)


def net(base: int = 1) -> nn.Module:
    """A base of 4 x 8 that is frozen, a norm with statistics, and a head."""
    torch.manual_seed(base)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))
    freeze(model[0])
    return model


def make(folder: Path | None, model: nn.Module | None = None, **options: Any) -> Trainer:
    model = net() if model is None else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    given: dict[str, Any] = {"save_frozen": False, "epochs": 2, "batch_size": 5, "checkpoint_every": 1} | options
    return Trainer(model, loss=F.mse_loss, optimizer=optimizer, train=(X, Y), folder=folder, progress=False, **given)


def stop_at(trainer: Trainer, step: int) -> Trainer:
    for update in trainer.updates():
        if update.step == step:
            break
    return trainer


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(one: nn.Module, other: nn.Module) -> None:
    ours, theirs = weights(one), weights(other)
    assert not [name for name in ours if not torch.equal(ours[name], theirs[name])]


def saved(folder: Path, step: int, part: str = "model") -> set[str]:
    return set(read(path_of(folder / "checkpoints", step)).parts[part])


def test_a_run_goes_on_without_them_bit_for_bit(tmp_path: Path) -> None:
    whole = make(None, save_frozen=True, ema=0.9)
    whole.fit()
    stop_at(make(tmp_path, ema=0.9), 2)
    assert not [name for name in saved(tmp_path, 3) if name.startswith("0.")]
    assert {"1.running_mean", "1.weight", "3.weight"} <= saved(tmp_path, 3)
    assert "module.3.weight" in saved(tmp_path, 3, "ema")
    assert "module.0.weight" not in saved(tmp_path, 3, "ema")
    resumed = make(tmp_path, ema=0.9)
    assert "checkpoints leave out 40 frozen numbers: the script makes them again" in str(resumed)
    resumed.fit()
    assert resumed.resumed_from == 3
    assert_same(resumed.model, whole.model)
    assert resumed.ema is not None
    assert whole.ema is not None
    assert_same(resumed.ema.module, whole.ema.module)
    assert not [name for name in saved(tmp_path, 8) if name.startswith("0.")]  # a restored checkpoint does not bring them back


def test_the_weights_are_found_again(tmp_path: Path) -> None:
    trainer = make(tmp_path)
    trainer.fit()
    for loaded in (net(), net(base=1)):
        load_model(loaded, tmp_path)
        assert_same(loaded, trainer.model)
    again = make(tmp_path)
    again.load("latest")
    assert_same(again.model, trainer.model)
    begun = make(None, init=tmp_path, save_frozen=True)
    assert_same(begun.model, trainer.model)


def test_another_base_is_refused(tmp_path: Path) -> None:
    stop_at(make(tmp_path), 2)
    said = r"has no frozen weights \(save_frozen=False\): 2 tensors .* 2 of this model are others: 0.weight, 0.bias.*Make the"
    with pytest.raises(CheckpointError, match=said):
        make(tmp_path, net(base=2)).fit()
    with pytest.raises(CheckpointError, match=said):
        load_model(net(base=2), tmp_path)


def test_what_was_trained_after_all_is_saved(tmp_path: Path) -> None:
    """By `unfreeze_at=`, and by hand for a while."""
    whole = make(None, unfreeze_at={1: "0"}, save_frozen=True)
    whole.fit()
    stop_at(make(tmp_path / "a", unfreeze_at={1: "0"}), 5)
    assert "0.weight" not in saved(tmp_path / "a", 4)
    assert "0.weight" in saved(tmp_path / "a", 6)
    resumed = make(tmp_path / "a", unfreeze_at={1: "0"})
    resumed.fit()
    assert_same(resumed.model, whole.model)
    trainer = make(tmp_path / "b", keep=None)
    for update in trainer.updates():
        if update.step == 1:
            unfreeze(trainer.model[0])
        if update.step == 3:
            freeze(trainer.model[0])
    there = [step for step in range(1, 9) if "0.weight" in saved(tmp_path / "b", step)]
    assert there == [3, 4, 5, 6, 7, 8]  # 2 was written before the loop set it free


def test_it_may_be_changed_on_the_way(tmp_path: Path) -> None:
    whole = make(None, save_frozen=True)
    whole.fit()
    stop_at(make(tmp_path, save_frozen=True), 1)
    assert "0.weight" in saved(tmp_path, 2)
    stop_at(make(tmp_path), 3)
    assert "0.weight" not in saved(tmp_path, 4)
    last = make(tmp_path, save_frozen=True)
    last.fit()
    assert "0.weight" in saved(tmp_path, 8)
    assert_same(last.model, whole.model)


def test_wrong_use() -> None:
    with pytest.raises(DescriptionError, match=r"save_frozen=False leaves .* every parameter takes a gradient"):
        make(None, nn.Linear(4, 1))
    with pytest.raises(DescriptionError, match="save_frozen='no' is neither True nor False"):
        make(None, save_frozen="no")
