"""What findings say where it depends on what was seen: the fix by the side that is wrong, since which step."""

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
