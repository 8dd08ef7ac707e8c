"""Stochastic weight averaging: torch's own mean, with batch norm statistics that fit; beside an EMA; resumed bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_swa_multi_avg_fn, update_bn

from instep import Trainer, data, keys, load_model
from instep.errors import CheckpointError, DescriptionError

X = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
Y = X[:, :3].argmax(1)


def net(norm: bool = True) -> nn.Module:
    keys.seed_all(3)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8) if norm else nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))


def make(*, norm: bool = True, **options: Any) -> Trainer:
    model = net(norm)
    given: dict[str, Any] = {"train": (X, Y), "valid": (X[:20] * 2, Y[:20]), "epochs": 4, "batch_size": 16, "progress": False}
    return Trainer(model, loss=cross_entropy, optimizer=torch.optim.SGD(model.parameters(), lr=0.5), **(given | options))


def states(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def loss_of(model: nn.Module) -> float:
    model.eval()
    with torch.no_grad():
        return float(cross_entropy(model(X[:20] * 2), Y[:20]))


def test_it_is_torchs_mean_with_its_statistics_updated() -> None:
    trainer = make(swa=1)
    theirs: AveragedModel | None = None
    for update in trainer.updates():
        if update.index == 3 and update.epoch >= 1:
            theirs = theirs or AveragedModel(trainer.model, multi_avg_fn=get_swa_multi_avg_fn())
            theirs.update_parameters(trainer.model)
    assert theirs is not None
    assert trainer.swa is not None
    assert trainer.swa.count == 3
    for ours, one in zip(trainer.swa.module.parameters(), theirs.module.parameters(), strict=True):
        assert torch.equal(ours, one)
    order = data.Order(64, seed=0, epoch=0)
    update_bn([X[torch.tensor(order[start : start + 16])] for start in range(0, 64, 16)], theirs)
    found = trainer.evaluate(weights="swa")["valid/swa/loss"]
    assert found == pytest.approx(loss_of(theirs.module), rel=1e-5)
    assert found != pytest.approx(loss_of(trainer.swa.module), rel=1e-4)  # with statistics that were averaged


def test_it_changes_nothing_in_the_training() -> None:
    plain, averaged = make(), make(swa=1, ema=0.9)
    rows = [[{**row, "clock": None} for row in trainer.fit().updates] for trainer in (plain, averaged)]
    assert rows[0] == rows[1]
    for name, value in states(plain.model).items():
        assert torch.equal(value, states(averaged.model)[name])


def test_before_it_begins_the_weights_are_the_models_own() -> None:
    trainer = make(swa=2, ema=0.5)
    evaluations = trainer.fit().evaluations
    assert list(trainer.evaluate()) == ["valid/loss", "valid/ema/loss", "valid/swa/loss"]
    for row in evaluations[:2]:
        assert row["valid/swa/loss"] == row["valid/loss"]
        assert "valid/swa/ema/loss" not in row
    assert evaluations[3]["valid/swa/loss"] != evaluations[3]["valid/loss"]


def test_in_updates_and_in_several_epochs() -> None:
    for options, count in (
        ({"swa": 0}, 4),
        ({"swa": 3}, 1),
        ({"swa": "5 updates", "swa_every": 2}, 6),
        ({"swa": "1 epochs", "swa_every": "2 epochs"}, 2),
    ):
        trainer = make(**options)
        trainer.fit()
        assert trainer.swa is not None
        assert trainer.swa.count == count, options
    assert "takes in the weights once in this run" in str(make(swa=3))
    assert "of the weights after each epoch, from epoch 3 on; evaluated as" in str(make(swa=3))


@pytest.mark.parametrize("stop", [3, 8, 10])
def test_it_is_resumed_bit_for_bit(tmp_path: Path, stop: int) -> None:
    options: dict[str, Any] = {"swa": 1, "ema": 0.9, "monitor": "valid/swa/loss", "restore_best": True}
    whole = make(**options, folder=tmp_path / "whole")
    whole.fit()
    for update in make(**options, folder=tmp_path / "run").updates():
        if update.step == stop:
            break
    resumed = make(**options, folder=tmp_path / "run")
    resumed.fit()
    for ours, theirs in ((resumed.swa, whole.swa), (resumed.ema, whole.ema)):
        assert ours is not None
        assert theirs is not None
        assert all(torch.equal(value, states(theirs.module)[name]) for name, value in states(ours.module).items())
        assert ours.count == theirs.count
    assert all(torch.equal(value, states(whole.model)[name]) for name, value in states(resumed.model).items())
    rows = [[{**row, "clock": None} for row in one.history.rows] for one in (whole, resumed)]
    assert rows[0] == rows[1]


def test_its_weights_are_used_where_the_monitored_value_judges_them(tmp_path: Path) -> None:
    trainer = make(swa=1, ema=0.9, monitor="valid/swa/loss", restore_best=True, folder=tmp_path / "run")
    best = trainer.fit().best
    assert best is not None
    assert loss_of(trainer.model) == pytest.approx(best["valid/swa/loss"], rel=1e-5)
    assert float(cross_entropy(trainer.predict(X[:20] * 2), Y[:20])) == pytest.approx(best["valid/swa/loss"], rel=1e-5)
    assert 'use those of "swa", which valid/swa/loss judges' in " ".join(str(trainer).split())


def test_they_are_read_from_checkpoints(tmp_path: Path) -> None:
    trainer = make(norm=False, swa=2, monitor="valid/swa/loss", folder=tmp_path / "run", keep=None, checkpoint_every="epoch")
    trainer.fit()
    model: Any = net(norm=False)
    shelf = tmp_path / "run" / "checkpoints"
    assert trainer.swa is not None
    load_model(model, shelf / "step-00000016")
    averaged: Any = trainer.swa.module
    assert torch.equal(model[3].weight, averaged[3].weight)
    load_model(model, shelf / "step-00000016", weights="model")
    assert torch.equal(model[3].weight, trainer.model[3].weight)
    other: Any = net(norm=False)
    load_model(model, shelf / "step-00000004", weights="swa")  # when it had not begun
    load_model(other, shelf / "step-00000004", weights="model")
    assert torch.equal(model[3].weight, other[3].weight)
    with pytest.raises(CheckpointError, match=r"holds no averaged weights; leave weights= out"):
        load_model(model, shelf / "step-00000004", weights="ema")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"swa": 4},
            r"swa= averages nothing: it begins after update 16 and takes in the weights every 4 updates, and the run has",
        ),
        ({"swa": 9}, r"swa= averages nothing: it begins after update 36"),
        ({"swa": 0.75}, r"swa=0.75 does not say from which epoch on the weights are averaged; use a whole number"),
        ({"swa": "10 minutes"}, r"swa='10 minutes' does not say from which epoch"),
        ({"swa": -1}, r"swa=-1 does not say"),
        ({"swa": 0, "swa_every": "10 minutes"}, r"swa_every='10 minutes' is not known; use \"epoch\""),
    ],
)
def test_what_cannot_be_meant(options: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        make(**options)


def test_names_that_it_takes() -> None:
    with pytest.raises(DescriptionError, match=r"metrics= has the name 'swa'; use a word without"):
        make(metrics={"swa": lambda output, target: output.sum()})
    with pytest.raises(DescriptionError, match=r'weights="swa" takes averaged weights, and this run keeps none; pass swa='):
        make().predict(X, weights="swa")
