import functools
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from instep import Loss, Trainer
from instep.errors import Notice, ObjectiveError
from instep.loop.objective import as_loss, from_loss

X, Y = torch.randn(6, 3), torch.tensor([0, 1, 2, -100, 1, -100])


def computed(objective: object) -> Loss:
    assert callable(objective)
    loss = objective(nn.Linear(3, 3), (X, Y))
    assert isinstance(loss, Loss)
    return loss


@pytest.mark.parametrize("loss", [F.cross_entropy, nn.CrossEntropyLoss(), functools.partial(F.cross_entropy)])
def test_torchs_own_losses_are_counted_without_a_word(loss: object) -> None:
    assert callable(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = computed(from_loss(loss))
    assert float(found.count) == 4
    assert found.target is Y
    assert found.output.shape == (6, 3)


def test_reduction_none_is_the_mean_of_what_it_gives() -> None:
    found = computed(from_loss(nn.CrossEntropyLoss(reduction="none")))
    assert found.value.ndim == 0
    assert found.count == 6


def test_reduction_sum_is_a_sum() -> None:
    assert computed(from_loss(nn.CrossEntropyLoss(reduction="sum"))).kind == "sum"


def test_an_unknown_loss_counts_samples_and_says_so_once() -> None:
    def my_loss(output: Tensor, target: Tensor) -> Tensor:
        return output.square().mean()

    assert computed(from_loss(my_loss)).count == 6
    with pytest.warns(Notice, match=r"my_loss counts as a mean over samples.*return Loss\(value, count\)") as seen:
        trained(my_loss)
    assert len(seen) == 1


def test_an_unknown_loss_may_return_a_loss() -> None:
    def my_loss(output: Tensor, target: Tensor) -> Loss:
        return Loss(output.mean(), count=3)

    assert computed(from_loss(my_loss)).count == 3
    trained(my_loss)  # without a word


def trained(loss: Any) -> None:
    model = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = (torch.randn(8, 2), torch.arange(8) % 3)
    Trainer(model, loss=loss, optimizer=optimizer, train=data, batch_size=4, update_cycle=2, epochs=2, progress=False).fit()


def test_a_tensor_is_a_mean_over_the_samples_of_the_batch() -> None:
    assert as_loss(torch.tensor(1.0), {"x": torch.zeros(5, 2)}).count == 5
    with pytest.raises(ObjectiveError, match=r"the samples of a batch of type int cannot be counted; return Loss"):
        as_loss(torch.tensor(1.0), 3)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ((X,), "this batch is a tuple of 1; pass objective="),
        ((X, X, Y), "this batch is a tuple of 3"),
        ({"x": X, "y": Y}, "this batch is a mapping with x, y"),
        (X, "this batch is a Tensor"),
    ],
)
def test_a_loss_needs_pairs(batch: object, words: str) -> None:
    with pytest.raises(ObjectiveError, match=words):
        from_loss(F.cross_entropy)(nn.Linear(3, 3), batch)


def test_a_loss_that_cannot_be_called() -> None:
    with pytest.raises(ObjectiveError, match="loss='mse' cannot be called; pass a function"):
        from_loss("mse")  # type: ignore[arg-type]
    with pytest.raises(ObjectiveError, match=r"loss=MSELoss is a class; call it: loss=MSELoss\(\)"):
        from_loss(nn.MSELoss)


def test_an_objective_may_return_the_output_of_a_model_that_has_a_loss() -> None:
    value, logits, labels = torch.tensor(0.5), torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    batch = {"input_ids": torch.zeros(4, 2), "labels": labels}
    for output in (SimpleNamespace(loss=value, logits=logits), {"loss": value, "logits": logits}):
        loss = as_loss(output, batch)
        assert (loss.value, loss.count, loss.kind) == (value, 4, "mean")
        assert loss.output is logits
        assert loss.target is labels
    with pytest.raises(ObjectiveError, match="the objective returned SimpleNamespace; return a Loss"):
        as_loss(SimpleNamespace(loss=None), batch)
