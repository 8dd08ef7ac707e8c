"""Data sets of Hugging Face: one that looks like theirs, and theirs where they are installed."""

import random
from typing import Any

import pytest
import torch

from feeds import assert_same, loader, read
from instep.data import pad
from instep.data.position import Position
from instep.data.sources.recognize import Reading, as_data, as_source
from instep.data.sources.stream import Stream
from instep.errors import DescriptionError

AT = Position(0, 0, 0)
QUIETLY = pytest.mark.filterwarnings("ignore")  # how their own dependencies get on with each other


class Fake:
    """Python's lists as they are, tensors where they are asked for; all samples of a batch at once."""

    def __init__(self, kind: str | None = None) -> None:
        self.column_names = ["ids", "label"]
        self.format = {"type": kind}
        self.calls: list[int] = []

    def with_format(self, kind: str) -> "Fake":
        return Fake(kind)

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = [index, index + 1]
        return {"ids": torch.tensor(ids) if self.format["type"] == "torch" else ids, "label": index % 2}

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        self.calls.append(len(indices))
        return [self[index] for index in indices]


def test_tensors_are_asked_for_and_all_samples_at_once() -> None:
    source: Any = as_source(Fake(), "train")
    assert source.fetch(torch.tensor([4, 2]), AT)["ids"].tolist() == [[4, 5], [2, 3]]
    source.dataset.calls.clear()
    batch = read(loader(source), range(1))[0].data
    assert batch["label"].dtype == torch.int64
    assert source.dataset.calls == [4, 2]


def test_a_transform_of_its_own_is_called_sample_by_sample() -> None:
    source: Any = as_source(Fake("custom"), "train")
    read(loader(source), range(1))
    assert source.dataset.calls == []


def their_own(datasets: Any, columns: dict[str, Any]) -> Any:
    """Given its fingerprint: to find one, they pickle more than every version of pyarrow lets them."""
    return datasets.Dataset(datasets.table.InMemoryTable.from_pydict(columns), fingerprint="0")


@pytest.mark.extras
@QUIETLY
def test_theirs() -> None:
    datasets = pytest.importorskip("datasets")
    table = {"text": ["a", "bb", "ccc", "dddd"], "ids": [[1], [1, 2], [1, 2, 3], [4]], "label": [0, 1, 0, 1]}
    made = their_own(datasets, table)
    fit = as_source(made.remove_columns("ids"), "train", Reading(target="label"))
    text, label = fit.fetch(torch.tensor([3, 0]), AT)
    assert (text, label.tolist()) == (["dddd", "a"], [1, 0])
    padded = as_source(made, "train", Reading(collate=pad({"ids": 0}))).fetch(torch.tensor([2, 0]), AT)
    assert (padded["ids"].tolist(), padded["mask"].tolist()) == ([[1, 2, 3], [1, 0, 0]], [[True] * 3, [True, False, False]])
    with pytest.raises(DescriptionError, match=r"train holds the splits train, test; pass one of them: data\['train'\]"):
        as_source(datasets.DatasetDict({"train": made, "test": made}), "train")

    def draw(batch: Any) -> Any:
        return {"x": [random.random() for _ in batch["label"]], "label": batch["label"]}

    noisy = as_source(made.with_transform(draw), "train")
    assert_same(read(loader(noisy, workers=2)), read(loader(noisy)))


@pytest.mark.extras
@QUIETLY
def test_their_iterable_goes_on_where_it_was() -> None:
    datasets = pytest.importorskip("datasets")
    made = their_own(datasets, {"x": list(range(10))}).to_iterable_dataset()
    stream = as_data(made, "train")
    assert isinstance(stream, Stream)
    whole = loader(stream, batch_size=3, steps_per_epoch=2, epochs=4)
    seen, states = [], []
    for epoch in range(4):
        for batch in whole.batches(epoch):
            seen.append(batch)
            states.append(whole.state)
    assert [sample for batch in seen for sample in batch.data["x"].tolist()][:15] == [*range(10), *range(5)]
    rest = loader(as_data(made, "train"), batch_size=3, steps_per_epoch=2, epochs=4)
    rest.resume(states[2])
    assert_same([*rest.batches(1, 1), *rest.batches(2), *rest.batches(3)], seen[3:])
