"""What the graph of the first loss shows, and that an optimizer without gradients is refused."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer
from instep.errors import Notice, ObjectiveError

N = 24
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % 3


def fit(model: nn.Module, **options: Any) -> Trainer:
    optimizer = options.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"train": (X, Y), "batch_size": 8, "epochs": 1, "progress": False, **options}
    run = Trainer(model, optimizer=optimizer, **options)
    run.fit()
    return run


def ends_in(*last: nn.Module, outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(4, outputs), *last)


def objective(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


@pytest.mark.parametrize("loss", [F.cross_entropy, nn.CrossEntropyLoss()])
def test_a_softmax_before_cross_entropy_is_refused(loss: Any) -> None:
    model = ends_in(nn.Softmax(1))
    before = next(model.parameters()).detach().clone()
    words = r"cross_entropy gets the result of a softmax .* Leave the softmax out of .* If it is meant, call .* objective="
    with pytest.raises(ObjectiveError, match=words):
        fit(model, loss=loss)
    assert torch.equal(next(model.parameters()), before)


def test_in_an_objective_it_is_said_once_at_the_line_that_trains() -> None:
    with pytest.warns(Notice, match=r"cross_entropy gets the result of a softmax .* Leave the softmax out of the model") as seen:
        run = fit(ends_in(nn.Softmax(1)), objective=objective)
    assert run.step == 3
    assert [warning.filename for warning in seen] == [__file__]


def test_a_sigmoid_before_a_loss_on_logits() -> None:
    with pytest.raises(ObjectiveError, match="binary_cross_entropy_with_logits gets the result of a sigmoid"):
        fit(ends_in(nn.Sigmoid(), outputs=1), loss=F.binary_cross_entropy_with_logits, train=(X, (Y > 0).float()[:, None]))


@pytest.mark.parametrize(("last", "given"), [((), "scores straight from a layer"), ((nn.Softmax(1),), "the result of a softmax")])
def test_nll_on_what_is_no_logarithm(last: tuple[nn.Module, ...], given: str) -> None:
    with pytest.raises(ObjectiveError, match=f"nll_loss takes log-probabilities and gets {given}"):
        fit(ends_in(*last), loss=F.nll_loss)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (ends_in(), F.cross_entropy),
        (ends_in(nn.LogSoftmax(1)), F.cross_entropy),
        (ends_in(nn.LogSoftmax(1)), F.nll_loss),
        (ends_in(nn.Softmax(1), nn.Linear(3, 3)), F.cross_entropy),
    ],
)
def test_what_is_harmless_is_not_said(model: nn.Module, loss: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(model, loss=loss)


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(4, 3)
        self.unused = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.used(x)
        return scores


def test_an_optimizer_that_no_gradient_reaches() -> None:
    model = Heads()
    before = model.unused.weight.clone()
    match = r"no parameter of the optimizer has a gradient.*the loss depends on used\.weight, used\.bias"
    with pytest.raises(ObjectiveError, match=match):
        fit(model, loss=F.cross_entropy, optimizer=torch.optim.SGD(model.unused.parameters(), lr=0.1))
    assert torch.equal(model.unused.weight, before)


def test_one_gradient_is_enough() -> None:
    model = Heads()
    assert fit(model, loss=F.cross_entropy).step == 3
    assert fit(model, loss=F.cross_entropy, optimizer=torch.optim.LBFGS(model.parameters())).step == 3
    assert not model.used.weight._post_accumulate_grad_hooks


class ClearsItself(torch.optim.SGD):
    """Leaves no gradients behind, as those that take two passes do."""

    def step(self, closure: Any = None) -> Any:
        super().step()
        self.zero_grad()


def test_an_optimizer_that_clears_gradients_itself_trains() -> None:
    model = Heads()
    optimizer = ClearsItself(model.parameters(), lr=0.1)
    assert fit(model, loss=F.cross_entropy, optimizer=optimizer).step == 3
    assert not optimizer._optimizer_step_pre_hooks
