"""Where an update went wrong: the sample, its column and feature, as the user knows them."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from instep import Loss, Trainer
from instep.errors import NonFiniteGradient, NonFiniteLoss

X = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(50) % 3


def fit(train: Any, model: nn.Module | None = None, **options: Any) -> str:
    """What a run that meets a loss that is not finite says."""
    model = nn.Linear(4, 3) if model is None else model
    options = {"loss": cross_entropy, "batch_size": 32, **options}
    if "objective" in options:
        options["loss"] = None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, optimizer=optimizer, train=train, epochs=1, progress=False, **options)
    with pytest.raises((NonFiniteLoss, NonFiniteGradient)) as caught:
        trainer.fit()
    return str(caught.value)


def test_a_nan_in_the_data_is_named_by_sample_and_feature() -> None:
    x = X.clone()
    x[17, 3] = math.nan
    said = fit((x, Y))
    assert said.endswith(" Sample 17 of train: feature 3 of column 0 is nan.")
    assert "has the samples" not in said


def test_a_micro_batch_is_named_where_there_are_several() -> None:
    x = X.clone()
    x[:, 1] = math.nan
    assert ": the loss is nan; no step was made." in fit((x, Y), batch_size=50)
    assert ": the loss of micro-batch 1 is nan; no step was made." in fit((x, Y), batch_size=50, update_cycle=2)


def test_several_are_named_each() -> None:
    x = X.clone()
    x[17, 3], x[21, :2] = math.nan, math.inf
    said = fit((x, Y), batch_size=50)
    assert "ample 17 of train: feature 3 of column 0 is nan" in said
    assert "ample 21 of train: features 0, 1 of column 0 are inf" in said


def test_of_many_the_first_is_named() -> None:
    x = X.clone()
    x[:, 1] = -math.inf
    said = fit((x, Y), batch_size=50)
    assert "50 of the 50 samples hold such values" in said
    assert "feature 1 of column 0 is -inf" in said


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_target_that_is_nan_is_named(shape: tuple[int, ...]) -> None:
    y = torch.randn(50, 1)
    y[9] = math.nan
    target = y.reshape(50, *shape)
    model = nn.Linear(4, 1) if shape else nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    assert "ample 9 of train: column 1 is nan." in fit((X, target), model, loss=mse_loss)


def test_columns_of_a_mapping_have_their_names_and_pixels_their_place() -> None:
    pictures = torch.zeros(50, 1, 2, 2)
    pictures[30, 0, 1, 0] = math.nan
    data = {"pixels": pictures, "label": Y}

    def objective(model: nn.Module, batch: Any) -> Tensor:
        return cross_entropy(model(batch["pixels"].flatten(1)), batch["label"])

    assert "ample 30 of train: element (0, 1, 0) of column 'pixels' is nan." in fit(data, objective=objective)


def test_samples_have_the_indices_of_the_data_that_was_passed() -> None:
    x = X.clone()
    x[41] = math.nan
    said = fit((x, Y), valid=0.3, seed=1)  # of this split it stays with the training data
    assert "ample 41 of train: features 0, 1, 2, 3 of column 0 are nan." in said


class Root(nn.Module):
    """Gives nan where the first number of a sample is negative, though every number in the data is finite."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        scores: Tensor = self.layer(x) + x[:, :1].sqrt()
        return scores


def test_finite_data_is_bisected_to_the_sample_whose_loss_is_nan() -> None:
    x = X.abs()
    x[23, 0] = -1.0
    model = Root()
    said = fit((x, Y), model, batch_size=50)
    assert said.endswith(" Sample 23 of train has a loss of nan or inf alone; the values are finite.")
    assert model.calls < 20  # 1 + about 2·log2(50), not 50
    assert model.training


def test_where_no_sample_is_to_blame_all_of_the_batch_are_named() -> None:
    def objective(model: nn.Module, batch: Any) -> Loss:
        x, y = batch
        value = cross_entropy(model(x), y)
        return Loss(value * (math.nan if len(x) > 16 else 1.0), len(x))

    said = fit((X, Y), objective=objective)
    assert "The batch has the samples" in said


def test_an_objective_that_cannot_take_one_sample_stops_the_search_and_nothing_else() -> None:
    def objective(model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        x = x.view(2, 25, 4).flatten(0, 1)
        return cross_entropy(model(x), y) * math.nan

    assert "The batch has the samples" in fit((X, Y), objective=objective, batch_size=50)


def test_a_gradient_that_is_not_finite_names_the_data_too() -> None:
    x = X.clone()
    x[17, 2] = math.inf

    def objective(model: nn.Module, batch: Any) -> Tensor:
        value: Tensor = model(batch[0]).clamp(-1, 1).mean()
        return value

    said = fit((x, Y), objective=objective, clip_norm=1.0)
    assert "Sample 17 of train: feature 2 of column 0 is inf." in said


def test_features_of_a_frame_have_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    from instep import data

    frame = pandas.DataFrame({"age": X[:, 0].numpy(), "height": X[:, 1].numpy(), "target": X[:, 2].numpy()})
    frame.loc[12, "height"] = math.inf
    model = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    said = fit(data.source(frame, target="target"), model, loss=mse_loss)
    assert "ample 12 of train: feature 1 ('height') of column 0 is inf." in said
