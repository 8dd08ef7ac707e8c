"""Losses that are fed what they cannot mean: refused with the shapes, the labels and the line to change."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer
from instep.errors import InstepError, ObjectiveError

N = 40
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % 3


def trainer(loss: Any, target: Any, outputs: int = 3, model: nn.Module | None = None, **options: Any) -> Trainer:
    model = nn.Linear(4, outputs) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"train": (X, target), "batch_size": 16, "epochs": 1, "progress": False, **options}
    return Trainer(model, loss=loss, optimizer=optimizer, **options)


def said(*args: Any, **options: Any) -> str:
    """What stops a run at its first update, which leaves the weights as they were."""
    run = trainer(*args, **options)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    with pytest.raises(ObjectiveError) as caught:
        run.fit()
    assert run.step == 0
    assert all(torch.equal(value, before[name]) for name, value in run.model.state_dict().items())
    return str(caught.value)


@pytest.mark.parametrize(
    "loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, nn.MSELoss(), nn.L1Loss(reduction="sum")]
)
def test_outputs_and_targets_that_would_be_compared_each_with_each(loss: Any) -> None:
    text = said(loss, X[:, 0], outputs=1)
    assert "an output of shape (16, 1) and a target of shape (16,) would be spread to (16, 16)" in text
    assert "every output compared with every target" in text
    assert "use y.unsqueeze(1), or end the model with nn.Flatten(0)" in text


def test_the_other_way_round() -> None:
    text = said(F.mse_loss, X[:, :1], model=nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)))
    assert "an output of shape (16,) and a target of shape (16, 1)" in text
    assert "use y.squeeze(1)" in text


@pytest.mark.parametrize(("columns", "outputs"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("loss", [F.mse_loss, F.poisson_nll_loss, F.kl_div, nn.MultiLabelSoftMarginLoss()])
def test_columns_that_are_spread(loss: Any, columns: int, outputs: int) -> None:
    text = said(loss, X[:, :columns].abs(), outputs=outputs)
    assert f"an output of shape (16, {outputs}) and a target of shape (16, {columns}) would be spread to (16, 2)" in text
    assert "if that is meant, call the loss in an objective=, else they must be the same" in text


def test_samples_that_are_spread_over_columns() -> None:
    assert "would be spread to (3, 3)" in said(F.mse_loss, X[:, 0], batch_size=3)


@pytest.mark.parametrize(
    "loss", [F.kl_div, F.hinge_embedding_loss, F.soft_margin_loss, F.poisson_nll_loss, F.multilabel_soft_margin_loss]
)
def test_all_of_torchs_losses_that_spread(loss: Any) -> None:
    text = said(loss, X[:, 0].sign(), outputs=1)
    assert "an output of shape (16, 1) and a target of shape (16,) would be spread to (16, 16)" in text


def test_a_mean_with_its_variance() -> None:
    class Both(nn.Linear):
        def forward(self, input: Tensor) -> Any:
            mean, width = super().forward(input).chunk(2, 1)
            return mean, width.exp()

    assert "every output compared with every target" in said(F.gaussian_nll_loss, X[:, 0], model=Both(4, 2))
    trainer(F.gaussian_nll_loss, X[:, :1], model=Both(4, 2)).fit()


class Centred(nn.Module):
    """A loss with a state, which a try must not move."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return (output - target).square().mean()


def squared(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).pow(2).mean()


@pytest.mark.parametrize("loss", [squared, Centred(), lambda o, t: F.l1_loss(o, t, reduction="sum")])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_of_ones_own_that_compares_each_with_each(loss: Any) -> None:
    text = said(loss, X[:, 0], outputs=1)
    assert "compares every output with every target: an output of shape (16, 1) and a target of shape (16,)" in text
    assert "use y.unsqueeze(1)" in text
    assert "or end the model with nn.Flatten(0)" in text
    if isinstance(loss, Centred):
        assert loss.calls == 1


@pytest.mark.parametrize(
    "loss",
    [
        lambda o, t: (o.squeeze(1) - t).square().mean(),
        lambda o, t: F.mse_loss(o[:, 0], t),
        lambda o, t: F.l1_loss(o, t.unsqueeze(1)),
        lambda o, t: (o.flatten() - t + torch.rand(len(t))).abs().mean(),
        lambda o, t: (o.flatten().sort()[0] - t.flatten().sort()[0]).square().mean(),  # the order makes no difference, and may
        lambda o, t: o.square().mean(),
    ],
)
@pytest.mark.filterwarnings("ignore:.*counts as a mean over samples")
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_of_ones_own_that_brings_them_to_one_shape(loss: Any) -> None:
    trainer(loss, X[:, 0], outputs=1).fit()


