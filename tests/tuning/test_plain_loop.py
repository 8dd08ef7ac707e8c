"""The plain loop that a run is compared with does the work of the run: the weights are the same."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Loss, Trainer
from instep.errors import DescriptionError
from instep.tuning.plain_loop import left_out, plain_updates, require_plain_loop


def made(**other: Any) -> Trainer:
    torch.manual_seed(0)
    x, y = torch.randn(40, 4), torch.randint(3, (40,))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    named = {"optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), "train": (x, y)}
    if "objective" not in other:
        named["loss"] = cross_entropy
    return Trainer(model, **{**named, "epochs": 2, "batch_size": 16, "progress": False, **other})


def as_mapping(model: nn.Module, batch: Any) -> Loss:
    return Loss(cross_entropy(model(batch[0]), batch[1]), len(batch[1]))


def plain_number(model: nn.Module, batch: Any) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1])


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"clip_norm": 0.1},
        {"clip_value": 0.01},
        {"loss": nn.CrossEntropyLoss()},
        {"objective": as_mapping},
        {"objective": plain_number},
        {"precision": "bf16"},
        {"drop_last": True},
    ],
    ids=["plain", "clip_norm", "clip_value", "loss", "mapping", "number", "bf16", "drop_last"],
)
def test_it_trains_as_the_trainer_does(other: dict[str, Any]) -> None:
    trainer, plain = made(**other), made(**other)
    steps = trainer.total_steps
    trainer.fit()
    with closing(plain_updates(plain.run)) as updates:
        for _ in range(steps):
            next(updates)
    for own, theirs in zip(trainer.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(own, theirs)


def test_micro_batches_are_added_up() -> None:
    trainer, plain = made(update_cycle=2, drop_last=True), made(update_cycle=2, drop_last=True)
    trainer.fit()
    with closing(plain_updates(plain.run)) as updates:
        for _ in range(trainer.total_steps):
            next(updates)
    for own, theirs in zip(trainer.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("limits", "is_second_clipped"), [({"a": 1e-4}, False), ({"*": 1e-4}, True)])
def test_limits_of_groups_hold_for_their_group(limits: dict[str, float], is_second_clipped: bool) -> None:
    def optimizer(model: nn.Sequential) -> torch.optim.Optimizer:
        groups = [{"params": model[0].parameters(), "name": "a"}, {"params": model[2].parameters(), "name": "b"}]
        return torch.optim.SGD(groups, lr=1.0)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    data = torch.randn(16, 4), torch.randint(3, (16,))
    trainer = Trainer(model, loss=cross_entropy, optimizer=optimizer(model), train=data, epochs=1, clip_norm=limits)
    with closing(plain_updates(trainer.run)) as updates:
        next(updates)
    norms = [torch.linalg.vector_norm(layer.weight.grad).item() for layer in (model[0], model[2])]
    assert norms[0] < 1e-4
    assert (norms[1] < 1e-4) == is_second_clipped


def test_what_the_plain_loop_does_not_have_is_named() -> None:
    assert left_out(made().run) == []
    assert left_out(made(ema=0.5, l2=0.1, on_nonfinite="skip").run) == ["ema=0.5", "l2=0.1", "on_nonfinite='skip'"]


def lbfgs() -> Trainer:
    return made(optimizer=torch.optim.LBFGS)


def two() -> Trainer:
    model = nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)})
    optimizers = {name: torch.optim.SGD(part.parameters(), lr=0.1) for name, part in model.items()}
    data = torch.randn(8, 4), torch.randint(3, (8,))
    objectives = {name: lambda model, batch, name=name: cross_entropy(model[name](batch[0]), batch[1]) for name in model}
    return Trainer(dict(model), objective=objectives, optimizer=optimizers, train=data, epochs=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lbfgs, "LBFGS evaluates the loss several times a step; only optimizers that do it once are compared"),
        (two, "the run has several optimizers"),
    ],
)
def test_what_cannot_be_compared(make: Callable[[], Trainer], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        require_plain_loop(make().run)
