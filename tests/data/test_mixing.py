"""mixup and cutmix: what they mix, that the targets say how much, and that runs with them keep the promises."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from instep import Trainer, data, keys
from instep.errors import DataError, DescriptionError

IMAGES = torch.randn(30, 2, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(30) % 3


def make(transform: Any, **options: Any) -> Trainer:
    keys.seed_all(keys.for_build(1))
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 3))
    given: dict[str, Any] = {
        "loss": nn.CrossEntropyLoss(label_smoothing=0.1),
        "train": data.source((IMAGES, LABELS), batch_transform=transform),
        "epochs": 2,
        "batch_size": 8,
        "progress": False,
    }
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), **(given | options))


def weights(trainer: Trainer) -> Tensor:
    trainer.fit()
    found: Tensor = trainer.model[1].weight.detach()
    return found


def test_mixup_mixes_inputs_and_targets_by_one_share() -> None:
    x = torch.eye(4).reshape(4, 4, 1)
    for seed in range(5):
        np.random.seed(seed)
        mixed, shares = data.mixup(1.0, classes=4)((x, torch.arange(4)))
        assert torch.allclose(mixed[:, :, 0], shares)  # each sample is its class, so the two are the same
        assert torch.allclose(shares.sum(1), torch.ones(4))
        kept = float(shares[0, 0])
        assert shares[0].tolist() == pytest.approx([kept, 0, 0, 1 - kept])  # its neighbour in the batch, in a ring


def test_cutmix_pastes_a_box_and_counts_its_area() -> None:
    x = torch.arange(3.0)[:, None, None, None].expand(3, 2, 10, 10)
    areas = set()
    for seed in range(8):
        np.random.seed(seed)
        mixed, shares = data.cutmix(classes=3)((x, torch.arange(3)))
        strange = mixed[0] != 0
        assert torch.equal(strange[0], strange[1])
        rows, columns = strange[0].any(1), strange[0].any(0)
        assert int(strange[0].sum()) == int(rows.sum()) * int(columns.sum())  # a box
        assert float(shares[0, 0]) == pytest.approx(1 - float(strange[0].float().mean()), abs=1e-6)
        areas.add(int(strange[0].sum()))
    assert len(areas) > 3
    assert torch.equal(x[0], torch.zeros(2, 10, 10))  # the batch itself is left alone


def test_numbers_shares_mappings_and_some_of_the_batches() -> None:
    np.random.seed(0)
    x, y = torch.arange(4.0)[:, None], torch.arange(4.0)[:, None] * 2
    mixed, numbers = data.mixup(1.0)((x, y))
    assert torch.allclose(numbers, 2 * mixed)
    batch = {"pixels": IMAGES, "labels": LABELS, "id": [*range(30)]}
    found = data.mixup(classes=3, input="pixels", target="labels")(batch)
    assert list(found) == ["pixels", "labels", "id"]
    assert found["labels"].shape == (30, 3)
    sometimes = data.mixup(1.0, classes=3, share=0.5)
    left = [torch.equal(sometimes((IMAGES, LABELS))[0], IMAGES) for _ in range(40)]
    assert 8 < sum(left) < 32
    assert all(sometimes((IMAGES, LABELS))[1].shape == (30, 3) for _ in range(9))
    segments = data.cutmix(classes=3)((IMAGES, torch.zeros(30, 8, 8, dtype=torch.int64)))[1]
    assert segments.shape == (30, 3, 8, 8)


@pytest.mark.parametrize("transform", [data.mixup(classes=3), data.cutmix(classes=3, share=0.7)], ids=["mixup", "cutmix"])
def test_a_run_keeps_its_promises(transform: Any, tmp_path: Path) -> None:
    whole = weights(make(transform))
    assert torch.equal(whole, weights(make(transform)))
    assert not torch.equal(whole, weights(make(None)))
    assert torch.allclose(whole, weights(make(transform, update_cycle=4)), atol=1e-6)  # soft targets: the mean over samples
    for update in make(transform, folder=tmp_path / "run").updates():
        if update.step == 5:
            break
    assert torch.equal(whole, weights(make(transform, folder=tmp_path / "run", num_workers=1)))
    with pytest.raises(DescriptionError, match="batch_transform"):
        make(data.mixup(0.9, classes=3), folder=tmp_path / "run").fit()


def test_metrics_take_the_larger_share_and_validation_data_is_not_mixed() -> None:
    trainer = make(data.mixup(classes=3), valid=(IMAGES, LABELS), metrics="accuracy", epochs=30)
    last = trainer.fit().last
    assert last is not None
    plain = trainer.evaluate((IMAGES, LABELS))
    assert last["valid/accuracy"] == plain["data/accuracy"] == 1.0
    mixed = data.source((IMAGES, LABELS), batch_transform=data.mixup(0.2, classes=3))
    assert trainer.evaluate(mixed)["data/accuracy"] > 0.8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: data.mixup()((IMAGES, LABELS)), r"mixup\(\) gets class numbers as targets; say how many classes there are"),
        (
            lambda: data.cutmix(classes=2)((IMAGES, LABELS)),
            r"cutmix\(classes=2\) gets targets from 0 to 2; class numbers are 0 to 1",
        ),
        (lambda: data.mixup(classes=3)((IMAGES, LABELS - 100)), r"a target that a loss ignores cannot be mixed"),
        (lambda: data.mixup(classes=3)((LABELS, LABELS)), r"mixup\(\) mixes numbers, and the input is torch.int64"),
        (lambda: data.cutmix(classes=3)((IMAGES[:, 0, 0], LABELS)), r"pastes boxes into images .* and the input has \(30, 8\)"),
        (
            lambda: data.mixup(classes=3)({"a": IMAGES}),
            r"mixes the entries 0 and 1 of a batch, and 0 is no tensor in it; it has 'a'",
        ),
    ],
)
def test_batches_that_it_cannot_mix(call: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0}, r"mixup\(alpha=0\) must be above 0"),
        ({"classes": 1}, r"mixup\(classes=1\) must be a whole number, 2 or more"),
        ({"share": 0.0}, r"mixup\(share=0.0\) must be above 0 and at most 1"),
    ],
)
def test_what_cannot_be_meant(options: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        data.mixup(**options)
