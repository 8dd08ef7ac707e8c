"""Promise 2, interrupt, on a disk that becomes full: the run stops by words, goes on once there is room, and ends the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Trainer
from instep.checkpoint import verify
from instep.errors import CheckpointError, FolderError
from promises.test_interrupt import assert_same, result
from small_disk import fill, make_room, small_disk
from tiny import CLASSES, FEATURES, make

LONG = {f"number_{place}": float(place) for place in range(300)}  # a line of 6 kB: it needs a further block


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", megabytes=8) as place:
        yield place


def build(folder: Path, **changes: Any) -> Trainer:
    """12 updates; a checkpoint of 0.4 MB every 2."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 4000), nn.Dropout(0.2), nn.Linear(4000, CLASSES))
    return make(model, **({"folder": folder, "checkpoint_every": 2, "keep": None} | changes))


def train(trainer: Trainer, *, full_after: int | None = None, disk: Path | None = None, leave_bytes: int = 0) -> None:
    """A loop that logs long lines; the disk has only so much room after an update."""
    for update in trainer.updates():
        if update.step % 2 == 0:  # not just after a checkpoint: a loop that is stopped then has not logged, as far as it knows
            trainer.log(**LONG)
        if update.step == full_after and disk is not None:
            trainer.run.saver.load(disk / "run", "latest")  # waits until what was saved is written
            fill(disk, leave_bytes=leave_bytes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """The run that never met a full disk, by how often it logs."""
    found = {}
    for log_every in (1, 3):
        folder = tmp_path_factory.mktemp("whole") / "run"
        trainer = build(folder, log_every=log_every)
        train(trainer)
        found[log_every] = result(trainer, folder)
    return found


@pytest.mark.parametrize("full_after", [3, 4])  # just after a checkpoint, and between two
@pytest.mark.parametrize("leave_bytes", [200_000, 0])
def test_a_checkpoint_that_does_not_fit(disk: Path, whole: Any, leave_bytes: int, full_after: int) -> None:
    folder = disk / "run"
    with pytest.raises((CheckpointError, FolderError), match=r"the disk of .* is full"):
        train(build(folder, log_every=3), full_after=full_after, disk=disk, leave_bytes=leave_bytes)
    verify(folder / "checkpoints" / "step-00000004")
    assert not [path.name for path in (folder / "checkpoints").iterdir() if path.name.startswith(".")]
    make_room(disk)
    again = build(folder, log_every=3)
    train(again)
    assert again.resumed_from == 4
    assert_same(whole[3], result(again, folder))


@pytest.mark.parametrize("is_same_trainer", [True, False])
def test_a_line_of_the_history_that_does_not_fit(disk: Path, whole: Any, is_same_trainer: bool) -> None:
    """The line is torn in the middle; whoever goes on, the Trainer that stopped or a new one, writes it whole."""
    folder = disk / "run"
    trainer = build(folder, log_every=1)
    with pytest.raises(FolderError, match=r"history.jsonl cannot be written to: the disk of .* is full"):
        train(trainer, full_after=4, disk=disk)
    verify(folder / "checkpoints" / "step-00000004")
    make_room(disk)
    again = trainer if is_same_trainer else build(folder, log_every=1)
    train(again)
    assert again.resumed_from == 4
    assert_same(whole[1], result(again, folder))


@pytest.mark.filterwarnings("ignore::instep.errors.Notice")
def test_an_error_of_the_script_is_not_hidden_by_the_disk(disk: Path) -> None:
    """Neither the line that a failed run still says nor its state fit: that is a note. The folder is free again."""
    calls = 0

    def loss(output: Tensor, target: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 3:
            fill(disk)
            raise ZeroDivisionError
        return cross_entropy(output, target)

    trainer = build(disk / "run", loss=loss, log_every=100, checkpoint_every=None)
    with pytest.raises(ZeroDivisionError) as caught:
        train(trainer)
    assert any("the disk of" in note and "is full" in note for note in caught.value.__notes__)
    make_room(disk)
    build(disk / "run", loss=loss, log_every=100, checkpoint_every=None).fit()
    assert calls == 3 + 12
