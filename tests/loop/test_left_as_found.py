"""What is looked at is left as it was found, and what that costs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import instep.loop.left_as_found as left_as_found
from instep.errors import Notice
from instep.loop.left_as_found import LeftAsFound
from tiny import CLASSES, FEATURES, X, Y, make, net


class Changing(nn.Module):
    """In eval mode too: a buffer in place, another one replaced, a number, a new attribute, a generator."""

    kept: Tensor
    replaced: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("replaced", torch.zeros(2))
        self.count = 0
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        self.kept += 1
        self.replaced = self.replaced + torch.rand(2, generator=self.generator)
        self.count += 1
        self.new = self.count
        scores: Tensor = self.linear(x)
        return scores

    def everything(self) -> Any:
        return (self.kept.tolist(), self.replaced.tolist(), self.count, hasattr(self, "new"), self.generator.get_state().tolist())


def saved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is kept from now on."""
    found: list[Any] = []
    save = left_as_found._save

    def noting(part: Any, leave: Any) -> Any:
        found.append(part)
        return save(part, leave)

    monkeypatch.setattr(left_as_found, "_save", noting)
    return found


def test_each_look_begins_where_the_one_before_began() -> None:
    model = Changing()
    found, before, kept = LeftAsFound([model]), model.everything(), model.kept
    for _ in range(3):
        with found.looking("a"):
            model(torch.zeros(2, FEATURES))
            assert model.everything() != before
        assert model.everything() == before
    assert model.kept is kept


def test_later_looks_keep_only_what_the_first_one_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = saved(monkeypatch)
    changing, plain = Changing(), nn.BatchNorm1d(3)
    found = LeftAsFound([nn.Sequential(changing), plain])
    for _ in range(2):
        with found.looking("a"):
            changing(torch.zeros(2, FEATURES))
    assert len(parts) == 4 + 1
    assert parts[-1] is changing


def test_a_plain_model_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = saved(monkeypatch)
    model = nn.Sequential(net(), nn.BatchNorm1d(CLASSES))
    trainer = make(model, valid=(X, Y))
    trainer.evaluate()
    once = len(parts)
    assert once == len(list(model.modules()))
    trainer.evaluate()
    assert len(parts) == once


def test_a_look_that_fails_leaves_no_trace_either() -> None:
    model = Changing()
    found, before = LeftAsFound([model]), model.everything()
    for changes in (0, 1, 1):  # a look that failed before it changed anything says nothing about the next one
        with pytest.raises(ZeroDivisionError), found.looking("a"):
            for _ in range(changes):
                model(torch.zeros(2, FEATURES))
            raise ZeroDivisionError
        assert model.everything() == before


@pytest.mark.filterwarnings("ignore:.*is deprecated. Please switch")
def test_a_scripted_model_is_evaluated() -> None:
    model = torch.jit.script(nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.BatchNorm1d(CLASSES)))
    assert make(model, valid=(X, Y), epochs=1).fit().evaluations


class Moded(nn.Module):
    """A loss that notes its modes, with a dropout of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.still = nn.Dropout(0.5).eval()

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        NOTED.append((self.training, self.dropout.training, self.still.training))
        return cross_entropy(scores, target)


NOTED: list[tuple[bool, ...]] = []


@pytest.mark.parametrize("ema", [None, 0.5])
@pytest.mark.filterwarnings("ignore:Moded counts as a mean")
def test_a_loss_module_is_in_eval_mode_during_evaluation_and_back_in_its_own_modes_after(ema: float | None) -> None:
    loss = Moded()
    NOTED.clear()
    make(loss=loss, valid=(X, Y), evaluate_every=2, ema=ema, max_steps=4, epochs=None).fit()
    assert set(NOTED) == {(True, True, False), (False, False, False)}
    assert NOTED.count((True, True, False)) == 4
    assert (loss.training, loss.dropout.training, loss.still.training) == (True, True, False)


def test_a_list_that_somebody_collects_in_is_put_back_and_named() -> None:
    losses: list[float] = []

    def objective(model: nn.Module, batch: Any) -> Tensor:
        loss = cross_entropy(model(batch[0]), batch[1])
        losses.append(loss.item())
        return loss

    trainer = make(loss=None, objective=objective, valid=(X, Y))
    with pytest.warns(Notice, match="losses grew while the model was looked at, and was put back.*use a metric or a hook"):
        trainer.evaluate()
    assert losses == []
    trainer.evaluate()  # said once
    assert losses == []
