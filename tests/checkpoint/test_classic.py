"""The dictionary file of PyTorch's tutorials, from and for everybody."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from instep.checkpoint.classic import load_classic, save_classic
from instep.checkpoint.interchange import load_model
from instep.errors import CheckpointError, DescriptionError


def trained(seed: int, *, width: int = 3, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(seed)
    model = nn.Linear(4, width, dtype=dtype)
    optimizer = AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4, dtype=dtype)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_what_is_saved_is_loaded_and_the_rest_returned(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    model, optimizer = trained(0)
    save_classic(path, model, optimizer, epoch=5, loss=torch.tensor(0.25, requires_grad=True), note="best so far", seen=[1, 2])
    other, its_optimizer = trained(1)
    rest = load_classic(path, other, its_optimizer)
    assert rest == {"epoch": 5, "loss": 0.25, "note": "best so far", "seen": [1, 2]}
    assert same(model.state_dict(), other.state_dict())
    assert same(optimizer.state_dict(), its_optimizer.state_dict())
    rest = load_classic(path, other)
    assert same(rest.pop("optimizer_state_dict"), optimizer.state_dict())
    assert set(rest) == {"epoch", "loss", "note", "seen"}
    assert os.listdir(tmp_path) == [path.name]


def test_the_file_is_what_the_tutorial_reads_and_writes(tmp_path: Path) -> None:
    model, optimizer = trained(0)
    save_classic(tmp_path / "ours.pt", model, optimizer, epoch=5, loss=0.25)
    checkpoint = torch.load(tmp_path / "ours.pt", weights_only=True)
    assert list(checkpoint) == ["epoch", "model_state_dict", "optimizer_state_dict", "loss"]
    theirs, their_optimizer = trained(1)
    theirs.load_state_dict(checkpoint["model_state_dict"])
    their_optimizer.load_state_dict(checkpoint["optimizer_state_dict"])

    states = {"model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}
    torch.save({"epoch": 7, **states, "loss": torch.tensor(0.5)}, tmp_path / "theirs.pt")
    other, its_optimizer = trained(2)
    assert load_classic(tmp_path / "theirs.pt", other, its_optimizer)["epoch"] == 7
    assert same(model.state_dict(), other.state_dict())
    assert not load_model(trained(3)[0], tmp_path / "theirs.pt")


@pytest.mark.parametrize(
    ("model_key", "optimizer_key"), [("state_dict", "optimizer_states"), ("model", "optimizer"), ("state_dict", "optimizer")]
)
def test_dictionaries_of_other_makes_are_taken(tmp_path: Path, model_key: str, optimizer_key: str) -> None:
    model, optimizer = trained(0)
    state: Any = optimizer.state_dict()
    kept = [state] if optimizer_key == "optimizer_states" else state
    prefixed = {f"module.{name}": value for name, value in model.state_dict().items()}
    torch.save({model_key: prefixed, optimizer_key: kept, "global_step": 9}, tmp_path / "theirs.ckpt")
    other, its_optimizer = trained(1)
    assert load_classic(tmp_path / "theirs.ckpt", other, its_optimizer) == {"global_step": 9}
    assert same(model.state_dict(), other.state_dict())
    assert same(optimizer.state_dict(), its_optimizer.state_dict())


def test_a_bare_state_dict_has_no_rest(tmp_path: Path) -> None:
    model, _ = trained(0)
    torch.save(model.state_dict(), tmp_path / "bare.pt")
    other, optimizer = trained(1)
    assert load_classic(tmp_path / "bare.pt", other) == {}
    assert same(model.state_dict(), other.state_dict())
    with pytest.raises(
        CheckpointError,
        match=r"bare\.pt has no state of an optimizer under optimizer_state_dict, optimizer, optimizer_states; leave",
    ):
        load_classic(tmp_path / "bare.pt", other, optimizer)


def test_moments_keep_their_precision(tmp_path: Path) -> None:
    """torch's own load_state_dict would round the float32 moments of a bfloat16 weight."""
    model, optimizer = trained(0, dtype=torch.bfloat16)
    for entry in optimizer.state.values():
        entry["exp_avg"] = torch.randn(entry["exp_avg"].shape, dtype=torch.float32)
    save_classic(tmp_path / "half.pt", model, optimizer, epoch=1, loss=0.0)
    other, its_optimizer = trained(1, dtype=torch.bfloat16)
    load_classic(tmp_path / "half.pt", other, its_optimizer)
    assert same(optimizer.state_dict(), its_optimizer.state_dict())
    assert next(iter(its_optimizer.state.values()))["exp_avg"].dtype is torch.float32


def test_several_models_and_optimizers(tmp_path: Path) -> None:
    (g, for_g), (d, for_d) = trained(0), trained(1, width=2)
    save_classic(tmp_path / "gan.pt", {"g": g, "d": d}, {"g": for_g, "d": for_d}, epoch=2, loss=1.0)
    assert list(torch.load(tmp_path / "gan.pt", weights_only=True))[1] == "model_g_state_dict"
    (g2, for_g2), (d2, for_d2) = trained(2), trained(3, width=2)
    assert load_classic(tmp_path / "gan.pt", {"g": g2, "d": d2}, {"g": for_g2, "d": for_d2}) == {"epoch": 2, "loss": 1.0}
    assert same(d.state_dict(), d2.state_dict())
    assert same(for_g.state_dict(), for_g2.state_dict())
    # as the tutorial on several models writes them
    torch.save({"modelA_state_dict": g.state_dict(), "optimizerA_state_dict": for_g.state_dict()}, tmp_path / "a.pt")
    assert load_classic(tmp_path / "a.pt", {"A": g2}, {"A": for_g2}) == {}


def test_an_error_changes_nothing(tmp_path: Path) -> None:
    model, optimizer = trained(0)
    save_classic(tmp_path / "a.pt", model, optimizer, epoch=1, loss=0.0)
    other, its_optimizer = trained(1, width=2)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"shape +weight +float32 \(2, 4\) +float32 \(3, 4\)"):
        load_classic(tmp_path / "a.pt", other, its_optimizer)
    fits, _ = trained(1)
    two_groups = Adam([{"params": [fits.weight]}, {"params": [fits.bias]}])
    with pytest.raises(
        CheckpointError,
        match=r"a\.pt has 1 group of 2 parameters, yours has 2 groups of 1, 1 parameters; make the groups as they were",
    ):
        load_classic(tmp_path / "a.pt", fits, two_groups)
    assert same(other.state_dict(), before)
    assert same(fits.state_dict(), trained(1)[0].state_dict())
    assert not two_groups.state


def test_what_could_not_be_read_back_is_refused_by_name(tmp_path: Path) -> None:
    model, optimizer = trained(0)
    for extra, kind in [(np.float64(3), "numpy.float64"), (Path("a"), "pathlib.*Path"), (lambda: 3, "function")]:
        with pytest.raises(
            CheckpointError, match=rf"a\.pt is not written: 'odd' \({kind}\) could not be read back without running code"
        ):
            save_classic(tmp_path / "a.pt", model, optimizer, epoch=1, loss=0.0, fine=1, odd=extra)
    with pytest.raises(DescriptionError, match=r"^state_dict cannot be an entry of your own: the dictionary has it already\."):
        save_classic(tmp_path / "a.pt", nn.Linear(1, 1), SGD(model.parameters()), epoch=1, loss=0.0, state_dict=3)
    assert os.listdir(tmp_path) == []
