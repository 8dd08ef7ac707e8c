"""A monitored value that is nan is explained, once."""

import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer
from instep.errors import Notice

X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(24) % 3


def said(valid: Any, **options: Any) -> tuple[Trainer, list[str]]:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"loss": F.cross_entropy, "epochs": 3, "batch_size": 8, "progress": False, **options}
    run = Trainer(model, optimizer=optimizer, train=(X, Y), valid=valid, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run.fit()
    assert all(one.filename == __file__ for one in caught)
    return run, [str(one.message) for one in caught if one.category is Notice]


def spoilt(row: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = X.clone()
    x[row, 2] = torch.nan
    return x, Y


def test_a_sample_that_holds_nan() -> None:
    run, (text,) = said(spoilt(17), patience=1)
    assert text == (
        "valid/loss is nan after 3 updates: sample 17 of valid: feature 2 of column 0 is nan. Such an evaluation is never the "
        "best, and counts as one without a better one for patience=1."
    )
    assert run.step == 3
    assert run.history.best is None


def test_it_is_said_once_and_of_the_set_that_is_monitored() -> None:
    run, (text,) = said({"near": (X, Y), "far": spoilt(5)}, monitor="valid/far/loss")
    assert text.startswith("valid/far/loss is nan after 3 updates: sample 5 of")
    assert text.endswith("Such an evaluation is never the best.")
    assert run.step == 9
    assert said({"near": (X, Y), "far": spoilt(5)}, monitor="valid/near/loss")[1] == []


def test_targets_that_are_all_ignored() -> None:
    (text,) = said((X, torch.full_like(Y, -100)))[1]
    assert "valid/loss is nan after 3 updates: every target of valid is ignored (-100)." in text
    (text,) = said((X, torch.full_like(Y, 7)), loss=nn.CrossEntropyLoss(ignore_index=7))[1]
    assert "every target of valid is ignored (7)." in text


def test_a_metric_without_a_value() -> None:
    (text,) = said((X, torch.zeros_like(Y)), metrics="auroc", monitor="valid/auroc")[1]
    assert "valid/auroc is nan after 3 updates, though all numbers of valid are finite." in text


def test_weights_that_are_not_finite() -> None:
    def objective(model: nn.Module, batch: Any) -> torch.Tensor:
        loss = F.cross_entropy(model(batch[0]), batch[1])
        if model.training:
            torch.nn.init.constant_(model.bias, torch.inf)  # type: ignore[arg-type]  # after the forward: the loss is finite
        return loss

    (text,) = said((X, Y), loss=None, objective=objective, max_steps=1)[1]
    assert "valid/loss is nan after 1 update: weights are not finite (bias)." in text
