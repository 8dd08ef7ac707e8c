"""How a run ends: stopped, it says how to go on; started again though it is finished, it says that."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import instep
from instep import OneCycle, Trainer
from instep.errors import ChangedRun, Interrupted
from instep.report import runs, show
from tiny import TASKS

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)


def make(folder: Path | None, **changes: Any) -> Trainer:
    model = TASKS[0].build(0, torch.float32)
    lr = changes.pop("optimizer_lr", 0.1)
    given: dict[str, Any] = {"loss": F.cross_entropy, "train": (X, Y), "epochs": 2, "batch_size": 10, "progress": True}
    return Trainer(model, folder=folder, optimizer=torch.optim.SGD(model.parameters(), lr=lr), **(given | changes))


def stopped(folder: Path | None, *, after: int) -> str:
    """What a run says that is asked to stop in the middle of an update."""
    seen = 0

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += 1
        if seen == after:
            os.kill(os.getpid(), signal.SIGINT)
        return F.cross_entropy(output, target)

    with pytest.warns(UserWarning, match="counts as a mean"), pytest.raises(Interrupted) as caught:
        make(folder, loss=loss, progress=False).fit()
    return str(caught.value)


def test_a_run_that_is_stopped_says_how_to_go_on(tmp_path: Path) -> None:
    assert stopped(tmp_path / "run", after=3) == (
        f"stopped by Ctrl-C after 3 updates, all of them kept in {tmp_path / 'run'}: start it again, and it goes on from there."
    )


def test_without_a_folder_nothing_was_kept() -> None:
    assert stopped(None, after=1) == (
        "stopped by Ctrl-C after 1 update; without folder= nothing is kept, so a new start begins at the first update."
    )


def test_a_finished_run_that_is_started_again_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    trainer = make(folder)
    trainer.fit()
    capsys.readouterr()
    said = (
        f"note: {folder} is finished (8 updates): nothing is left to train. Use another folder= to train anew, "
        "or more epochs= to go on.\n"
    )
    assert make(folder).fit().rows == trainer.history.rows
    assert capsys.readouterr().err == said
    trainer.fit()
    assert capsys.readouterr().err == said
    make(folder, progress=False).fit()
    assert capsys.readouterr().err == ""


def test_a_trainer_without_a_folder_that_is_finished_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make(None, max_steps=1, epochs=None)
    trainer.fit()
    capsys.readouterr()
    trainer.fit()
    assert capsys.readouterr().err == "note: this Trainer is finished (1 update): nothing is left to train. Make a new one.\n"


# --- Nothing is left to train, and something has changed


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_an_allowed_change_of_a_finished_run_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    make(folder).fit()
    before = files_of(folder)
    capsys.readouterr()
    make(folder, log_every=3, optimizer_lr=0.5, allow_changes=("lr",)).fit()
    assert capsys.readouterr().err == (
        f"note: {folder} is finished (8 updates): nothing is left to train, so what has changed has no effect. Use another "
        "folder= to train anew, or more epochs= to go on.\n"
    )
    assert files_of(folder) == before


def test_a_run_cannot_be_made_shorter_than_what_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make(folder).fit()
    for allowed in ((), ("epochs",)):
        with pytest.raises(ChangedRun) as caught:
            make(folder, epochs=1, allow_changes=allowed).fit()
        assert str(caught.value).endswith(
            "Use another folder, or move this one away to start again. The run has made 8 updates already, and cannot be made "
            "shorter than that."
        )
        assert caught.value.names == ()


def test_a_run_may_be_made_shorter_than_it_was_described(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for _ in (updates := make(folder, epochs=4).updates()):
        break
    updates.close()
    with pytest.raises(ChangedRun, match=r"or pass allow_changes=\('epochs',\)\.$"):
        make(folder, epochs=1).fit()
    assert make(folder, epochs=1, allow_changes="epochs").fit().rows[-1]["step"] == 4


def test_a_schedule_that_needs_the_length_is_not_told_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    make(folder, schedule=OneCycle(0.1)).fit()
    capsys.readouterr()
    make(folder, schedule=OneCycle(0.1)).fit()
    assert "nothing is left to train. Use another folder= to train anew.\n" in capsys.readouterr().err


def test_the_length_is_blamed_only_where_it_is_to_blame(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make(folder, schedule=instep.schedules.Constant()).fit()
    with pytest.raises(ChangedRun) as caught:
        make(folder, epochs=3, optimizer_lr=0.5, schedule=instep.schedules.Constant()).fit()
    assert "depends on the length" not in str(caught.value)
    assert caught.value.names == ("lr",)


def test_another_schedule_is_called_schedule(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for _ in (updates := make(folder).updates()):
        break
    updates.close()
    with pytest.raises(ChangedRun, match=r"allow_changes=\('schedule',\)\."):
        make(folder, schedule=OneCycle(0.1)).fit()
    make(folder, schedule=OneCycle(0.1), allow_changes=("schedule",)).fit()
    with pytest.raises(ChangedRun, match=r"allow_changes=\('schedule',\)\."):
        make(folder, schedule=instep.schedules.Step(2, factor=0.5)).fit()


# --- Patience


def worse(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Grows with every evaluation: only the first one is the best."""
    worse.seen += 1  # type: ignore[attr-defined]
    return torch.full((len(output),), float(worse.seen))  # type: ignore[attr-defined]


def impatient(folder: Path, **changes: Any) -> Trainer:
    worse.seen = 0  # type: ignore[attr-defined]
    given = {"epochs": 6, "valid": (X, Y), "patience": 2, "metrics": {"worse": worse}, "monitor": "valid/worse"}
    return make(folder, **(given | {"monitor_mode": "min"} | changes))


def test_a_run_that_patience_ended_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    impatient(folder).fit()
    why = "valid/worse has not improved for 2 evaluations"
    assert re.search(rf"^stopped at step 12 after \S+: {why}, best ", capsys.readouterr().err.splitlines()[-1])
    before = files_of(folder)
    impatient(folder).fit()
    assert capsys.readouterr().err == (
        f"note: {folder} stopped at step 12: {why}. Nothing is left to train. Use another folder= to train anew, or a larger "
        'patience= with allow_changes=("patience",) to go on.\n'
    )
    impatient(folder, epochs=8).fit()
    assert "so what has changed has no effect" in capsys.readouterr().err
    assert files_of(folder) == before
    assert f"stopped at step 12 of 24: {why}" in show.render(folder, width=200)
    assert "stopped (patience)" in runs.render(tmp_path)
    patient = impatient(folder, patience=4, allow_changes=("patience",))
    worse.seen = 99  # type: ignore[attr-defined]
    assert (patient.fit().last or {})["step"] == 20


# --- Going on


def test_what_was_best_before_a_pause_is_in_the_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    trainer = impatient(folder, patience=None, epochs=2)
    for update in (updates := trainer.updates()):
        if update.step == 4:
            break
    updates.close()
    capsys.readouterr()
    seconds = trainer.history.rows[-1]["clock"]["seconds"]
    again = impatient(folder, patience=None, epochs=2)
    worse.seen = 50  # type: ignore[attr-defined]
    again.fit()
    assert re.search(r"best valid/worse \S+ in epoch 1 \(step 4\)$", capsys.readouterr().err.splitlines()[-1])
    clocks = [row["clock"]["seconds"] for row in again.history.rows]
    assert clocks == sorted(clocks)
    assert clocks[-1] > seconds
