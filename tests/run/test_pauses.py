"""A run that paused has the checkpoints of one that never did: the one of the pause goes, once there is a newer one."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from instep import Trainer
from instep.checkpoint.writer import Writer
from instep.errors import Interrupted
from instep.report.page.document import document
from instep.run.history.curves import seconds_trained
from instep.run.run_files import read_run
from tiny import TASKS

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)


def make(folder: Path | None, **changes: Any) -> Trainer:
    model = tiny.net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    usual: dict[str, Any] = {"optimizer": optimizer, "train": (X, Y), "batch_size": 4, "keep": None, "checkpoint_every": 5}
    return tiny.make(model, **(usual | {"epochs": 2, "folder": folder} | changes))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def stop_at(trainer: Trainer, step: int) -> None:
    for update in trainer.updates():
        if update.step + 1 == step:
            break


@pytest.mark.parametrize("keep", [None, 3])
@pytest.mark.parametrize("stops", [(7,), (5,), (7, 8), (3, 12, 19), (20,)])
def test_the_checkpoint_of_a_pause_goes(tmp_path: Path, stops: tuple[int, ...], keep: int | None) -> None:
    make(tmp_path / "whole", keep=keep).fit()
    for stop in stops:
        stop_at(make(tmp_path / "run", keep=keep), stop)
        assert f"step-{stop:08d}" in names(tmp_path / "run")
    make(tmp_path / "run", keep=keep).fit()
    assert names(tmp_path / "run") == names(tmp_path / "whole")


def test_in_one_process_too(tmp_path: Path) -> None:
    make(tmp_path / "whole").fit()
    trainer = make(tmp_path / "run")
    stop_at(trainer, 7)
    stop_at(trainer, 8)
    trainer.fit()
    assert names(tmp_path / "run") == names(tmp_path / "whole")


def test_after_a_signal(tmp_path: Path) -> None:
    make(tmp_path / "whole").fit()
    trainer = make(tmp_path / "run")

    def stop(*_: object) -> None:
        if trainer.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    trainer.optimizer.register_step_post_hook(stop)
    with pytest.raises(Interrupted):
        trainer.fit()
    assert names(tmp_path / "run")[-1] == "step-00000007"
    make(tmp_path / "run").fit()
    assert names(tmp_path / "run") == names(tmp_path / "whole")


def test_a_kill_after_the_pause_does_not_make_it_stay(tmp_path: Path) -> None:
    """Killed before the next checkpoint and again after it: what is a pause's is still known."""
    make(tmp_path / "whole").fit()
    stop_at(make(tmp_path / "run"), 7)
    for steps in (2, 6):
        trainer = make(tmp_path / "run")
        loop = trainer.updates()
        for _ in range(steps):
            next(loop)
        writer = trainer.run.saver._writer
        assert isinstance(writer, Writer)
        writer.wait()  # files that come and go cannot be copied
        shutil.copytree(tmp_path / "run", tmp_path / f"killed {steps}")  # what a kill would leave at this moment
        loop.close()
        make(tmp_path / f"killed {steps}").fit()
        assert names(tmp_path / f"killed {steps}") == names(tmp_path / "whole")


def test_a_pause_that_is_saved_again_for_an_allowed_change_goes_too(tmp_path: Path) -> None:
    make(tmp_path / "whole").fit()
    stop_at(make(tmp_path / "run"), 7)
    make(tmp_path / "run", clip_norm=1.0, allow_changes=("clip_norm",)).fit()
    assert names(tmp_path / "run") == names(tmp_path / "whole")


def test_the_best_stays_where_the_run_paused_at_it(tmp_path: Path) -> None:
    options: dict[str, Any] = {"valid": (X[:10], Y[:10]), "evaluate_every": 7, "checkpoint_every": None}
    make(tmp_path / "whole", **options).fit()
    stop_at(make(tmp_path / "run", **options), 7)
    make(tmp_path / "run", **options).fit()
    assert names(tmp_path / "run") == names(tmp_path / "whole")


def test_a_folder_says_from_which_steps_it_was_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(make(folder), 7)
    assert read_run(folder).resumed == []
    stop_at(make(folder), 8)
    assert read_run(folder).resumed == [7]
    make(folder).fit()
    make(folder).fit()  # nothing is left to train, so nothing is resumed
    run = read_run(folder)
    assert run.resumed == [7, 8]
    assert document([run])["runs"][0]["resumed"] == [7, 8]
    assert [more for what, _, more in document([run])["runs"][0]["numbers"] if what == "time"] == ["resumed 2 times"]
    clocks = [row["clock"]["seconds"] for row in run.history.rows]
    assert clocks == sorted(clocks)
    assert seconds_trained(run.history.rows) == clocks[-1]


def test_a_finished_run_that_is_started_again_was_not_resumed(tmp_path: Path) -> None:
    """Its test data is evaluated once more; the clock of that row goes on all the same."""
    for _ in range(3):
        make(tmp_path, test=(X, Y)).fit()
    run = read_run(tmp_path)
    assert run.resumed == []
    assert run.history.rows[-1]["kind"] == "test"
    assert run.trained_s == run.history.rows[-1]["clock"]["seconds"]


def test_the_clock_goes_on_after_rows_that_have_none() -> None:
    trainer = make(None, log_every=1)
    stop_at(trainer, 7)
    trainer.run.logbook.cycle({"cycle": 1}, 7, 0)
    trainer.fit()
    assert any("clock" not in row for row in trainer.history.rows)
    seconds = [row["clock"]["seconds"] for row in trainer.history.rows if "clock" in row]
    assert seconds == sorted(seconds)


def test_a_resume_after_a_kill_says_how_far_the_run_had_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make(tmp_path / "run", log_every=1)
    loop = trainer.updates()
    for _ in range(9):
        next(loop)
    writer = trainer.run.saver._writer
    assert isinstance(writer, Writer)
    writer.wait()
    shutil.copytree(tmp_path / "run", tmp_path / "killed")  # what a kill would leave at this moment
    loop.close()
    make(tmp_path / "killed", log_every=1, progress=True).fit()
    said = "note: going on from step 5, the last checkpoint on the disk: the run was killed after step 9"
    assert said in " ".join(capsys.readouterr().err.split())
    make(tmp_path / "run", log_every=1, progress=True).fit()
    assert "note: going on from step 9\n" in capsys.readouterr().err
