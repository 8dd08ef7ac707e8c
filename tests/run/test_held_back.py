"""checkpoint_every="auto", the default: epochs that follow each other quickly share the disk; nothing that counts is missing."""

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tiny
from instep import Trainer
from instep.checkpoint import writer as writer_module
from instep.errors import CheckpointError, Interrupted
from instep.run import checkpoints
from promises.test_interrupt import assert_same, result
from small_disk import fill, make_room, small_disk
from tiny import TASKS, weights

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)
VALUES = [5.0, 2.0, 4.0, 3.0, 6.0, 7.0]  # of the epochs; less is better, so the second, step 8, is the best


@pytest.fixture(autouse=True)
def _slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test takes so long that a second checkpoint is due by the clock."""
    monkeypatch.setattr(checkpoints, "HELD_BACK_S", 1000.0)


def make(folder: Path, values: list[float] = VALUES, **changes: Any) -> Trainer:
    """Six epochs of four updates, evaluated as these values say."""
    trainer: Trainer

    def told(output: Tensor, target: Tensor) -> Tensor:
        return torch.full((len(target),), values[(trainer.step - 1) // 4])

    given: dict[str, Any] = {
        "train": (X, Y),
        "valid": (X[:10], Y[:10]),
        "metrics": {"told": told},
        "monitor": "valid/told",
        "monitor_mode": "min",
        "epochs": 6,
        "batch_size": 10,
        "folder": folder,
    }
    trainer = tiny.make(**(given | changes))
    return trainer


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*"))


def stop_at(trainer: Trainer, step: int) -> None:
    for update in trainer.updates():
        if update.step + 1 == step:
            break


def test_the_first_the_best_and_the_last_are_there(tmp_path: Path) -> None:
    trainer = make(tmp_path / "run")
    seen = []
    for _ in trainer.updates():
        trainer.run.saver._writer.wait()  # type: ignore[union-attr]
        seen.append(steps(tmp_path / "run"))
    assert seen == [[]] * 3 + [[4]] * 21  # what a kill leaves
    assert steps(tmp_path / "run") == [4, 8, 24]
    assert (tmp_path / "run" / "checkpoints" / "BEST").read_text() == "step-00000008\n"
    said = make(tmp_path / "said", checkpoint_every="epoch")
    said.fit()
    assert steps(tmp_path / "said") == [8, 16, 20, 24]
    assert_same(result(said, tmp_path / "said"), result(trainer, tmp_path / "run"))
    for one in (trainer, said):
        one.load("best")
    assert torch.equal(weights(trainer.model), weights(said.model))


def test_it_goes_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "HELD_BACK_S", 0.0)
    make(tmp_path / "run", keep=None).fit()
    assert steps(tmp_path / "run") == [4, 8, 12, 16, 20, 24]


def test_a_checkpoint_that_is_written_takes_the_best_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(tmp_path / "run")
    for update in trainer.updates():
        if update.step == 14:
            monkeypatch.setattr(checkpoints, "HELD_BACK_S", 0.0)
        if update.step == 15:
            trainer.run.saver._writer.wait()  # type: ignore[union-attr]
            assert steps(tmp_path / "run") == [4, 8, 16]
            break


@pytest.mark.parametrize("said", ["epoch", 4, "2 epochs"])
def test_what_is_asked_for_is_not_held_back(tmp_path: Path, said: int | str) -> None:
    trainer = make(tmp_path / "run", checkpoint_every=said, keep=None, valid=None, metrics=None, monitor=None)
    every = 8 if said == "2 epochs" else 4
    for update in trainer.updates():
        trainer.run.saver._writer.wait()  # type: ignore[union-attr]
        done = update.step + 1
        assert steps(tmp_path / "run") == list(range(every, done + 1, every))


def test_the_best_ones_that_are_asked_for_are_all_there(tmp_path: Path) -> None:
    make(tmp_path / "run", keep_best=3).fit()
    assert steps(tmp_path / "run") == [8, 12, 16, 24]


@pytest.mark.parametrize("values", [VALUES, VALUES[::-1]], ids=["an earlier one", "the last one"])
def test_restore_best(tmp_path: Path, values: list[float]) -> None:
    trainers = [make(tmp_path / str(said), values, checkpoint_every=said, restore_best=True) for said in ("auto", "epoch")]
    for trainer in trainers:
        trainer.fit()
    assert torch.equal(*(weights(trainer.model) for trainer in trainers))


def test_patience(tmp_path: Path) -> None:
    make(tmp_path / "run", patience=2).fit()
    assert steps(tmp_path / "run") == [4, 8, 16]


def test_load_in_the_middle(tmp_path: Path) -> None:
    """Of a loop of one's own; what follows is unchanged where the weights are put back."""
    trainer, best = make(tmp_path / "run"), None
    for update in trainer.updates():
        if update.step == 7:
            best = weights(trainer.model)
        if update.step == 18:
            now = weights(trainer.model)
            trainer.load("best")
            assert best is not None
            assert torch.equal(weights(trainer.model), best)
            torch.nn.utils.vector_to_parameters(now, trainer.model.parameters())
    assert steps(tmp_path / "run") == [8, 16, 24]


# --- However it ends


