"""What a page shows of samples."""

import base64
from typing import Any

import pytest
import torch
from torch import Tensor

from instep.data.preview.summary import ColumnSummary, Preview, SetSummary
from instep.data.sources.data_names import DataNames
from instep.records import Evaluation, SampleLoss
from instep.report.page.samples import samples_of
from instep.report.png import SIGNATURE


class FakeRun:
    """A run that was looked at."""

    def __init__(self, *worst: SampleLoss, preview: Preview | None = None) -> None:
        self._worst, self._preview = list(worst), preview or Preview(())
        self.valid_loaders = {"valid": None} if worst else {}

    def look(self) -> Preview:
        return self._preview

    def evaluate(self, data: Any = None, weights: Any = None, *, report: bool = False) -> Evaluation:
        return Evaluation({}, tables={"valid/confusion_matrix": [[1, 0], [2, 3]]} if report else {})

    def largest_losses(self, count: int, most: int, weights: Any = None) -> list[SampleLoss]:
        return self._worst[:count]


def sample(data: Any, output: Any = None, target: Any = None, loss: float = 0.5) -> SampleLoss:
    return SampleLoss("valid", 1234, loss, data, output, target)


def shown(one: SampleLoss) -> dict[str, Any]:
    found: dict[str, Any] = samples_of(FakeRun(one), "model")["samples"][0]
    return found


@pytest.mark.parametrize("image", [torch.rand(1, 3, 16, 16), torch.rand(1, 28, 28), torch.randn(1, 1, 400, 300)])
def test_an_image_is_a_picture_of_its_own(image: Tensor) -> None:
    found = shown(sample((image, torch.tensor([3])), torch.tensor([[0.1, 0.9, 0.0, 0.0]]), torch.tensor([3])))
    kind, _, content = found["png"].partition(",")
    raw = base64.b64decode(content)
    assert kind == "data:image/png;base64"
    assert raw.startswith(SIGNATURE)
    assert max(int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24])) <= 160
    assert found["said"] == ["is 3, taken for 1"]
    assert found["name"] == "sample 1,234 of valid"


def test_a_text_is_shown_as_it_is() -> None:
    assert shown(sample((["a <b>film</b> " * 100], torch.tensor([1]))))["text"].startswith("a <b>film</b> a")
    assert len(shown(sample((["word " * 500], torch.tensor([1]))))["text"]) <= 300


def test_of_numbers_the_first_are_shown() -> None:
    x = torch.arange(8.0).view(1, 8)
    found = shown(sample((x, torch.tensor([[2.0]])), torch.tensor([[2.5]]), torch.tensor([[2.0]])))
    assert found["text"] == "0.000, 1.000, 2.000, 3.000, 4.000, 5.000, …"
    assert found["said"] == ["is 2.000", "gave 2.500"]


def test_columns_and_classes_have_their_names() -> None:
    x, names = torch.tensor([[0.5, 1.0]]), DataNames(("age", "size"), "kind", ("new", "used"))
    column = ColumnSummary("[0]", "float32", (2,), features=names.features)
    target = ColumnSummary("[1]", "int64", (), called="kind")
    preview = Preview((SetSummary("train", 4, 4, (column, target), {0: 3, 1: 1}, names=names),))
    worst = sample((x, torch.tensor([1])), torch.tensor([[0.9, 0.1]]), torch.tensor([1]))
    found = samples_of(FakeRun(worst, preview=preview), "model")
    assert (found["samples"][0]["text"], found["samples"][0]["said"]) == ("age 0.5000, size 1.000", ["is used, taken for new"])
    (only,) = found["preview"]["sets"]
    assert [row[0] for row in only["columns"]] == ["[0]", "[1] kind"]
    assert (only["features"], [row[0] for row in only["classes"]]) == (["[0] is age, size"], ["new", "used"])


def test_what_the_objective_does_not_tell_is_left_out() -> None:
    assert shown(sample({"x": torch.ones(1, 2)}))["said"] == []


def test_a_loss_that_is_not_finite_is_a_word() -> None:
    assert shown(sample(torch.ones(1, 2), loss=float("nan")))["loss"] == "nan"


def test_matrices_come_with_the_samples_and_the_data_without() -> None:
    assert samples_of(FakeRun(sample(torch.ones(1, 2))), "model")["tables"] == {"valid/confusion_matrix": [[1, 0], [2, 3]]}
    column = ColumnSummary("[0]", "float32", (3, None), 0.0, 1.0, 0.5, 0.25)
    words = ColumnSummary("[1]", "text", (), words=("one", "two"))
    preview = Preview((SetSummary("train", None, 8, (column, words), {0: 3, 1: 1}),), warnings=("not normalised",))
    found = samples_of(FakeRun(preview=preview), "model")
    assert found.keys() == {"preview"}
    (only,) = found["preview"]["sets"]
    assert only["said"] == "an unknown number of samples, 8 of them looked at, as the model gets them"
    assert only["columns"] == [
        ["[0]", "float32", "3 × ?", "0", "1", "0.5", "0.25"],
        ["[1]", "text", "one a sample", "one | two", "", "", ""],
    ]
    assert only["classes"] == [["0", "3", "75.0%"], ["1", "1", "25.0%"]]
    assert found["preview"]["warnings"] == ["not normalised"]
