"""Small words that somebody reads twice where they are wrong."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from instep import Trainer, data
from instep.errors import DescriptionError, ObjectiveError

X, Y = torch.randn(40, 3), torch.randint(2, (40,))


def make(**changes: Any) -> Trainer:
    model = nn.Linear(3, 2)
    given: dict[str, Any] = {"loss": F.cross_entropy, "train": (X, Y), "epochs": 1, "progress": False}
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **(given | changes))


def test_a_transform_that_is_not_applied_is_in_the_plan() -> None:
    def halve(sample: Any) -> Any:
        return sample[0] / 2, sample[1]

    train = data.source((X, Y), transform=halve)
    assert "10 samples, without the transform of train" in repr(make(train=train, valid=0.25))
    own = data.source(0.25, transform=halve)
    assert "without the transform" not in repr(make(train=train, valid=own))
    assert "without the transform" not in repr(make(valid=0.25))


def test_one_sample_is_told_how_to_be_a_batch() -> None:
    with pytest.raises(ObjectiveError, match=r"This has the shape of one sample; as a batch of one it is x\[None\]\."):
        make().predict(X[0])
    with pytest.raises(ObjectiveError) as caught:
        make().predict(X[:, :2])
    assert "x[None]" not in str(caught.value)
    for rows, words in (
        ((X[0], X[1]), r"Each entry has the shape of one sample; as a batch they are torch\.stack\(data\)\."),
        (X[:2].tolist(), r"A list is read as a sample of several entries; as rows of numbers they are torch\.tensor\(data\)\."),
    ):
        with pytest.raises(ObjectiveError, match=words):
            make().predict(rows)


def test_the_training_data_has_no_name_in_an_evaluation() -> None:
    with pytest.raises(DescriptionError, match=r"evaluate\('train'\) is not known; pass the training data itself, like \(x, y\)"):
        make().evaluate("train")


def test_a_device_that_is_not_there_ends_its_sentence() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(DescriptionError, match=r"device='cuda' cannot be used: .*[^.]\. Use \"auto\" or \"cpu\"\.$"):
            make(device="cuda")


def test_several_losses_have_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2)})

    def loss_of(name: str) -> Any:
        return lambda models, batch: F.cross_entropy(models[name](batch[0]), batch[1])

    Trainer(
        model,
        objective={"a": loss_of("a"), "b": loss_of("b")},
        optimizer={name: torch.optim.SGD(model[name].parameters(), lr=0.1) for name in ("a", "b")},
        train=(X, Y),
        epochs=1,
        progress=True,
    ).fit()
    last = capsys.readouterr().err.splitlines()[-1]
    assert "loss/a " in last
    assert "loss/b " in last
