"""Loggers: every row of the history, once, in a thread that neither stops nor slows the run."""

import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import instep
from instep import Trainer
from instep.cli.bench import bare
from instep.errors import DescriptionError, Notice
from instep.extras import install_command
from instep.run import logger_thread, loggers
from tiny import X, Y, make, weights

VALID: dict[str, Any] = {"valid": (X[:9], Y[:9]), "log_every": 1}


class Rows:
    """A logger as people write them: three methods."""

    def __init__(self, from_step: int | None = None) -> None:
        self.from_step = from_step
        self.descriptions: list[Mapping[str, Any]] = []
        self.rows: list[Any] = []
        self.states: list[str] = []
        self.threads: set[str] = set()

    def start(self, description: Mapping[str, Any]) -> int | None:
        self.descriptions.append(description)
        return self.from_step

    def log(self, row: Mapping[str, Any]) -> None:
        self.threads.add(threading.current_thread().name)
        self.rows.append(row)

    def finish(self, state: str) -> None:
        self.states.append(state)


class Fails(Rows):
    """Raises in every row, as a server that is down does."""

    def log(self, row: Mapping[str, Any]) -> None:
        super().log(row)
        raise ConnectionError("no route to host")


class Waits(Rows):
    """Takes no row before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def log(self, row: Mapping[str, Any]) -> None:
        assert self.may.wait(60)
        super().log(row)


def test_a_class_of_the_users_own_gets_every_row() -> None:
    own = Rows()
    trainer = make(loggers=own, test=(X[:5], Y[:5]), **VALID)
    for _ in trainer.updates():
        trainer.log(norm=2.0)
    assert own.rows == trainer.history.to_dicts()
    assert [row["kind"] for row in own.rows[:5]] == ["update", "update", "update", "update", "evaluation"]
    assert [row["kind"] for row in own.rows[-2:]] == ["test", "log"]  # the log has what was logged after the last update
    assert own.states == ["finished"]
    assert own.threads == {"instep Rows"}
    (description,) = own.descriptions
    assert description["name"] == description["title"] == "Sequential"
    assert (description["step"], description["folder"], description["log_every"]) == (0, None, 1)
    assert description["settings"]["epochs"] == 3
    assert "preview" not in description  # it was not wanted


def test_a_row_is_a_copy() -> None:
    class Spoils(Rows):
        def log(self, row: Any) -> None:
            row["clock"].clear()
            row.clear()

    first, second = Spoils(), Rows()
    trainer = make(loggers=[first, second], **VALID)
    trainer.fit()
    assert second.rows == trainer.history.to_dicts()
    assert all("seconds" in row["clock"] for row in trainer.history.rows)


def test_a_logger_that_raises_is_said_once_and_changes_nothing() -> None:
    plain = make(**VALID)
    plain.fit()
    failing, fine = Fails(), Rows()
    trainer = make(loggers=[failing, fine], **VALID)
    with pytest.warns(Notice) as said:
        trainer.fit()
    assert [str(one.message) for one in said] == [
        "Fails could not log the row of step 1; the run goes on: ConnectionError: no route to host",
        "Fails could not log 15 rows in all; every row is in trainer.history.",
    ]
    assert failing.rows == fine.rows == trainer.history.to_dicts()
    assert torch.equal(weights(plain.model), weights(trainer.model))


def test_a_logger_that_cannot_start_or_finish_is_said_once() -> None:
    class Absent(Rows):
        def start(self, description: Mapping[str, Any]) -> int | None:
            sys.exit("no server")

    class Endless(Rows):
        def finish(self, state: str) -> None:
            raise OSError(28, "No space left on device")

    absent = Absent()
    trainer = make(loggers=[absent, Endless()], **VALID)
    with pytest.warns(Notice) as said:
        trainer.fit()
    assert [str(one.message) for one in said] == [
        "Absent could not start, and logs nothing of this run: SystemExit: no server",
        "Endless could not finish: OSError: [Errno 28] No space left on device",
    ]
    assert absent.rows == absent.states == []
    assert len(trainer.history) == 15


def test_a_slow_logger_gets_every_row_and_the_run_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue holds two rows; all others wait in the history. Would the run wait for the logger, this test would not end."""
    monkeypatch.setattr(logger_thread, "QUEUE_ROWS", 2)
    slow = Waits()
    trainer = make(loggers=slow, epochs=8, **VALID)
    for update in trainer.updates():
        if update.step == trainer.total_steps - 1:
            assert slow.rows == []
            slow.may.set()
    assert slow.rows == trainer.history.to_dicts()
    assert slow.states == ["finished"]


def test_a_start_that_takes_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class StartsLate(Waits):
        def start(self, description: Mapping[str, Any]) -> int | None:
            assert self.may.wait(60)
            return super().start(description)

    monkeypatch.setattr(loggers, "START_WAIT_S", 0.01)
    late = StartsLate()
    trainer = make(loggers=late, **VALID)
    for update in trainer.updates():
        if update.step == trainer.total_steps - 1:
            late.may.set()
    assert late.rows == trainer.history.to_dicts()


