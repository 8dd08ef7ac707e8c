"""The average of a run's weights: evaluated beside them, kept, and with batch norm statistics that fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tiny
from instep import Trainer
from instep.data import source
from instep.errors import DescriptionError
from tiny import CLASSES, FEATURES, TASKS

X, Y = TASKS[0].draw(48, seed=0, dtype=torch.float32)


def net(norm: bool = False) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8) if norm else nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, CLASSES))


def make(model: nn.Module | None = None, **changes: Any) -> Trainer:
    return tiny.make(net() if model is None else model, **({"train": (X, Y), "valid": (X[:9], Y[:9])} | changes))


def test_the_average_is_evaluated_beside_the_weights() -> None:
    trainer = make(ema=0.8, metrics="accuracy")
    by_hand: dict[str, Tensor] = {}
    for update in trainer.updates():
        for name, p in trainer.model.named_parameters():
            by_hand[name] = p.detach().clone() if update.step == 0 else 0.8 * by_hand[name] + 0.2 * p.detach()
    assert trainer.ema is not None
    for name, p in trainer.ema.module.named_parameters():
        torch.testing.assert_close(p, by_hand[name])
    evaluation = trainer.evaluate()
    assert list(evaluation) == ["valid/loss", "valid/accuracy", "valid/ema/loss", "valid/ema/accuracy"]
    with torch.no_grad():
        expected = F.cross_entropy(trainer.ema.module(X[:9]), Y[:9]).item()
    assert evaluation["valid/ema/loss"] == pytest.approx(expected, rel=1e-6)
    plain = make()
    plain.fit()
    for a, b in zip(plain.model.parameters(), trainer.model.parameters(), strict=True):
        assert torch.equal(a, b)  # it only watches


def test_a_skipped_update_is_not_averaged() -> None:
    x = X.clone()
    x[5] = float("nan")
    trainer = make(ema=0.8, train=(x, Y), on_nonfinite="skip")
    skipped = sum(update.skipped for update in trainer.updates())
    assert skipped == 3
    assert trainer.ema is not None
    assert trainer.ema.count == 9 - skipped


def test_it_is_monitored_kept_and_loaded(tmp_path: Path) -> None:
    for folder in (tmp_path / "run", None):
        model = net()
        destroying = torch.optim.SGD(model.parameters(), lr=30.0)
        trainer = make(
            model, optimizer=destroying, ema=0.8, folder=folder, monitor="valid/ema/loss", restore_best=True, evaluate_every=2
        )
        history = trainer.fit()
        assert history.best is not None
        assert history.best["step"] < 8
        assert trainer.evaluate()["valid/ema/loss"] == pytest.approx(history.best["valid/ema/loss"], rel=1e-6)
    latest = tmp_path / "run" / "checkpoints" / (tmp_path / "run" / "checkpoints" / "LATEST").read_text().strip()
    assert "ema.safetensors" in json.loads((latest / "MANIFEST.json").read_text())["files"]


def test_batch_norm_statistics_of_a_young_average_are_recomputed() -> None:
    """After one update the average is the model; with data far from 0 its running mean has hardly moved from 0."""
    model = net(norm=True)
    trainer = make(model, ema=0.99, train=(X + 5, Y), valid=(X[:16] + 5, Y[:16]), max_steps=1)
    for _ in trainer.updates():
        pass
    assert trainer.ema is not None
    statistics = {name: buffer.clone() for name, buffer in trainer.ema.module.named_buffers()}
    found = trainer.evaluate()
    with torch.no_grad():
        hidden = model[0](X + 5)  # all of the training data, in three batches of 16
        means = torch.stack([part.mean(0) for part in hidden.split(16)]).mean(0)
        judged = F.batch_norm(model[0](X[:16] + 5), means, hidden.var(0), model[1].weight, model[1].bias)
        expected = F.cross_entropy(model[3](judged), Y[:16]).item()
    assert found["valid/ema/loss"] == pytest.approx(expected, rel=0.05)
    assert found["valid/loss"] > 1.5 * expected
    for name, buffer in trainer.ema.module.named_buffers():
        assert torch.equal(buffer, statistics[name]), name


def test_statistics_are_of_what_training_gets() -> None:
    """A transform of batches comes before the batch norms, also when their statistics are taken anew."""

    def shifted(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return batch[0] + 5, batch[1]

    shifted_data = {"train": source((X, Y), batch_transform=shifted), "valid": source((X[:9], Y[:9]), batch_transform=shifted)}
    by_transform = make(net(norm=True), ema=0.99, **shifted_data)
    before = make(net(norm=True), ema=0.99, train=(X + 5, Y), valid=(X[:9] + 5, Y[:9]))
    by_transform.fit()
    before.fit()
    assert by_transform.evaluate() == before.evaluate()


def test_an_old_average_keeps_its_own_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(net(norm=True), ema=0.1)
    trainer.fit()
    monkeypatch.setattr(trainer.run.evaluator, "_training_batches", lambda: pytest.fail("asked for training data"))
    assert "valid/ema/loss" in trainer.evaluate()


@pytest.mark.parametrize("decay", [0, 1.0, "0.9", True])
def test_a_decay_that_is_none(decay: Any) -> None:
    with pytest.raises(DescriptionError, match=r"ema=.*: decay=.* is no share of the average to keep"):
        make(ema=decay)


def test_the_plan_says_what_an_average_sees() -> None:
    text = " ".join(repr(make(ema=0.999)).split())
    assert "of the weights, decay 0.999; evaluated as …/ema/…" in text
    assert "ema=0.999 goes back about 1,000 updates, and the run has 9" in text
