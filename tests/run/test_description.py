"""What is told of a setting: two that train differently must be told apart."""

import functools
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import tiny
from instep import OneCycle
from instep.data.sources.recognize import as_source
from instep.report.classification import class_names
from instep.run.fingerprint import fingerprint
from instep.run.setting import as_setting


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0])), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0]))),
        (functools.partial(F.huber_loss, delta=1.0), functools.partial(F.huber_loss, delta=2.0)),
        (functools.partial(max, 1.0), functools.partial(max, 5.0)),
        (np.float32(1), np.float32(0.5)),
        (lambda position: 0.1, lambda position: 5.0),
        (lambda x: x.mean(), lambda x: x.sum()),
        (OneCycle(max_lr=0.1), OneCycle(max_lr=0.2)),
        ({"a": 1}, {"a": 2}),
        (math.inf, 1.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_are_told_apart(one: Any, other: Any) -> None:
    assert as_setting(one) != as_setting(other)
    assert as_setting(one) == as_setting(one)
    json.dumps(as_setting(one), allow_nan=False)


def test_sets_are_told_in_one_order() -> None:
    assert as_setting({"b", "a"}) == ["a", "b"]


def test_functions_of_torch_are_told_by_their_names() -> None:
    assert as_setting(F.cross_entropy) == "cross_entropy"


def test_data_is_told_apart_by_length_structure_and_content() -> None:
    x = torch.arange(100.0)
    prints = [fingerprint(as_source(data, "train")) for data in (x, x[:99], x.long(), (x, x), x + 1)]
    assert len({json.dumps(found) for found in prints}) == 5
    assert prints[0]["samples"] == 100


class Animals(TensorDataset):
    """As torchvision's: the names of its classes are an attribute."""

    classes = ("cat", "dog")

    def __getitem__(self, index: int) -> Any:
        return tuple(tensor[index] for tensor in self.tensors)


def test_the_names_of_classes_are_kept() -> None:
    train = tiny.make(train=Animals(tiny.X, tiny.Y), valid=0.2).run.describe()["data"]
    assert train["train"]["classes"] == train["valid"]["classes"] == {"target": ["cat", "dog"]}
    assert class_names({"data": train}) == ("cat", "dog")
    assert "classes" not in tiny.make(train=(tiny.X, tiny.Y)).run.describe()["data"]["train"]
