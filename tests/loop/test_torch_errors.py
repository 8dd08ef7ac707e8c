"""Errors of torch in words: the layer, the shapes, the line to change; in training, in validation and in predictions."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer, data
from instep.errors import ObjectiveError

N = 20
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % 3


def trainer(model: nn.Module, x: Any = X, **options: Any) -> Trainer:
    options = {"loss": F.cross_entropy, "train": (x, Y), "batch_size": 8, "epochs": 1, "progress": False, **options}
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **options)


def said(model: nn.Module, x: Any = X, **options: Any) -> str:
    """What stops a run at its first update; torch's own error is the cause."""
    run = trainer(model, x, **options)
    with pytest.raises(ObjectiveError) as caught:
        run.fit()
    assert run.step == 0
    assert isinstance(caught.value.__cause__, RuntimeError | TypeError | IndexError | ValueError)
    assert not isinstance(caught.value.__cause__, ObjectiveError)
    return str(caught.value)


def net(features: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 3))


def test_a_wrong_width() -> None:
    text = said(net(5))
    assert text.startswith(
        "step 0 (epoch 0, batch 0): layer '0', Linear(in_features=5, out_features=8, bias=True), takes 5 features"
    )
    assert "got an input of shape (8, 4); use nn.Linear(4, 8), or data with 5 features." in text
    assert "The batch has 0: float32 (8, 4), 1: int64 (8,)." in text


def test_a_wrong_width_inside() -> None:
    text = said(nn.Sequential(nn.Linear(4, 6), nn.Sequential(nn.ReLU(), nn.Linear(8, 3))))
    assert (
        "layer '1.1', Linear(in_features=8, out_features=3, bias=True), takes 8 features and got an input of shape (8, 6)" in text
    )


def test_a_model_that_is_one_layer() -> None:
    assert "the model, Linear(in_features=7, out_features=3, bias=True), takes 7 features" in said(nn.Linear(7, 3))


def test_pictures_that_are_not_flat() -> None:
    assert "takes 4 features and got an input of shape (8, 2, 2); put an nn.Flatten() before it." in said(net(), X.view(N, 2, 2))


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ((1, 6, 6), "takes 3 channels and got an input of shape (8, 1, 6, 6); use nn.Conv2d(1, 4, …)."),
        ((6, 6, 3), "got (8, 6, 6, 3), where they stand last; use x.movedim(-1, 1)."),
        ((36,), "takes inputs of 4 dimensions, (samples, channels, …), and got (8, 36)."),
    ],
)
def test_channels(shape: tuple[int, ...], match: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    assert match in said(model, torch.randn(N, *shape))


def test_pictures_without_a_channel() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(64, 3))
    assert "takes inputs (samples, 1, …) and got (8, 6, 6); use x.unsqueeze(1)." in said(model, torch.randn(N, 6, 6))


def test_other_types_of_numbers() -> None:
    assert "has float32 weights and got an input of uint8 (8, 4); use x.float() / 255 (pixels)" in said(net(), X.to(torch.uint8))
    assert "has float32 weights and got an input of int64 (8, 4); use x.float()." in said(net(), X.long())
    doubles = [(x.double(), int(y)) for x, y in zip(X, Y, strict=True)]  # samples of a data set are taken as they are
    text = said(net(), train=doubles)
    assert "got an input of float64 (8, 4); use x.float(), or a model of that type: model.to(torch.float64)." in text


def test_indices_of_an_embedding() -> None:
    model = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(8, 3))
    ids = torch.zeros(N, 4, dtype=torch.long)
    ids[:, 2] = 6
    assert "has rows for the indices 0 to 4 and got 6; use nn.Embedding(7, 2), or smaller indices." in said(model, ids)
    assert "takes indices, whole numbers, and got torch.float32; use x.long()." in said(model, ids.float())


def test_other_layers_say_what_torch_says() -> None:
    text = said(nn.Sequential(nn.LayerNorm(5), nn.Linear(4, 3)))
    assert "cannot take an input of float32 (8, 4): Given normalized_shape=[5]" in text


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scores: Tensor = self.layer(x * mask)
        return scores


def test_a_missing_argument_of_forward() -> None:
    text = said(TwoInputs())
    assert "TwoInputs.forward(x, mask) is called as model(…), because the batch has one input: missing a required" in text
    assert "Give the samples the inputs that forward takes, or pass objective=f(model, batch)" in text


def test_words_instead_of_numbers() -> None:
    train = [("a sentence", int(y)) for y in Y]
    assert "takes a tensor and got a list of 8 x str; words have to become numbers" in said(net(), train=train)


def test_lists_of_numbers_instead_of_a_tensor() -> None:
    def collate(samples: Any) -> Any:
        return [[0.0] * 4 for _ in samples], torch.tensor([y for _, y in samples])

    train = data.source([(None, int(y)) for y in Y], collate_fn=collate)
    text = said(net(), train=train)
    assert "takes a tensor and got a list of 8 x list; make tensors of the samples, in the data set or with data.source(" in text


class Elsewhere(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x + torch.zeros(4, device="meta"))
        return scores


def test_tensors_on_different_devices() -> None:
    text = said(Elsewhere())
    assert "tensors on different devices met" in text
    assert "A tensor that forward() makes needs device=x.device" in text
    assert "in forward: scores: Tensor = self.layer(x + torch.zeros" in text  # the user's own line


class Picky(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        if len(input) > 2:
            raise ValueError("mat1 and mat2 shapes cannot be multiplied, I say")
        return super().forward(input)


def test_what_a_model_raises_on_purpose_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="I say") as caught:
        trainer(Picky(4, 3)).fit()
    assert type(caught.value) is ValueError


def test_what_is_not_known_stays_as_it_is() -> None:
    class Odd(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input.view(3, 5, 7))

    with pytest.raises(RuntimeError, match="is invalid for input of size 32") as caught:
        trainer(Odd(4, 3)).fit()
    assert type(caught.value) is RuntimeError


def test_a_later_batch_is_explained_too() -> None:
    class Wide(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return N

        def __getitem__(self, index: int) -> Any:
            return X[index], int(Y[index])

    model = net()
    run = trainer(model, train=Wide(), batch_size=10)
    updates = run.updates()
    next(updates)
    model[0] = nn.Linear(9, 8)
    with pytest.raises(ObjectiveError, match=r"step 1 \(epoch 0, batch 1\): layer '0'.*takes 9 features"):
        next(updates)


def test_predictions_and_evaluations() -> None:
    run = trainer(net())
    with pytest.raises(ObjectiveError, match=r"data: layer '0'.*takes 4 features and got an input of shape \(8, 6\)"):
        run.predict(torch.randn(N, 6))
    with pytest.raises(ObjectiveError, match=r"data: layer '0'.*takes 4 features and got an input of shape \(8, 6\)"):
        run.evaluate((torch.randn(N, 6), Y))


def test_a_metric_of_the_wrong_shape() -> None:
    run = trainer(net(), metrics={"mae": lambda output, target: (output - target).abs()}, valid=(X, Y))
    match = r"valid: metric mae failed on an output of float32 \(8, 3\) and a target of int64 \(8,\): The size of tensor a"
    with pytest.raises(ObjectiveError, match=match):
        run.evaluate()
    with pytest.raises(ObjectiveError, match=r"valid: mae cannot compare an output of shape \(8, 3\)"):
        trainer(net(), metrics="mae", valid=(X, Y)).evaluate()
