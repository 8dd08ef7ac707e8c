"""A run that an earlier version began is resumed: every tensor and counter of its checkpoint, and to the end it describes."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from instep import Trainer
from instep.checkpoint import read
from promises.earlier_runs import BUILDERS, KEPT, STOPPED_AT


def tensors(part: object, name: str = "") -> dict[str, Tensor]:
    if isinstance(part, Tensor):
        return {name: part}
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list | tuple) else ()
    return {key: tensor for inner, value in entries for key, tensor in tensors(value, f"{name}/{inner}").items()}


def end(trainer: Trainer, name: str) -> dict[str, Tensor]:
    if name == "cycles":
        trainer.fit_cycles(max_cycles=2, steps=20, repeats=1, low=1e-4)
    else:
        trainer.fit()
    return {key: tensor.clone() for key, tensor in trainer.model.state_dict().items()}


@pytest.mark.parametrize("name", list(BUILDERS))
def test_a_run_of_an_earlier_version_is_resumed(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(KEPT / name, folder)
    before = read(folder / "checkpoints" / f"step-{STOPPED_AT[name]:08d}")
    trainer = BUILDERS[name](folder, keep=None, checkpoint_every=1)
    ended = end(trainer, name)
    assert trainer.resumed_from == STOPPED_AT[name]
    assert trainer.history.updates[0]["step"] <= STOPPED_AT[name]

    whole = end(BUILDERS[name](None), name)
    for key, tensor in whole.items():  # in float64, from a checkpoint that another processor may have written
        assert torch.allclose(ended[key], tensor, rtol=1e-8, atol=1e-8), key
    assert sorted(before.parts) == sorted(read(sorted((folder / "checkpoints").glob("step-*"))[-1]).parts)


@pytest.mark.parametrize("name", ["classifier", "pair"])
def test_what_was_kept_is_what_is_taken_up(name: str, tmp_path: Path) -> None:
    """Saved again where it was resumed, the checkpoint has the same tensors bit for bit and the same state."""
    folder = tmp_path / name
    shutil.copytree(KEPT / name, folder)
    path = folder / "checkpoints" / f"step-{STOPPED_AT[name]:08d}"
    before = read(path)
    trainer = BUILDERS[name](folder, max_steps=STOPPED_AT[name], allow_changes=("max_steps",))
    end(trainer, name)  # there is nothing left to do; what was allowed to change is saved at once
    after = read(path)
    kept, again = tensors(before.parts), tensors(after.parts)
    assert kept.keys() == again.keys()
    assert all(torch.equal(tensor, again[key]) and tensor.dtype == again[key].dtype for key, tensor in kept.items())
    assert before.state == after.state