@pytest.mark.filterwarnings("ignore:.*counts as a mean over samples")
def test_trying_a_loss_draws_no_random_numbers() -> None:
    def noisy(output: Tensor, target: Tensor) -> Tensor:
        return (output.squeeze(1) - target + torch.rand(len(target))).square().mean()

    def paired(output: Tensor, target: Tensor) -> Tensor:
        return noisy(output, target.squeeze(1))

    one, other = (
        trainer(loss, target, model=model)
        for loss, target, model in zip((noisy, paired), (X[:, 0], X[:, :1]), pair_of_models(), strict=True)
    )
    one.fit(), other.fit()
    assert torch.equal(one.model.weight, other.model.weight)


def pair_of_models() -> tuple[nn.Module, nn.Module]:
    model = nn.Linear(4, 1)
    return model, copy.deepcopy(model)


@pytest.mark.parametrize("loss", [F.binary_cross_entropy_with_logits, nn.BCELoss()])
@pytest.mark.parametrize(
    ("zero", "one", "advice"),
    [(0, 255, "use y / 255"), (1, 2, "use y - 1"), (-1, 1, r"use (y + 1) / 2"), (0, 3, "bring the targets to 0.0 and 1.0")],
)
def test_binary_targets_beyond_0_and_1(loss: Any, zero: float, one: float, advice: str) -> None:
    target = torch.where(X[:, :1] > 0, one, zero).float()
    text = said(
        loss, target, model=nn.Sequential(nn.Linear(4, 1), nn.Sigmoid() if isinstance(loss, nn.BCELoss) else nn.Identity())
    )
    assert f"takes targets from 0 to 1, and the target goes from {zero} to {one}" in text
    assert advice in text


def test_binary_targets_of_the_validation_data() -> None:
    loss, y = F.binary_cross_entropy_with_logits, (X[:, :1] > 0).float()
    with pytest.raises(ObjectiveError, match=r"valid: binary_cross_entropy_with_logits takes targets from 0 to 1"):
        trainer(loss, y, outputs=1, valid=(X, y * 255)).fit()


def test_a_target_that_is_nan_is_named_by_its_sample() -> None:
    target = (X[:, :1] > 0).float()
    target[3] = torch.nan
    with pytest.raises(InstepError, match=r"[Ss]ample 3 of train: column 1 is nan"):
        trainer(F.binary_cross_entropy_with_logits, target, outputs=1, batch_size=40).fit()


def test_validation_data_is_refused_like_training_data() -> None:
    with pytest.raises(ObjectiveError, match=r"valid.*output of shape \(10, 1\) and a target of shape \(10,\) would be spread"):
        trainer(F.mse_loss, X[:, :1], outputs=1, valid=(X[:10], X[:10, 0])).fit()


def test_labels_that_are_floats() -> None:
    assert "cross_entropy takes labels as int64, and the target is torch.float32; use y.long()." in said(
        F.cross_entropy, Y.float()
    )
    text = said(nn.CrossEntropyLoss(), X[:, 0])
    assert "CrossEntropyLoss takes labels, whole numbers, and the target holds" in text
    assert "for a regression use mse_loss" in text


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.bool])
def test_labels_of_another_whole_type(dtype: torch.dtype) -> None:
    assert f"takes labels as int64, and the target is {dtype}; use y.long()." in said(F.cross_entropy, Y.to(dtype))


def test_labels_in_a_column() -> None:
    text = said(F.cross_entropy, Y[:, None])
    assert "takes one label a sample, a target of shape (16,), and got (16, 1); use y.squeeze(1)." in text


def test_labels_one_hot() -> None:
    text = said(F.cross_entropy, F.one_hot(Y, 3))
    assert "the target has the output's shape (16, 3) and is torch.int64; use y.argmax(1) for labels" in text


def test_a_label_out_of_range_is_named_with_its_sample() -> None:
    labels = Y.clone()
    labels[23] = 3
    run = trainer(F.cross_entropy, labels)
    match = r"sample 23 of train: label 3 is none of the 3 classes, 0 to 2, that an output of shape \(\d+, 3\) has"
    with pytest.raises(ObjectiveError, match=match):
        run.fit()


