"""Optimizers of another make: Lion, and the schedule-free ones with their train and eval modes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from lion_pytorch import Lion
from schedulefree import AdamWScheduleFree, RAdamScheduleFree, SGDScheduleFree
from torch import Tensor

import tiny
from instep import Trainer
from instep.checkpoint import locate, read
from instep.data import Order
from instep.errors import DescriptionError
from instep.optim.train_eval import Modes, has_modes
from tiny import TASKS, net, weights

X, Y = TASKS[0].draw(48, seed=0, dtype=torch.float32)
MAKERS: dict[str, Callable[..., Any]] = {
    "lion": lambda p: Lion(p, lr=0.003),
    "sgd": lambda p: SGDScheduleFree(p, lr=0.5, warmup_steps=3),
    "adamw": lambda p: AdamWScheduleFree(p, lr=0.02),
    "radam": lambda p: RAdamScheduleFree(p, lr=0.02),
}


def make(kind: str, **changes: Any) -> Trainer:
    model = net()
    return tiny.make(model, **({"optimizer": MAKERS[kind](model.parameters()), "train": (X, Y)} | changes))


@pytest.mark.parametrize("kind", MAKERS)
def test_it_is_the_plain_loop_bit_for_bit(kind: str) -> None:
    trainer = make(kind, valid=(X[:9], Y[:9]), evaluate_every=2)
    trainer.fit()
    plain = net()
    optimizer = MAKERS[kind](plain.parameters())
    if kind != "lion":
        optimizer.train()
    for epoch in range(3):
        for places in torch.from_numpy(Order(48, seed=0, epoch=epoch)[:].copy()).split(16):
            optimizer.zero_grad()
            F.cross_entropy(plain(X[places]), Y[places]).backward()
            optimizer.step()
    if kind != "lion":
        optimizer.eval()
    assert torch.equal(weights(plain), weights(trainer.model))


def test_evaluation_sees_the_weights_that_are_meant_to_be_used() -> None:
    trainer = make("sgd", valid=(X, Y))
    for update in trainer.updates():
        if update.step == 4:
            trained = weights(trainer.model)
            inside = trainer.evaluate()
            assert torch.equal(weights(trainer.model), trained)
            assert trainer.optimizer.param_groups[0]["train_mode"]
            break
    assert not trainer.optimizer.param_groups[0]["train_mode"]  # left to its user
    assert not torch.equal(weights(trainer.model), trained)
    assert trainer.evaluate() == inside
    with torch.no_grad():
        assert inside["valid/loss"] == pytest.approx(F.cross_entropy(trainer.model(X), Y).item(), rel=1e-6)


def test_a_checkpoint_holds_what_is_used_and_what_is_trained(tmp_path: Path) -> None:
    trainer = make("adamw", valid=(X, Y), folder=tmp_path / "run")
    trained: list[Tensor] = []
    for _ in trainer.updates():
        trained.append(weights(trainer.model))
    parts = read(locate(tmp_path / "run" / "checkpoints", "latest")).parts
    assert torch.equal(_vector(parts["model"]), weights(trainer.model))
    assert torch.equal(_vector(parts["training"]), trained[-1])
    assert trainer.history.best is not None
    trainer.load("best")
    assert trainer.evaluate()["valid/loss"] == pytest.approx(trainer.history.best["valid/loss"], rel=1e-6)


def test_the_best_comes_back_without_a_folder() -> None:
    trainer = make("sgd", valid=(X, Y), evaluate_every=1, restore_best=True)
    history = trainer.fit()
    assert history.best is not None
    assert trainer.evaluate()["valid/loss"] == pytest.approx(history.best["valid/loss"], rel=1e-6)


def test_loading_in_the_middle_goes_on_from_what_was_loaded(tmp_path: Path) -> None:
    trainer = make("sgd", folder=tmp_path / "run", checkpoint_every=1, keep=None)
    for update in trainer.updates():
        if update.step == 3:
            trainer.load(2)
            used = read(locate(tmp_path / "run" / "checkpoints", 2)).parts["model"]
            assert torch.allclose(_vector(trainer.run.model_state.copy()["model"]), _vector(used), atol=1e-6)
            assert trainer.optimizer.param_groups[0]["train_mode"]


@pytest.mark.filterwarnings("ignore:.*holds a run, and these weights are not from it")
def test_looking_before_the_run_changes_no_description(tmp_path: Path) -> None:
    for _ in make("sgd", valid=(X, Y), folder=tmp_path / "run").updates():
        break
    again = make("sgd", valid=(X, Y), folder=tmp_path / "run")
    again.evaluate()
    again.dry_run()
    again.fit()


def test_an_average_of_an_average_is_refused() -> None:
    with pytest.raises(DescriptionError, match=r"ema=0\.9 averages weights that the optimizer averages by itself; leave ema out"):
        make("sgd", ema=0.9)


def test_torchs_own_have_no_modes() -> None:
    optimizer = torch.optim.AdamW(net().parameters())
    assert not has_modes(optimizer)
    modes = Modes([optimizer])
    with modes.evaluating(), modes.training():
        assert not modes.any


def _vector(state: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.flatten() for value in state.values()])
