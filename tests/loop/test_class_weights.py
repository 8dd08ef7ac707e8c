"""class_weights=: the weights that "balanced" stands for, where they go, and that splits and processes stay exact with them."""

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from instep import Trainer, data, keys
from instep.errors import DescriptionError, ObjectiveError

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(40, 5, generator=GENERATOR)
Y = torch.tensor([0] * 24 + [1] * 12 + [2] * 4)
BALANCED = torch.tensor([40 / (3 * 24), 40 / (3 * 12), 40 / (3 * 4)])


def make(outputs: int = 3, **options: Any) -> Trainer:
    keys.seed_all(keys.for_build(1))
    model = nn.Linear(5, outputs)
    given: dict[str, Any] = {"loss": F.cross_entropy, "train": (X, Y), "epochs": 2, "batch_size": 16, "progress": False}
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), **(given | options))


def weights_after(**options: Any) -> Tensor:
    trainer = make(**options)
    trainer.fit()
    weight: Tensor = trainer.model.weight.detach()
    return weight


def test_balanced_is_the_weight_of_torchs_loss() -> None:
    by_hand = weights_after(loss=nn.CrossEntropyLoss(weight=BALANCED))
    assert torch.equal(weights_after(class_weights="balanced"), by_hand)
    assert torch.equal(weights_after(class_weights=BALANCED.tolist()), by_hand)
    assert torch.equal(
        weights_after(class_weights={0: float(BALANCED[0]), 1: float(BALANCED[1]), 2: float(BALANCED[2])}), by_hand
    )
    assert not torch.equal(weights_after(), by_hand)


@pytest.mark.parametrize(
    ("plain", "weighted"),
    [
        (nn.CrossEntropyLoss(label_smoothing=0.1), nn.CrossEntropyLoss(label_smoothing=0.1, weight=BALANCED)),
        (functools.partial(F.cross_entropy, label_smoothing=0.1), nn.CrossEntropyLoss(label_smoothing=0.1, weight=BALANCED)),
        (nn.CrossEntropyLoss(reduction="sum"), nn.CrossEntropyLoss(reduction="sum", weight=BALANCED)),
    ],
)
def test_the_options_of_the_loss_stay(plain: Any, weighted: Any) -> None:
    assert torch.equal(weights_after(loss=plain, class_weights="balanced", epochs=1), weights_after(loss=weighted, epochs=1))
    assert getattr(plain, "weight", None) is None  # the user's own stays as it was


def test_a_split_batch_is_exact_with_weights_and_smoothing() -> None:
    """Torch divides by Σ w[y], with label smoothing too: pieces of one class and of another do not weigh alike."""
    loss = nn.CrossEntropyLoss(label_smoothing=0.2)
    whole, split = (weights_after(loss=loss, class_weights="balanced", update_cycle=cycle) for cycle in (1, 7))
    assert torch.allclose(whole, split, atol=1e-6)


def test_the_classes_of_what_is_trained_on_count() -> None:
    """Not those that a share for validation takes away."""
    trainer = make(valid=0.5, class_weights="balanced")
    labels = torch.cat([batch.data[1] for batch in trainer.run.loader.batches(0)])
    counts = labels.bincount(minlength=3)
    weight = trainer.run.options.loss.keywords["weight"]  # type: ignore[union-attr]
    assert torch.allclose(weight, len(labels) / (3 * counts.float()))


def test_logits_get_the_weight_of_the_ones() -> None:
    y = (torch.arange(40) % 4 == 0).float()[:, None]
    by_hand = weights_after(outputs=1, train=(X, y), loss=nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0])))
    for given in ("balanced", [1.0, 3.0], {1: 3.0}):
        for loss in (F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss()):
            assert torch.equal(weights_after(outputs=1, train=(X, y), loss=loss, class_weights=given), by_hand)


def test_a_run_with_weights_is_resumed_as_it_was(tmp_path: Path) -> None:
    trainer = make(class_weights="balanced", folder=tmp_path / "run")
    for update in trainer.updates():
        if update.step == 3:
            break
    assert torch.equal(weights_after(class_weights="balanced", folder=tmp_path / "run"), weights_after(class_weights="balanced"))
    with pytest.raises(DescriptionError, match=r"class_weights: balanced -> nothing"):
        make(folder=tmp_path / "run").fit()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"class_weights": "even"}, r"class_weights='even' is not known; use \"balanced\", one weight a class"),
        ({"class_weights": [1.0, -1.0]}, r"class_weights=\[1.0, -1.0\] must be finite numbers, one a class, none below 0"),
        ({"class_weights": ["a"]}, r"class_weights=\['a'\] holds no numbers"),
        ({"class_weights": {"a": 1.0}}, r"class_weights= has the classes 'a'; they are numbers from 0 on"),
        ({"loss": F.mse_loss, "class_weights": "balanced"}, r"class_weights= does not go with loss=mse_loss; use cross_entropy"),
        (
            {"loss": None, "objective": lambda model, batch: model(batch[0]).sum(), "class_weights": "balanced"},
            r"class_weights= does not go with an objective of your own; use cross_entropy",
        ),
        (
            {"loss": nn.CrossEntropyLoss(weight=torch.ones(3)), "class_weights": "balanced"},
            r"class_weights= is given, and the loss has a weight of its own; leave one out",
        ),
        (
            {"train": [(x, int(y)) for x, y in zip(X, Y, strict=True)], "class_weights": "balanced"},
            r'class_weights="balanced" cannot find the labels of train without loading it; pass the weights themselves',
        ),
        ({"train": (X, Y * 2), "class_weights": "balanced"}, r'"balanced" finds no sample of class 1 in the training data'),
        (
            {"train": data.source((X, Y), sampler="balanced"), "class_weights": "balanced"},
            r'class_weights="balanced" and a balanced sampler are both given',
        ),
        (
            {"loss": F.binary_cross_entropy_with_logits, "class_weights": "balanced"},
            r'class_weights="balanced" finds no column of zeros and ones in train',
        ),
        (
            {"loss": F.binary_cross_entropy_with_logits, "class_weights": [1.0]},
            r"class_weights=\[1.0\]: a loss of logits has two classes, 0 and 1; give each a weight",
        ),
    ],
)
def test_what_cannot_be_meant(options: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        make(**options)


def test_a_model_with_more_outputs_than_there_are_classes() -> None:
    with pytest.raises(ObjectiveError, match=r"cross_entropy has weights for 3 classes, and the model has 5 outputs; give each"):
        make(outputs=5, class_weights="balanced").fit()
    make(outputs=5, class_weights=[1.0] * 5).fit()


def test_sampler_balanced_is_class_balanced() -> None:
    word, function = (
        make(train=data.source((X, Y), sampler=sampler)).run.loader for sampler in ("balanced", data.class_balanced())
    )
    for one, other in zip(word.batches(1), function.batches(1), strict=True):
        assert torch.equal(one.indices, other.indices)
    drawn = torch.cat([batch.data[1] for batch in word.batches(0)]).bincount()
    assert int(drawn.max() - drawn.min()) <= 1
    held = make(train=data.source((X, Y), sampler="balanced"), valid=0.25).run.loader
    drawn = torch.cat([batch.data[1] for batch in held.batches(0)]).bincount()
    assert int(drawn.max() - drawn.min()) <= 1


def test_the_plan_says_it() -> None:
    assert "weighted so that each counts as much in the loss as every other" in str(make(class_weights="balanced"))
    assert "weighted in the loss: 0: 1, 1: 2, 2: 4" in str(make(class_weights=[1, 2, 4]))
