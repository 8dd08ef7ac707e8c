"""Runs that an earlier version began: `tests/promises/earlier/` holds their folders, stopped inside an epoch.

Their data and first weights are multiples of small powers of two, so that every machine makes the same.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Loss, OneCycle, Trainer

KEPT = Path(__file__).parent / "earlier"
SAMPLES, FEATURES, CLASSES = 44, 6, 3
STOPPED_AT = {"classifier": 8, "pair": 9, "cycles": 8}  # updates; an epoch has 6


def grid(*shape: int, step: int = 7) -> Tensor:
    """Numbers between -1 and 1 in 1/8ths, with no pattern that a layer would see."""
    count = int(torch.tensor(shape).prod())
    return ((torch.arange(count) * step * step + torch.arange(count) // 3) % 17 - 8).reshape(shape).double() / 8


def data() -> tuple[Tensor, Tensor]:
    x = grid(SAMPLES, FEATURES)
    return x, x[:, :CLASSES].argmax(1)


def network(step: int = 5) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, CLASSES)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(grid(*parameter.shape, step=step) / 2)
    return model


def classifier(folder: Path | None, **options: Any) -> Trainer:
    model = network()
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        schedule=OneCycle(max_lr=1e-2),
        train=data(),
        valid=(data()[0][:20], data()[1][:20]),
        metrics="accuracy",
        epochs=4,
        batch_size=8,
        update_cycle=2,
        clip_norm=1.0,
        l2=1e-3,
        ema=0.9,
        patience=9,
        log_every=3,
        seed=3,
        folder=folder,
        progress=False,
        **options,
    )


def pair(folder: Path | None, **options: Any) -> Trainer:
    models = {"a": network(), "b": network(step=3)}

    def objective(name: str) -> Any:
        def loss_of(model: Any, batch: Any) -> Loss:
            x, y = batch
            return Loss(cross_entropy(model[name](x), y), len(x))

        return loss_of

    return Trainer(
        models,
        objective={name: objective(name) for name in models},
        optimizer={name: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9) for name, model in models.items()},
        train=data(),
        epochs=3,
        batch_size=8,
        log_every=4,
        seed=5,
        folder=folder,
        progress=False,
        **options,
    )


def cycles(folder: Path | None, **options: Any) -> Trainer:
    model = network()
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        train=data(),
        valid=(data()[0][:20], data()[1][:20]),
        epochs=2,
        batch_size=8,
        log_every=4,
        seed=7,
        folder=folder,
        progress=False,
        **options,
    )


BUILDERS = {"classifier": classifier, "pair": pair, "cycles": cycles}