def test_a_pause(tmp_path: Path) -> None:
    """Its checkpoint goes once there is another one, though the next to come was never written."""
    stop_at(make(tmp_path / "run"), 14)
    assert steps(tmp_path / "run") == [4, 8, 14]
    trainer = make(tmp_path / "run")
    stop_at(trainer, 16)  # held back for the run that goes on from 14, were it not the first of this process
    stop_at(trainer, 22)
    assert trainer.resumed_from == 14
    assert steps(tmp_path / "run") == [8, 16, 20, 22]
    trainer = make(tmp_path / "run")
    trainer.fit()
    assert steps(tmp_path / "run") == [8, 16, 20, 24]


def test_the_checkpoint_of_a_pause_goes_with_the_next_that_is_written(tmp_path: Path) -> None:
    trainer = make(tmp_path / "run")
    stop_at(trainer, 14)
    loop = trainer.updates()
    for _ in range(6):
        next(loop)
        trainer.run.saver._saved_at = time.monotonic()  # so that 16 and 20 are held back, one after the other
    loop.close()
    assert steps(tmp_path / "run") == [4, 8, 20]


def test_a_signal(tmp_path: Path) -> None:
    trainer = make(tmp_path / "run")

    def stop(*_: object) -> None:
        if trainer.step == 17:
            os.kill(os.getpid(), signal.SIGTERM)

    trainer.optimizer.register_step_post_hook(stop)
    with pytest.raises(Interrupted):
        trainer.fit()
    assert steps(tmp_path / "run") == [4, 8, 18]


@pytest.mark.parametrize("is_same_trainer", [True, False])
def test_an_error_in_the_middle_of_an_update(tmp_path: Path, is_same_trainer: bool) -> None:
    trainer = make(tmp_path / "run")

    def fail(*_: object) -> None:
        if trainer.step == 18:
            raise ZeroDivisionError

    hook = trainer.optimizer.register_step_post_hook(fail)
    with pytest.raises(ZeroDivisionError):
        trainer.fit()
    hook.remove()
    assert steps(tmp_path / "run") == [4, 8, 16]
    again = trainer if is_same_trainer else make(tmp_path / "run")
    again.fit()
    assert again.resumed_from == 16
    whole = make(tmp_path / "whole")
    whole.fit()
    assert_same(result(whole, tmp_path / "whole"), result(again, tmp_path / "run"))


def test_a_full_disk_at_the_end(tmp_path: Path) -> None:
    """What was held back does not fit: that is said, and the same Trainer goes on from what is on the disk."""
    make(tmp_path / "whole").fit()
    with small_disk(tmp_path / "disk", megabytes=2) as disk:
        trainer = make(disk / "run")
        loop = trainer.updates()
        for _ in range(14):
            next(loop)
        fill(disk)
        with pytest.raises(CheckpointError, match=r"could not be written: the disk of .* is full"):
            loop.close()
        make_room(disk)
        assert steps(disk / "run") == [4]
        trainer.fit()
        assert trainer.resumed_from == 4
        assert steps(disk / "run") == [4, 8, 24]
        whole = make(tmp_path / "whole")
        whole.fit()
        assert_same(result(whole, tmp_path / "whole"), result(trainer, disk / "run"))


# --- What it takes


def test_large_ones_are_never_held_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best is written when another one is to be held beside it."""
    monkeypatch.setattr(writer_module, "HELD_BYTES", 1)
    trainer = make(tmp_path / "run")
    most = 0
    for update in trainer.updates():
        writer = trainer.run.saver._writer
        assert isinstance(writer, writer_module.Writer)
        most = max(most, len(writer._rooms))
        assert steps(tmp_path / "run") == [] or (8 in steps(tmp_path / "run")) == (update.step >= 11)
    assert most == 1


def test_small_ones_take_no_more_than_they_must(tmp_path: Path) -> None:
    trainer = make(tmp_path / "run")
    rooms = []
    for _ in trainer.updates():
        rooms.append(len(trainer.run.saver._writer._rooms))  # type: ignore[union-attr]
    assert rooms[3::4] == [1, 1, 2, 2, 2, 2]  # the best is held beside the newest from the third epoch on


# --- Killed for real


def build_long(folder: Path) -> Trainer:
    """Thirty epochs, each better than the one before."""
    return make(folder, [float(value) for value in range(30, 0, -1)], epochs=30)


def train_in_a_child(folder: Path) -> int:
    child = os.fork()
    if child == 0:
        try:
            checkpoints.HELD_BACK_S = 0.03  # some epochs are written, others are not
            for _ in build_long(folder).updates():
                time.sleep(0.001)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def newest(folder: Path) -> int:
    return max(steps(folder), default=0)


def kill_after_checkpoints(folder: Path, draw: random.Random) -> int:
    """How many children were killed, three at most, each a while after its first checkpoint; the last one trains to the end."""
    killed = 0
    while True:
        before, deadline = newest(folder), time.monotonic() + 20
        child = train_in_a_child(folder)
        if killed < 3:
            while newest(folder) == before and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(draw.uniform(0.0, 0.05))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return killed
        killed += 1


def test_kill_minus_nine_at_random_moments(tmp_path: Path) -> None:
    """A kill costs what was held back."""
    draw, folder = random.Random(3), tmp_path / "run"
    while kill_after_checkpoints(folder, draw) == 0:  # this process came too late: the child was done
        shutil.rmtree(folder)
    whole, run = build_long(tmp_path / "whole"), build_long(folder)
    whole.fit()
    run.fit()
    assert_same(result(whole, tmp_path / "whole"), result(run, folder))
