"""Promise 5, observe: evaluating, logging, progress, one's own draws between updates: with or without them, the same weights."""

import contextlib
import io
import random
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils.data import Dataset

from instep import OneCycle, Trainer, keys
from kernel import notebook
from tiny import CLASSES, FEATURES, TASKS


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Samples with an augmentation from each of the three generators."""

    def __init__(self, n: int) -> None:
        self.x, self.y = TASKS[0].draw(n, seed=0, dtype=torch.float32)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = 0.1 * torch.randn(FEATURES) + random.random() * 0.1 + np.random.rand() * 0.1
        return self.x[index] + noise.float(), self.y[index]


class Drawing(nn.Module):
    """Dropout, BatchNorm, and draws from Python and NumPy in the forward."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.3))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        if self.training:
            hidden = hidden * (0.9 + 0.2 * random.random()) + np.random.rand() * 0.01
        scores: Tensor = self.head(hidden)
        return scores


@dataclass(frozen=True)
class Looks:
    """What somebody does while a run goes on."""

    evaluate_every: int | str | None = None
    evaluate_by_hand: bool = False
    predict: bool = False
    draws: bool = False
    log: bool = False
    log_every: int = 50
    progress: bool = False
    notebook: bool = False  # it is shown in one, and drawn as often as can be
    draw: bool = False
    folder: bool = False
    leave_loop_at: int | None = None
    update_cycle: int = 1


def trained(looks: Looks, samples: bool) -> dict[str, Tensor]:
    keys.seed_all(keys.for_build(0))
    model = Drawing()
    data: Any = Noisy(26)
    valid = (data.x[:9], data.y[:9])
    kernel = notebook(pause_s=0.001) if looks.notebook else contextlib.nullcontext()
    with TemporaryDirectory() as parent, contextlib.redirect_stderr(io.StringIO()), kernel:
        trainer = Trainer(
            model,
            loss=nn.functional.cross_entropy,
            optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
            schedule=OneCycle(max_lr=0.05),
            train=data if samples else (data.x, data.y),
            valid=valid if looks.evaluate_every or looks.evaluate_by_hand else None,
            evaluate_every=looks.evaluate_every,
            metrics="accuracy",
            epochs=3,
            batch_size=8,
            update_cycle=looks.update_cycle,
            drop_last=True,
            log_every=looks.log_every,
            progress=looks.progress,
            folder=Path(parent) / "run" if looks.folder else None,
        )
        for update in trainer.updates():
            look(trainer, looks, valid)
            if update.step == looks.leave_loop_at:
                break
        trainer.fit()
    return model.state_dict()


def look(trainer: Trainer, looks: Looks, valid: tuple[Tensor, Tensor]) -> None:
    if looks.evaluate_by_hand:
        trainer.evaluate()
    if looks.predict:
        trainer.predict(valid)
    if looks.draws:
        torch.rand(3), random.random(), np.random.rand()
    if looks.log:
        trainer.log(norm=1.0)
    if looks.draw and trainer.step in (1, 6):
        trainer._repr_html_(), trainer.history._repr_html_()
        if trainer.history.updates:
            trainer.history.plot(ax=Figure().subplots())


@settings(max_examples=25, deadline=None)
@given(
    looks=st.builds(
        Looks,
        evaluate_every=st.sampled_from([None, "epoch", 1, 2, 5]),
        evaluate_by_hand=st.booleans(),
        predict=st.booleans(),
        draws=st.booleans(),
        log=st.booleans(),
        log_every=st.sampled_from([1, 4, 50]),
        progress=st.booleans(),
        notebook=st.booleans(),
        draw=st.booleans(),
        folder=st.booleans(),
        leave_loop_at=st.sampled_from([None, 0, 4, 8]),
        update_cycle=st.sampled_from([1, 3]),
    ),
    samples=st.booleans(),
)
def test_looking_changes_nothing(looks: Looks, samples: bool) -> None:
    alone = trained(Looks(update_cycle=looks.update_cycle), samples)
    watched = trained(looks, samples)
    for name, value in alone.items():
        assert torch.equal(value, watched[name]), name


def test_a_notebook_that_is_drawn_all_the_time_changes_nothing() -> None:
    looks = Looks(evaluate_every=2, log_every=1, progress=True, notebook=True, draw=True)
    alone, watched = trained(Looks(), samples=True), trained(looks, samples=True)
    assert all(torch.equal(value, watched[name]) for name, value in alone.items())
