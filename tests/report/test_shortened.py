"""A metric with a number for each class does not flood what is shown; the history has all of them."""

from pathlib import Path

import pytest
import torch
from torch import nn

from instep import Trainer
from instep.report import show
from instep.report.shortened import shorten

CLASSES = [f"valid/f1_per_class/{label}" for label in range(10)]


def test_numbers_of_a_set_are_all_shown_and_those_of_a_metric_in_part() -> None:
    plain = ["valid/loss", *(f"valid/m{i}" for i in range(9)), "valid/a/loss", *(f"valid/a/m{i}" for i in range(9))]
    assert shorten(plain) == (plain, 0)
    assert shorten([*plain, *CLASSES]).names == [*plain, *CLASSES[:2]]
    assert shorten(CLASSES).rest == "… 8 more in the history"
    assert shorten(CLASSES, "valid/f1_per_class/7").names == [*CLASSES[:2], CLASSES[7]]
    assert shorten(CLASSES[:4]) == (CLASSES[:4], 0)


def test_progress_and_tables_stay_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = torch.randn(40, 3), torch.arange(40) % 10
    model = nn.Linear(3, 10)
    trainer = Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train=(x, y),
        valid=(x, y),
        test=(x, y),
        metrics="f1_per_class",
        ema=0.9,
        epochs=2,
        folder=tmp_path / "run",
        progress=True,
    )
    trainer.fit()
    said = capsys.readouterr().err
    assert "valid/f1_per_class/1" in said
    assert "... 16 more in the history" in said
    assert max(map(len, said.splitlines())) < 300
    text = show.render(tmp_path / "run")
    assert "f1_per_class/5" not in text
    assert "… 16 more columns in the history" in text
    assert "valid/ema/f1_per_class/9" in trainer.history.names
