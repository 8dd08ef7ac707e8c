"""Two runs side by side in Python: keys, shapes, damage, and a run that goes further."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instep import Trainer
from instep.proof.diverge import find_divergence
from tiny import X, Y, make, net


class Samples:
    """In the same order whatever the seed is."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(X, Y, strict=True)

    def __len__(self) -> int:
        return len(X)


def dropping(**options: Any) -> Trainer:
    return make(nn.Sequential(net(), nn.Dropout(0.5)), train=Samples(), **options)


def test_a_key_that_differs_is_named(tmp_path: Path) -> None:
    for seed in (0, 1):
        dropping(seed=seed, folder=tmp_path / str(seed)).fit()
    found = find_divergence(tmp_path / "0", tmp_path / "1", lambda path: dropping(seed=int(path.name)))
    assert found.step == 0
    assert "the key of the step differs: " in found.text()
    assert "of seed=0 and 1" in found.text()


def test_weights_that_differ_before_the_first_update_are_named(tmp_path: Path) -> None:
    for seed in (0, 1):
        make(net(seed), folder=tmp_path / str(seed)).fit()
    found = find_divergence(tmp_path / "0", tmp_path / "1", lambda path: make(net(int(path.name))))
    assert "in the update of step 0, weight 0.weight differs before it: by " in found.text(width=200)


def test_a_run_that_goes_further_is_the_same_as_far_as_both_go(tmp_path: Path) -> None:
    for epochs in (2, 3):
        make(epochs=epochs, folder=tmp_path / str(epochs), checkpoint_every=4).fit()
    found = find_divergence(tmp_path / "2", tmp_path / "3", lambda path: pytest.fail(f"{path} is built"))
    assert found.is_none
    assert found.text().splitlines()[1] == "steps        8 and 12"


def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path) -> None:
    for name in "ab":
        make(folder=tmp_path / name, checkpoint_every=4).fit()
    (tmp_path / "b" / "checkpoints" / "step-00000008" / "MANIFEST.json").write_text("{}")
    found = find_divergence(tmp_path / "a", tmp_path / "b", lambda path: pytest.fail(f"{path} is built"))
    assert found.checkpoints.same_at == 12
    assert "step-00000008 is damaged" in str(found.checkpoints)


def test_a_sample_that_is_nan_in_one_of_them_is_named(tmp_path: Path) -> None:
    x = X.clone()
    x[30, 0] = torch.nan
    for name, data in (("a", X), ("b", x)):
        trainer = make(train=(data, Y), folder=tmp_path / name, on_nonfinite="skip", log_every=1)
        trainer.fit()
    found = find_divergence(
        tmp_path / "a",
        tmp_path / "b",
        lambda path: make(train=(X if path.name == "a" else x, Y), on_nonfinite="skip", log_every=1),
    )
    assert "of the batch has other values, by inf at most: sample 30" in found.text(width=300)
