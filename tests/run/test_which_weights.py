"""Which weights are used: those that the monitored value judges, the same everywhere, and others where one asks for them."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Trainer, keys, load_model
from instep.errors import CheckpointError, DescriptionError

X = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
Y = X[:, :3].argmax(1)
AVERAGED: dict[str, Any] = {"ema": 0.8, "monitor": "valid/ema/loss"}


def net() -> nn.Module:
    keys.seed_all(3)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def make(**options: Any) -> Trainer:
    model = net()
    given: dict[str, Any] = {
        "train": (X, Y),
        "valid": (X[:20] * 2, Y[:20]),
        "epochs": 3,
        "batch_size": 16,
        "progress": False,
        "restore_best": True,
    }
    return Trainer(model, loss=cross_entropy, optimizer=torch.optim.SGD(model.parameters(), lr=0.5), **(given | options))


def loss_of(model: nn.Module) -> float:
    model.eval()
    with torch.no_grad():
        return float(cross_entropy(model(X[:20] * 2), Y[:20]))


def loss_of_outputs(outputs: Tensor) -> float:
    return float(cross_entropy(outputs, Y[:20]))


@pytest.mark.parametrize("kept", [False, True])
def test_what_the_monitor_judges_is_what_is_restored_and_predicts(tmp_path: Path, kept: bool) -> None:
    trainer = make(**AVERAGED, folder=tmp_path / "run" if kept else None)
    best = trainer.fit().best
    assert best is not None
    assert best["valid/ema/loss"] != pytest.approx(best["valid/loss"], rel=1e-2)
    assert loss_of_outputs(trainer.predict(X[:20] * 2)) == pytest.approx(best["valid/ema/loss"], rel=1e-5)
    assert loss_of(trainer.model) == pytest.approx(best["valid/ema/loss"], rel=1e-5)
    assert trainer.evaluate()["valid/ema/loss"] == pytest.approx(best["valid/ema/loss"], rel=1e-5)
    if kept:  # without a folder the other ones are gone
        trainer.load("best", weights="model")
        assert loss_of_outputs(trainer.predict(X[:20] * 2, weights="model")) == pytest.approx(best["valid/loss"], rel=1e-5)
        assert loss_of(trainer.model) == pytest.approx(best["valid/loss"], rel=1e-5)
        assert loss_of_outputs(trainer.predict(X[:20] * 2)) == pytest.approx(best["valid/ema/loss"], rel=1e-5)


def test_an_average_that_is_not_monitored_is_used_where_one_asks_for_it(tmp_path: Path) -> None:
    trainer = make(ema=0.8, folder=tmp_path / "run")
    best = trainer.fit().best
    assert best is not None
    assert loss_of(trainer.model) == pytest.approx(best["valid/loss"], rel=1e-5)
    assert loss_of_outputs(trainer.predict(X[:20] * 2)) == pytest.approx(best["valid/loss"], rel=1e-5)
    assert loss_of_outputs(trainer.predict(X[:20] * 2, weights="ema")) == pytest.approx(best["valid/ema/loss"], rel=1e-5)
    trainer.load("best", weights="ema")
    assert loss_of(trainer.model) == pytest.approx(best["valid/ema/loss"], rel=1e-5)


def test_an_evaluation_names_the_weights_of_each_number() -> None:
    trainer = make(ema=0.8, restore_best=False, epochs=1)
    trainer.fit()
    both = trainer.evaluate()
    assert list(both) == ["valid/loss", "valid/ema/loss"]
    assert dict(trainer.evaluate(weights="model")) == {"valid/loss": both["valid/loss"]}
    assert dict(trainer.evaluate(weights="ema")) == {"valid/ema/loss": both["valid/ema/loss"]}
    assert list(trainer.evaluate((X, Y), weights="ema")) == ["data/ema/loss"]


def test_a_run_is_loaded_by_the_same_rule(tmp_path: Path) -> None:
    """Its batch norm statistics are those in the checkpoint: there is no data here to take others from."""
    kinds: dict[str, dict[str, Any]] = {"averaged": AVERAGED, "plain": {"ema": 0.8}}
    for name, options in kinds.items():
        trainer = make(**options, folder=tmp_path / name)
        trainer.fit()
        trainer.load("best", weights="model")
        assert trainer.ema is not None
        raw, averaged = trainer.model.state_dict(), trainer.ema.module.state_dict()
        default = averaged if name == "averaged" else raw
        best = tmp_path / name / "checkpoints" / (tmp_path / name / "checkpoints" / "BEST").read_text().strip()
        for path in (tmp_path / name, best):
            for weights, expected in ((None, default), ("model", raw), ("ema", averaged)):
                model = net()
                load_model(model, path, weights=weights)  # type: ignore[arg-type]
                torch.testing.assert_close(model.state_dict(), expected, rtol=0, atol=0)


def test_a_checkpoint_alone_does_not_say_which_weights_are_meant(tmp_path: Path) -> None:
    trainer = make(ema=0.8, folder=tmp_path / "run")
    trainer.fit()
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    alone = tmp_path / newest.name
    shutil.copytree(newest, alone)
    with pytest.raises(CheckpointError, match=r"holds the model's own weights and their average.* pass weights=\"model\" or"):
        load_model(net(), alone)
    load_model(net(), alone, weights="ema")


def test_several_models_are_averaged_and_loaded_by_name(tmp_path: Path) -> None:
    g, d = nn.Linear(5, 3), nn.Linear(5, 3)
    trainer = Trainer(
        {"g": g, "d": d},
        objective={"g": lambda models, batch: cross_entropy(models["g"](batch[0]) + models["d"](batch[0]), batch[1])},
        optimizer={"g": torch.optim.SGD([*g.parameters(), *d.parameters()], lr=0.5)},
        train=(X, Y),
        epochs=1,
        ema=0.5,
        folder=tmp_path / "run",
        progress=False,
    )
    trainer.fit()
    assert trainer.ema is not None
    model = nn.Linear(5, 3)
    load_model({"d": model}, tmp_path / "run", weights="ema")
    assert torch.equal(model.weight, trainer.ema.module["d"].weight)  # type: ignore[index]


def test_a_set_that_is_called_ema_is_no_average(tmp_path: Path) -> None:
    trainer = make(valid={"ema": (X[:20] * 2, Y[:20])}, monitor="valid/ema/loss", ema=0.8, folder=tmp_path / "run")
    best = trainer.fit().best
    assert best is not None
    assert loss_of(trainer.model) == pytest.approx(best["valid/ema/loss"], rel=1e-5)
    model = net()
    load_model(model, tmp_path / "run")
    torch.testing.assert_close(model.state_dict(), trainer.model.state_dict(), rtol=0, atol=0)


def test_the_plan_says_which_weights_are_used() -> None:
    def said(**options: Any) -> str | None:
        return dict(make(**options).plan().rows).get("weights")

    used = "predict(), load() and exports use"
    assert said(**AVERAGED) == f'{used} the averaged ones, which valid/ema/loss judges; weights="model" takes the others'
    assert said(ema=0.8) == f'{used} the model\'s own, which valid/loss judges; weights="ema" takes the others'
    assert said(ema=0.8, valid=None, restore_best=False) == f'{used} the model\'s own; weights="ema" takes the others'
    assert said() is None


def test_weights_that_are_not_there_are_refused(tmp_path: Path) -> None:
    trainer = make(epochs=1, folder=tmp_path / "run")
    trainer.fit()
    with pytest.raises(DescriptionError, match=r'weights="ema" takes averaged weights, and this run keeps none; pass ema='):
        trainer.predict(X, weights="ema")
    with pytest.raises(DescriptionError, match=r"weights='raw' is not known; use \"model\", \"ema\", \"swa\" or None"):
        trainer.predict(X, weights="raw")  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=r"holds no averaged weights; leave weights= out"):
        load_model(net(), tmp_path / "run", weights="ema")
    torch.save(net().state_dict(), tmp_path / "file.pt")
    with pytest.raises(CheckpointError, match=r"file\.pt holds no averaged weights"):
        load_model(net(), tmp_path / "file.pt", weights="ema")