def test_a_logger_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loggers, "FINISH_WAIT_S", 0.05)
    hangs, fine = Waits(), Rows()
    trainer = make(loggers=[hangs, fine], folder=tmp_path / "run", **VALID)
    with pytest.warns(Notice) as said:
        leave_at(trainer, 2)
    assert [str(one.message) for one in said] == [
        "waiting at most 0.05 s for Waits (3 rows left)",
        f"Waits has not taken 3 rows in time, and is not waited for; every row is in {tmp_path / 'run' / 'history.jsonl'}.",
    ]
    with pytest.warns(Notice, match="Waits is still at the rows of before, and logs nothing until the run starts again"):
        trainer.fit()
    hangs.may.set()
    assert [row["step"] for row in fine.rows if row["kind"] == "update"] == list(range(1, 13))
    assert fine.states == ["interrupted", "finished"]


def leave_at(trainer: Trainer, step: int) -> None:
    for update in trainer.updates():
        if update.step == step:
            return


def copy_as_killed(trainer: Trainer, step: int, copy: Path) -> None:
    """The folder as a kill at this step leaves it, with rows beyond the last checkpoint."""
    for update in trainer.updates():
        if update.step == step:
            assert trainer.folder is not None
            trainer.run.saver._writer.wait()  # type: ignore[union-attr]  # names change while a checkpoint is written
            shutil.copytree(trainer.folder, copy)
            return


@pytest.mark.parametrize(("from_step", "first"), [(None, None), (0, 1), (3, 3)])
def test_a_resumed_run_gives_what_is_asked_for(tmp_path: Path, from_step: int | None, first: int | None) -> None:
    """Rows of the history from a step on, also those from before the kill, and none twice; without a step, those that are new."""
    before = make(loggers=Rows(), folder=tmp_path / "run", checkpoint_every=8, **VALID)
    copy_as_killed(before, 10, tmp_path / "copy")
    own = Rows(from_step)
    after = make(loggers=own, folder=tmp_path / "copy", checkpoint_every=8, **VALID)
    after.fit()
    assert after.resumed_from in (4, 8)  # that of the best evaluation, or the later one where it was written by then
    first = after.resumed_from + 1 if first is None else first
    steps = [row["step"] for row in own.rows if row["kind"] == "update"]
    assert steps == list(range(first, 13))
    assert own.descriptions[0]["step"] == after.resumed_from
    assert own.rows == [row for row in after.history.to_dicts() if row["step"] >= first]


def test_loggers_may_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    leave_at(make(folder=tmp_path, **VALID), 4)
    own = Rows(from_step=0)
    trainer = make(folder=tmp_path, loggers=own, **VALID)
    trainer.fit()
    assert own.rows == trainer.history.to_dicts()
    assert own.descriptions[0]["is_changed"] is False
    finished = Rows()
    make(folder=tmp_path, loggers=finished, **VALID).fit()
    assert finished.descriptions == []  # nothing is left to train


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("tensorbord", "no logger is called 'tensorbord'; did you mean 'tensorboard'?"),
        ("nowhere", "no logger is called 'nowhere'; there are tensorboard, mlflow, wandb, trackio, csv, or pass an object"),
        (["csv", 3], "loggers= got a int, which has no method start"),
        (Rows, "loggers= got the class Rows: pass an instance of it; a logger has start"),
        ("csv", 'loggers="csv" writes to the run folder; pass folder= to the Trainer'),
    ],
)
def test_what_is_no_logger_is_said_before_the_first_step(given: Any, words: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        make(loggers=given).fit()
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb", "trackio"])
def test_a_missing_package_is_said_before_anything_is_written(name: str, tmp_path: Path) -> None:
    try:
        __import__(name)
        pytest.skip(f"{name} is installed")
    except ImportError:
        pass
    trainer = make(loggers=name, folder=tmp_path / "run")
    with pytest.raises(DescriptionError) as caught:
        trainer.fit()
    assert str(caught.value) == f'loggers="{name}" needs {name}, which is not installed; type: {install_command(name)}'
    assert not (tmp_path / "run").exists()


def test_a_replay_logs_nothing(tmp_path: Path) -> None:
    make(folder=tmp_path, **VALID).fit()
    own = Rows()
    instep.replay(tmp_path, lambda: make(loggers=[own, "csv"], **VALID), step=5)
    assert own.descriptions == own.rows == own.states == []
    assert not (tmp_path / "metrics.csv").exists()


def test_a_comparison_of_speeds_logs_nothing() -> None:
    own = Rows()
    for _ in bare(make(loggers=own, **VALID), 3).updates():
        pass
    assert own.descriptions == own.rows == []
