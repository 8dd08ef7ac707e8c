"""A model that was looked at in eval mode is trained in train mode."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer, freeze
from instep.errors import Notice

X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(24) % 3


def net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))


def trainer(model: nn.Module, **options: Any) -> Trainer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"train": (X, Y), "batch_size": 8, "epochs": 2, "progress": False, **options}
    return Trainer(model, loss=F.cross_entropy, optimizer=optimizer, **options)


def weights(run: Trainer) -> Tensor:
    return torch.cat([value.double().flatten() for value in run.model.state_dict().values()])


def trained() -> Tensor:
    run = trainer(net())
    run.fit()
    return weights(run)


def test_a_model_that_was_looked_at_before_fit() -> None:
    run = trainer(net())
    run.model.eval()(X)
    run.fit()
    assert torch.equal(weights(run), trained())


def test_between_two_loops() -> None:
    run = trainer(net())
    for _ in run.updates():
        break
    run.model.eval()(X)
    for _ in run.updates():
        pass
    assert torch.equal(weights(run), trained())


def test_a_single_module_in_eval_mode_stays_there() -> None:
    model = net()
    model[1].eval()
    run = trainer(model)
    run.model.eval()
    for _ in run.updates():
        assert [module.training for module in run.model] == [True, False, True, True]
        run.model[2].eval()
        break
    run.model.eval()
    for _ in run.updates():
        assert [module.training for module in run.model] == [True, False, False, True]


def test_what_is_frozen_is_unfrozen_into_train_mode() -> None:
    model = net()
    freeze(model, "0", "1")
    run = trainer(model, unfreeze_at={1: ["0", "1"]})
    run.model.eval()
    run.fit()
    assert all(module.training for module in run.model.modules())


def test_in_the_middle_of_a_loop_it_is_said_once_and_left(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = trainer(net(), folder=tmp_path)
        for update in run.updates():
            if update.step == 1:
                run.model.eval()
        said = [one for one in caught if one.category is Notice]
    (notice,) = said
    assert "the model is in eval mode, and this update trains it so" in str(notice.message)
    assert "Call model.train()" in str(notice.message)
    assert notice.filename == __file__
    assert not run.model.training


def test_a_resumed_run_goes_on_in_the_modes_it_had(tmp_path: Path) -> None:
    def loop(folder: Path, *, stop: bool) -> Trainer:
        run = trainer(net(), folder=folder)
        for update in run.updates():
            if update.step == 1:
                run.model.eval()
            if stop and update.step == 3:
                break
        return run

    with pytest.warns(Notice, match="in eval mode"):
        whole = loop(tmp_path / "whole", stop=False)
    with pytest.warns(Notice, match="in eval mode"):
        loop(tmp_path / "halves", stop=True)
    resumed = loop(tmp_path / "halves", stop=False)
    assert resumed.resumed_from == 4
    assert torch.equal(weights(whole), weights(resumed))


def test_looking_for_a_learning_rate_does_not_need_the_mode_either() -> None:
    one, other = trainer(net()), trainer(net())
    other.model.eval()
    found = [run.find_lr(steps=20, low=1e-4, high=1e-2).losses for run in (one, other)]
    assert found[0] == found[1]
    assert not other.model.training
