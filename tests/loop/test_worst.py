"""The samples that a model does worst on."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instep import Loss, Trainer

DISTANCES = [0.0, 3.0, 1.0, 5.0, 2.0, 4.0]


def trainer(**options: Any) -> Trainer:
    """A model that gives 0 for everything, so that the loss of a sample is the square of its target."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    x = torch.ones(6, 1)
    y = torch.tensor(DISTANCES).view(6, 1)
    given: dict[str, Any] = {"loss": nn.functional.mse_loss, "train": (x, y), "valid": (x, y)} | options
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(model, optimizer=optimizer, epochs=1, batch_size=4, progress=False, **given)


def test_the_largest_come_first() -> None:
    found = trainer().run.largest_losses(3, 100)
    assert [(one.source, one.index, one.loss) for one in found] == [("valid", 3, 25.0), ("valid", 5, 16.0), ("valid", 1, 9.0)]
    assert found[0].target.tolist() == [[5.0]]
    assert found[0].output.tolist() == [[0.0]]
    assert found[0].data[0].shape == (1, 1)


def test_only_the_first_are_looked_at() -> None:
    assert [one.index for one in trainer().run.largest_losses(2, 3)] == [1, 2]


def test_of_several_sets_the_worst_of_all_come_first() -> None:
    x = torch.ones(2, 1)
    made = trainer(valid={"easy": (x, 0.1 * x), "hard": (x, 9 * x)})
    assert [one.source for one in made.run.largest_losses(3, 100)] == ["valid['hard']", "valid['hard']", "valid['easy']"]


def test_a_share_of_the_training_data_is_named_by_where_it_is() -> None:
    found = trainer(valid=0.5).run.largest_losses(6, 100)
    assert {one.source for one in found} == {"train"}
    assert [one.loss for one in found] == [DISTANCES[one.index] ** 2 for one in found]


def test_a_loss_that_is_not_finite_is_the_worst() -> None:
    def broken(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
        x, y = batch
        return Loss(((model(x) - y) ** 2).mean() / (y != 2.0).float().mean(), len(x))

    found = trainer(loss=None, objective=broken).run.largest_losses(2, 100)
    assert [one.index for one in found] == [4, 3]
    assert found[0].output is None


def test_it_leaves_no_trace() -> None:
    made = trainer()
    state, mode = torch.get_rng_state(), made.model.training
    made.run.largest_losses(2, 100)
    assert torch.equal(torch.get_rng_state(), state)
    assert made.model.training is mode


@pytest.mark.parametrize("weights", ["model", "ema"])
def test_it_is_of_the_weights_that_were_asked_for(weights: Any) -> None:
    made = trainer(ema=0.9)
    before = made.run.largest_losses(1, 100, weights)[0].loss
    nn.init.constant_(made.run.model.weight, 50.0)  # type: ignore[arg-type]
    after = made.run.largest_losses(1, 100, weights)[0].loss
    assert (before == after) == (weights == "ema")
