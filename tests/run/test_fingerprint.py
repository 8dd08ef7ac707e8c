"""The fingerprint of data: what is in memory counts to the last value, what has to be read at 64 places."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from instep.data.sources.recognize import as_source
from instep.data.sources.view import held_out
from instep.run.fingerprint import WORDS, fingerprint, hash_tensor

X, Y = torch.arange(600.0).reshape(150, 4), torch.arange(150) % 3


def changed(tensor: Tensor, at: int = 77) -> Tensor:
    other = tensor.clone()
    other.view(-1)[at] += 1
    return other


def print_of(made: Any) -> dict[str, Any]:
    return fingerprint(as_source(made, "train"))


@pytest.mark.parametrize(
    "make",
    [
        lambda y: (X, y),
        lambda y: {"x": X, "y": y},
        lambda y: (X.numpy(), y.numpy()),
        lambda y: TensorDataset(X, y),
        lambda y: Subset(TensorDataset(X, y), range(150)),
        lambda y: ConcatDataset([TensorDataset(X[:80], y[:80]), TensorDataset(X[80:], y[80:])]),
        lambda y: list(zip(X, y.tolist(), strict=True)),
        lambda y: [{"text": f"a text {label}", "y": label} for label in y.tolist()],
    ],
    ids=["pair", "mapping", "arrays", "data set", "subset", "chain", "list", "list of mappings"],
)
def test_one_value_of_all_counts(make: Any) -> None:
    one, same, other = (print_of(make(y)) for y in (Y, Y.clone(), changed(Y)))
    assert one == same
    assert one["read"] == "all"
    assert one["content"] != other["content"]


def test_other_places_of_the_same_data_are_other_data() -> None:
    source = as_source((X, Y), "train")
    (train, valid), (other, _) = held_out(source, 0.1, seed=0), held_out(source, 0.1, seed=1)
    prints = [fingerprint(one) for one in (train, valid, other)]
    assert prints[0]["content"]["columns"] == prints[1]["content"]["columns"]
    assert prints[0]["content"]["picks"] != prints[2]["content"]["picks"]
    assert fingerprint(held_out(source, 0.1, seed=0)[0]) == prints[0]


def objects() -> Any:
    return np.array([object() for _ in range(len(X))], dtype=object)


class Loaded(Dataset[Any]):
    def __init__(self, y: Tensor) -> None:
        self.y = y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index], self.y[index]


def test_what_has_to_be_loaded_is_read_at_some_places(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for made in (Loaded(Y), (tmp_path / "x.npy", Y), (mapped, Y), (X, objects())):
        found = print_of(made)
        assert found["read"] == "64 places"
        assert "content" not in found


def test_samples_without_a_fixed_text_are_told_alike() -> None:
    """An address in a repr is another one in every process."""
    assert print_of((X, objects())) == print_of((X, objects()))


def test_a_transform_leaves_the_content() -> None:
    source = as_source((X, Y), "train")
    one, other = fingerprint(source), fingerprint(source.transformed(lambda sample: (sample[0] * 2, sample[1])))
    assert one["content"] == other["content"]
    assert one["hash"] != other["hash"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("size", [1, 7, WORDS * 3, WORDS * 17 + 5])
def test_every_place_counts(dtype: torch.dtype, size: int) -> None:
    tensor = torch.arange(size).remainder(5).to(dtype)
    assert hash_tensor(tensor) == hash_tensor(tensor.clone())
    for at in {0, size // 2, size - 1}:
        other = tensor.clone()
        other[at] = not other[at] if dtype is torch.bool else other[at] + 1
        assert hash_tensor(other) != hash_tensor(tensor)


def test_signs_that_change_in_pairs_and_values_that_trade_places_count() -> None:
    """2^63 times two odd weights is 0 mod 2^64: without mixing, two other signs would go unseen."""
    ones = torch.ones(WORDS * 2, dtype=torch.float64)
    signs, swapped = ones.clone(), ones.clone()
    signs[[3, 700]] *= -1
    swapped[[3, 701]] *= -1
    assert len({hash_tensor(one) for one in (ones, signs, swapped, -ones)}) == 4
    blocks = torch.arange(WORDS * 4)
    assert hash_tensor(blocks) != hash_tensor(blocks.view(4, WORDS).flip(0).reshape(-1))


def test_how_a_tensor_lies_in_memory_does_not_count() -> None:
    wide = torch.arange(WORDS * 6).reshape(-1, 6)
    assert hash_tensor(wide[:, 1:3]) == hash_tensor(wide[:, 1:3].contiguous())
    shifted = torch.arange(WORDS * 4 + 1, dtype=torch.float32)[1:]  # begins inside a word
    assert hash_tensor(shifted) == hash_tensor(shifted.clone())
    assert hash_tensor(torch.empty(0, 3)) != hash_tensor(torch.empty(0, 4))