def test_in_a_later_micro_batch_too() -> None:
    labels = Y.clone()
    labels[23] = -1
    with pytest.raises(ObjectiveError, match=r"sample 23 of train: label -1 is none of the 3 classes"):
        trainer(F.cross_entropy, labels, batch_size=40, update_cycle=7).fit()


def test_labels_that_begin_at_one() -> None:
    assert "the labels go from 1 to 3: use y - 1." in said(F.cross_entropy, Y + 1)


def test_a_label_out_of_range_in_the_validation_data() -> None:
    labels = Y[:20].clone()
    labels[13] = 7
    with pytest.raises(ObjectiveError, match=r"valid.*sample 13 of valid: label 7 is none of the 3 classes"):
        trainer(F.cross_entropy, Y, valid=(X[:20], labels), batch_size=8).fit()


def test_ignored_labels_are_in_range() -> None:
    labels = Y.clone()
    labels[::2] = -100
    trainer(F.cross_entropy, labels).fit()
    labels[::2] = 255
    trainer(functools.partial(F.cross_entropy, ignore_index=255), labels).fit()


def test_classes_that_stand_last() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.layer(x[..., None])
            return scores

    text = said(F.cross_entropy, (X > 0).long(), model=Tagger())
    assert "wants the classes in dimension 1, and the output is (16, 4, 3)" in text
    assert "output.transpose(1, -1)" in text


def test_a_single_class() -> None:
    text = said(F.cross_entropy, Y * 0, outputs=1)
    assert "an output of shape (16, 1) has a single class, whose loss is always 0" in text
    assert "binary_cross_entropy_with_logits" in text
    text = said(F.cross_entropy, X[:, :1], outputs=1)
    assert "an output of shape (16, 1) has a single class, whose loss is always 0" in text
    assert "or mse_loss for numbers of that shape" in text


def test_single_logits() -> None:
    loss = F.binary_cross_entropy_with_logits
    assert "output of shape (16, 1) and a target of shape (16,); use y.unsqueeze(1)" in said(loss, (Y > 0).float(), outputs=1)
    text = said(loss, (Y > 0)[:, None], outputs=1)
    assert "takes targets of the output's type, torch.float32, and the target is torch.bool; use y.float()." in text
    assert "use y.float()." in said(nn.BCEWithLogitsLoss(), (Y > 0)[:, None].long(), outputs=1)


def test_probabilities_that_are_none() -> None:
    model = nn.Linear(4, 1)
    nn.init.constant_(model.weight, 3.0)
    text = said(F.binary_cross_entropy, (Y > 0).float()[:, None], model=model)
    assert "binary_cross_entropy takes probabilities, from 0 to 1, and the output goes from" in text
    assert "use binary_cross_entropy_with_logits" in text


def test_lengths_that_differ() -> None:
    class Half(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input)[: len(input) // 2]

    assert "the model gave 8 outputs for 16 targets" in said(F.cross_entropy, Y, model=Half(4, 3))


def test_shapes_that_do_not_go_together() -> None:
    text = said(F.mse_loss, X[:, :2], outputs=3)
    assert "mse_loss got an output of shape (16, 3) and a target of shape (16, 2); they must be the same." in text


def test_labels_that_are_words() -> None:
    words = ["cat", "dog", "fish"]
    data = [(X[i], words[i % 3]) for i in range(N)]
    text = said(F.cross_entropy, None, train=data)
    assert "the target is a list of words ('" in text
    assert "give each word a number" in text


def test_what_a_loss_raises_on_purpose_stays_as_it_is() -> None:
    class Mine(ValueError):
        pass

    class Strict(nn.CrossEntropyLoss):
        def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            raise Mine("not today")

    run = trainer(Strict(), Y)
    with pytest.raises(Mine, match="not today"):
        run.fit()


@pytest.mark.parametrize(
    ("loss", "target", "outputs"),
    [
        (F.cross_entropy, Y, 3),
        (F.cross_entropy, Y.to(torch.uint8), 3),
        (F.cross_entropy, F.one_hot(Y, 3).float(), 3),
        (F.cross_entropy, Y % 1, 2),
        (F.mse_loss, X[:, :1], 1),
        (F.mse_loss, Y[:, None], 1),
        (F.binary_cross_entropy_with_logits, (Y > 0).float()[:, None], 1),
    ],
)
def test_what_is_right_trains(loss: Callable[..., Any], target: Any, outputs: int) -> None:
    run = trainer(loss, target, outputs)
    run.fit()
    assert run.step == 3
