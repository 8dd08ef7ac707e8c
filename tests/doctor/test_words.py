"""What findings say where it depends on what was seen: the fix by the side that is wrong, since which step."""

import linecache
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import instep
from instep.doctor.finding import Finding

X = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def trained(loss: Callable[[Tensor], Tensor], *, replaced_at: int | None = None, steps: int = 30) -> dict[str, Finding]:
    with instep.watch(aloud=False) as watched:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            model = net() if step == replaced_at else model
            optimizer.zero_grad()
            loss(model(X)).backward()
            optimizer.step()
    return {finding.id: finding for finding in watched.findings}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(
    ("loss", "fix"),
    [
        (lambda y: F.mse_loss(y.squeeze(1), X[:, :1]), "target.squeeze(1)  # (n,) like the prediction"),
        (lambda y: (y.squeeze(1) - X[:, :1]).pow(2).mean(), "target.squeeze(1)  # (n,) like the prediction"),
        (lambda y: F.mse_loss(y, X[:, 0]), "prediction.squeeze(1)  # (n, 1) becomes (n,) like the target"),
        (lambda y: (y - X[:, 0]).pow(2).mean(), "prediction.squeeze(1)  # (n, 1) becomes (n,) like the target"),
    ],
)
def test_the_side_with_the_dimension_too_many_is_mended(loss: Callable[[Tensor], Tensor], fix: str) -> None:
    assert trained(loss)["loss-broadcast"].change.startswith(fix)


@pytest.mark.parametrize("step", [0, 20])
def test_an_optimizer_is_stale_since_the_model_was_replaced(step: int) -> None:
    found = trained(lambda y: F.mse_loss(y, X[:, :1]), replaced_at=step, steps=50)
    assert found["stale-optimizer"].since_step == step


def looped(body: Callable[[nn.Module, torch.optim.Optimizer, int], None], *, steps: int = 40) -> dict[str, Finding]:
    """What is found in a loop whose body makes one step."""
    with instep.watch(aloud=False) as watched:
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(steps):
            body(model, optimizer, step)
    return {finding.id: finding for finding in watched.findings}


def _train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    F.mse_loss(model(X), X[:, :1]).backward()
    optimizer.step()


def _clip_late(model: nn.Module, optimizer: torch.optim.Optimizer, _: int) -> None:
    _train(model, optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def _clip_late_by_hand(model: nn.Module, optimizer: torch.optim.Optimizer, _: int) -> None:
    _train(model, optimizer)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.1)


def _never_clear(model: nn.Module, optimizer: torch.optim.Optimizer, _: int) -> None:
    F.mse_loss(model(X), X[:, :1]).backward()
    optimizer.step()


def _stay_in_eval_mode(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    if step == 10:
        model.eval()
        with torch.no_grad():
            F.mse_loss(model(X), X[:, :1])
    _train(model, optimizer)


@pytest.mark.parametrize(
    ("body", "id", "step"),
    [
        (_clip_late, "clip-after-step", 0),
        (_clip_late_by_hand, "clip-after-step", 0),
        (_never_clear, "missing-zero-grad", 1),
        (_stay_in_eval_mode, "trained-in-eval-mode", 10),
    ],
)
def test_steps_are_counted_from_zero(body: Callable[[nn.Module, torch.optim.Optimizer, int], None], id: str, step: int) -> None:
    assert looped(body)[id].since_step == step


def test_weights_that_were_not_copied_are_named_where_they_were_kept() -> None:
    with instep.watch(aloud=False) as watched:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(20):
            if step == 5:
                best = model.state_dict()
            optimizer.zero_grad()
            F.mse_loss(model(X), X[:, :1]).backward()
            optimizer.step()
        model.load_state_dict(best)
    found = next(finding for finding in watched.findings if finding.id == "best-weights-aliased")
    assert [_line(place).strip() for place in (found.where, *found.places)] == [
        "best = model.state_dict()",
        "model.load_state_dict(best)",
    ]
    assert found.since_step == 5


def _line(place: str | None) -> str:
    file, _, number = (place or "").rpartition(":")
    return linecache.getline(file, int(number))
