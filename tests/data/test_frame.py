"""Frames of pandas, where it is installed; and one that looks like them where it is not."""

from typing import Any

import numpy as np
import pytest
import torch

from instep.data.sources.frame import columns_of, layout_of
from instep.data.sources.recognize import Reading, as_source
from instep.errors import DescriptionError


class Column:
    """What is asked of a pandas Series."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        self.dtype = self.values.dtype
        self.hasnans = self.dtype.kind == "f" and bool(np.isnan(self.values).any())

    def to_numpy(self, **options: Any) -> Any:
        return self.values


class Frame:
    """What is asked of a pandas DataFrame."""

    def __init__(self, **columns: Any) -> None:
        self._columns = {name: Column(values) for name, values in columns.items()}
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]


def pair(frame: Any, target: Any) -> Any:
    return columns_of(frame, layout_of(frame, target, "train"), "train")


def test_features_in_one_matrix_and_the_target_beside_it() -> None:
    frame = Frame(age=[1, 2, 3], label=[0, 1, 0], size=[0.5, 1.5, 2.5], good=[True, False, True])
    x, y = pair(frame, "label")
    assert (x.dtype, x.tolist()) == (torch.float32, [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1]])
    assert (y.dtype, y.tolist()) == (torch.int64, [0, 1, 0])
    x, y = pair(frame, "size")
    assert (x.shape, y.dtype) == ((3, 3), torch.float32)
    x, y = pair(frame, ["size", "age"])
    assert y.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]  # in the order in which they are named


@pytest.mark.parametrize(
    ("frame", "target", "words"),
    [
        (
            Frame(a=[1], b=[2]),
            None,
            r"train is a frame; say with data\.source\(frame, target=…\) which column is to be predicted: a, b",
        ),
        (Frame(a=[1], b=[2]), "c", "target='c' is no column of train; it has a, b"),
        (Frame(a=[1]), "a", "train has no column besides the target"),
        (Frame(a=["x"], b=[1]), "b", r"column 'a' of train holds <U1, no numbers; encode it \(pandas\.get_dummies\) or drop it"),
        (
            Frame(a=["x"], b=[1], c=["long"], d=[2]),
            "b",
            r"columns of train hold no numbers: 'a' \(<U1\), 'c' \(<U4\); encode them \(pandas\.get_dummies\) or drop them",
        ),
        (Frame(a=[1], b=["x"]), "b", "target 'b' of train holds <U1, no numbers; for classes make it categorical"),
        (Frame(a=[1, np.nan], b=[1, 2]), "b", r"column 'a' of train has no value in row 1; fill it \(frame\.fillna\)"),
        (
            Frame(a=[1, np.nan], b=[1, 2], c=[np.nan, np.nan]),
            "b",
            r"columns of train have no value in some rows: 'a' \(first in row 1\), 'c' \(first in row 0\); fill them",
        ),
        (Frame(a=[1, 2], b=[np.nan, 2]), "b", "column 'b' of train has no value in row 0"),
    ],
)
def test_frames_that_cannot_be_used(frame: Any, target: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        pair(frame, target)


def test_pandas_itself() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "age": pandas.array([1, 2, 3], dtype="Int64"),
            "size": [0.5, 1.5, 2.5],
            "kind": pandas.Categorical(["b", "a", "b"], categories=["a", "b", "c"]),
        }
    )
    source = as_source(frame, "train", Reading(target="kind"))
    x, y = source.fetch(torch.tensor([2, 1]), None)  # type: ignore[arg-type]
    assert (x.tolist(), y.tolist()) == ([[3, 2.5], [2, 1.5]], [1, 0])
    frame["age"] = pandas.array([1, None, 3], dtype="Int64")
    with pytest.raises(DescriptionError, match=r"column 'age' of train has no value in frame\.iloc\[1\]"):
        as_source(frame, "train", Reading(target="kind"))
    frame = pandas.DataFrame({"a": ["x", "y"], "b": [1, 2]})
    for target, words in (("b", "column 'a' of train holds"), ("a", "target 'a' of train holds")):
        with pytest.raises(DescriptionError, match=words):
            as_source(frame, "train", Reading(target=target))
    with pytest.raises(DescriptionError, match=r"target 'kind' of train has no value in frame\.iloc\[1\]; fill or drop it"):
        as_source(pandas.DataFrame({"x": [1, 2], "kind": pandas.Categorical(["a", None])}), "train", Reading(target="kind"))
    with pytest.raises(DescriptionError, match=r"train is a frame; say with data\.source\(frame, target="):
        as_source(frame, "train")
