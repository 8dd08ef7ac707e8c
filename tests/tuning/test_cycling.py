"""`fit_cycles`: cycles that are trained and said; and what does not fit together. Going on is in promises/test_cycles."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

from cycled import LENGTH, fitted, last, rows, trainer
from instep import Loss, OneCycle, Trainer
from instep.cli import main
from instep.data import source
from instep.errors import DescriptionError, InstepError, Interrupted, Notice, UpdateError
from instep.run import logbook
from instep.run.history import HistoryFile
from instep.run.run_files import read_run
from instep.schedules import Constant, Linear
from tiny import CLASSES, FEATURES, TASKS

# --- What happens


def test_each_cycle_goes_on_from_the_one_before_with_a_range_test_of_its_own() -> None:
    run = trainer()
    first = run.find_lr(steps=30, repeats=1, momentum=0.85).suggestion
    done = fitted(run)
    assert [(cycle.start, cycle.stop) for cycle in done.cycles] == [(0, 10), (10, 20), (20, 30)]
    assert done.cycles[0].max_lr == first
    assert done.cycles[1].max_lr != first
    assert done.cycles[1].before == done.cycles[0].after == run.history.evaluations[1]["valid/loss"]
    assert done.ended == "max_cycles=3 are done."
    assert (run.step, last(run)["step"]) == (30, 30)
    assert [row["epoch"] for row in run.history.evaluations] == [0, 1, 2, 3, 4, 5]


def test_the_learning_rates_are_those_of_one_cycle_after_another() -> None:
    run = trainer(log_every=1)
    done = fitted(run, max_cycles=2)
    for cycle in done.cycles:
        curve = OneCycle(cycle.max_lr).curve(LENGTH, cycle.max_lr * 0.1)  # lr is that of the first group
        expected = [curve(position) for position in range(LENGTH)]
        assert [row["lr"] for row in run.history.updates][cycle.start : cycle.stop] == pytest.approx(expected, rel=1e-12)


def test_the_first_cycle_is_a_plain_run_at_what_was_found() -> None:
    cycled = trainer()
    found = fitted(cycled, max_cycles=1).cycles[0].max_lr
    plain = trainer(schedule=OneCycle(found))
    plain.fit()
    assert all(map(torch.equal, cycled.model.state_dict().values(), plain.model.state_dict().values()))
    assert [row for row in cycled.history.to_dicts(clock=False) if row["kind"] != "cycle"] == plain.history.to_dicts(clock=False)


def test_cycles_of_a_length_that_no_epoch_has() -> None:
    run = trainer(epochs=None, max_steps=7)
    done = fitted(run)
    assert [(cycle.start, cycle.stop) for cycle in done.cycles] == [(0, 7), (7, 14), (14, 21)]
    assert [row["step"] for row in run.history.evaluations] == [5, 7, 10, 14, 15, 20, 21]


def test_a_cycle_follows_the_updates_that_were_made() -> None:
    """One update of the first cycle is skipped, so it does not come to its end; the second begins at its beginning."""
    x, y = TASKS[0].draw(80, seed=0, dtype=torch.float32)
    model = nn.Linear(FEATURES, CLASSES)
    run = Trainer(
        model,
        objective=lambda m, batch: Loss(
            nn.functional.cross_entropy(m(batch[0]), batch[1]), 0 if run.step == 3 else len(batch[0])
        ),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        train=(x, y),
        valid=(x, y),
        epochs=2,
        batch_size=16,
        log_every=1,
        progress=False,
    )
    done = fitted(run, max_cycles=2, min_delta=0.0)
    lrs = [row["lr"] for row in run.history.updates]
    assert [cycle.made for cycle in done.cycles] == [0, 9]
    assert lrs[3] == lrs[4]
    assert [lrs[0], lrs[10]] == pytest.approx([cycle.max_lr / 25 for cycle in done.cycles])
    assert lrs[9] > 10 * lrs[19]


class Rows(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """80 samples one after another, in batches of 16: 5 updates a pass."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        x, _ = TASKS[0].draw(80, seed=0, dtype=torch.float32)
        yield from zip(x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long(), strict=True)


def test_an_iterable_is_read_on_through_the_cycles() -> None:
    """Only the second range test has to read again: it begins behind the first 10 batches."""
    with pytest.warns(Notice) as said:
        assert len(fitted(trainer(train=source(Rows(), steps_per_epoch=5)), max_cycles=2).cycles) == 2
    assert [str(notice.message).rpartition(": ")[2] for notice in said] == [
        "160 samples are read again to get to batch 0 of epoch 2."
    ]


def test_it_ends_when_a_cycle_gains_too_little() -> None:
    done = fitted(trainer(), min_delta=10.0)
    assert len(done.cycles) == 1
    assert done.ended.endswith("not more than min_delta=10.")


def test_patience_ends_the_cycles_too() -> None:
    run = trainer(evaluate_every=1, patience=2)
    done = fitted(run, max_cycles=8)
    assert done.ended == "there was no better valid/loss within patience=2 evaluations."
    assert done.cycles[-1].stop == run.step == last(run)["step"]
    assert done.cycles[-1].after == last(run)["valid/loss"]


def test_the_best_weights_are_those_of_all_cycles(tmp_path: Path) -> None:
    run = trainer(tmp_path, restore_best=True, evaluate_every=1)
    fitted(run)
    assert run.evaluate()["valid/loss"] == min(run.history.column("valid/loss"))
    more = fitted(run, max_cycles=4)
    straight = trainer(tmp_path / "straight", restore_best=True, evaluate_every=1)
    assert more == fitted(straight, max_cycles=4)
    with pytest.raises(DescriptionError, match="restore_best=True put the best weights into the model, and those to go on from"):
        in_memory = trainer(restore_best=True)
        fitted(in_memory, max_cycles=1)
        fitted(in_memory, max_cycles=2)


# --- What is said


def test_choices_and_gains_are_rows_of_their_own(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    done = fitted(run, max_cycles=2)
    told = [row for row in rows(tmp_path) if row["kind"] == "cycle"]
    assert [(row["cycle"], row["step"], "gain" in row) for row in told] == [
        (1, 0, False), (1, 10, True), (2, 10, False), (2, 20, True),
    ]  # fmt: skip
    assert [(row["max_lr"], row["reason"], row["confidence"], row["gain"]) for row in run.history.cycles] == [
        (cycle.max_lr, cycle.reason, cycle.confidence, cycle.gain) for cycle in done.cycles
    ]
    read = HistoryFile.read(tmp_path / "history.jsonl")
    assert (read.problem, len(read.rows)) == (None, len(run.history.rows))
    assert "reason" not in run.history.names
    assert last(run)["kind"] == "evaluation"
    assert json.loads((tmp_path / "run.json").read_text())["cycles"]["max_cycles"] == 2


def test_show_and_runs_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs" / "cycled"
    fitted(trainer(folder), max_cycles=2)
    assert main(["show", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "finished at step 20 of 20" in said
    assert "epochs    2 a cycle" in said
    assert "cycle     steps  max_lr  confidence" in said
    assert "    2  10 to 20" in said
    assert "cycle 2: the loss " in said
    assert main(["runs", str(folder.parent)]) == 0
    assert " 20  20 " in capsys.readouterr().out


def test_progress_tells(capsys: pytest.CaptureFixture[str]) -> None:
    run = trainer()
    run.run.set_progress(True)
    fitted(run, max_cycles=2)
    said = capsys.readouterr().err
    assert "note: cycle 1: max_lr " in said
    assert "note: OneCycle overwrites the optimizer's lr=0.001" in said
    assert "note: cycle 1 gained " in said
    assert "epoch 4/4  step 20/20" in said


# --- What does not fit


def test_fit_and_cycles_do_not_mix(tmp_path: Path) -> None:
    run = trainer(tmp_path / "cycles")
    fitted(run, max_cycles=1)
    words = r"this run is trained in cycles; go on with fit_cycles\(\), or make a new Trainer for fit\(\)"
    with pytest.raises(DescriptionError, match=words):
        run.fit()
    with pytest.raises(DescriptionError, match=words):
        trainer(tmp_path / "cycles").fit()
    plain = trainer(tmp_path / "plain")
    plain.fit()
    words = r"this run was trained with fit\(\) up to step 10, and fit_cycles\(\) begins with a new run"
    with pytest.raises(DescriptionError, match=words):
        fitted(plain)
    other = trainer(tmp_path / "plain")
    with pytest.raises(DescriptionError, match=words):
        fitted(other)
    other.fit()
    assert other.step == 10  # what it is can still be had


def test_a_first_range_test_that_found_nothing_binds_nobody(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    with pytest.raises(InstepError, match="no learning rate to begin with"):
        fitted(run, high=1e-6)
    assert len(fitted(run, max_cycles=1).cycles) == 1
    run = trainer(tmp_path / "fit")
    with pytest.raises(InstepError, match="no learning rate to begin with"):
        fitted(run, high=1e-6)
    run.fit()
    assert run.step == 10


def test_other_options_than_it_was_begun_with(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    fitted(run, max_cycles=1)
    words = r"begun with other options of fit_cycles\(\): steps=30 before, 40 now. Use the same, or begin a new run"
    with pytest.raises(DescriptionError, match=words):
        fitted(run, steps=40)
    with pytest.raises(DescriptionError, match=words):
        fitted(trainer(tmp_path), steps=40)


def test_the_seconds_of_a_range_test_are_kept_where_the_run_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, passed_s = trainer(tmp_path), [0.0]
    monkeypatch.setattr(logbook, "time", SimpleNamespace(perf_counter=lambda: passed_s[0]))

    def stop_after_test(test: dict[str, Any]) -> None:
        passed_s[0] += 100
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(run.run, "keep_range_test", stop_after_test)
    with pytest.raises(Interrupted):
        fitted(run)
    assert read_run(tmp_path).trained_s == 100
    passed_s[0] = 1000  # on the clock of another process
    again = trainer(tmp_path)
    fitted(again, max_cycles=1)
    assert last(again)["clock"]["seconds"] == read_run(tmp_path).trained_s == 100
    assert "paused_after_s" not in read_run(tmp_path).description


def test_what_fit_cycles_cannot_do() -> None:
    with pytest.raises(DescriptionError, match=r"makes the schedule of each cycle itself, and the Trainer has one"):
        trainer(schedule=Linear()).fit_cycles()
    with pytest.raises(DescriptionError, match=r"goes by the monitored value, so it needs evaluations; pass valid= and"):
        trainer(valid=None).fit_cycles()
    with pytest.raises(DescriptionError, match="a cycle is as long as the run is described, and that has no updates"):
        trainer(epochs=0).fit_cycles()
    with pytest.raises(UpdateError, match=r"in the middle of another updates\(\)"):
        run = trainer()
        updates = run.updates()
        next(updates)
        run.run.state.step = 0
        run.fit_cycles()
    assert fitted(trainer(schedule=Constant()), max_cycles=1).cycles


def test_a_gan_has_no_one_learning_rate() -> None:
    models = {"a": nn.Linear(2, 1), "b": nn.Linear(2, 1)}
    run = Trainer(
        models,
        objective={"a": lambda m, batch: m["a"](batch).mean(), "b": lambda m, batch: m["b"](batch).mean()},
        optimizer={name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in models.items()},
        train=torch.randn(16, 2),
        epochs=1,
        batch_size=8,
        progress=False,
    )
    with pytest.raises(DescriptionError, match="the run has several optimizers"):
        run.fit_cycles()


def test_a_schedule_has_to_make_cycles_of_what_was_found() -> None:
    example = r"fit_cycles\(\) needs a function that makes a OneCycle of a learning rate: schedule=lambda lr: OneCycle\(lr, "
    built: Any = OneCycle(0.1)
    with pytest.raises(DescriptionError, match="^schedule= is a OneCycle; " + example):
        trainer().fit_cycles(schedule=built)
    with pytest.raises(DescriptionError, match="^schedule= made the same cycle of two learning rates; " + example):
        trainer().fit_cycles(schedule=lambda lr: built)


def test_a_schedule_that_does_not_fit_the_groups_begins_no_cycle() -> None:
    run = trainer()
    with pytest.raises(DescriptionError, match="has 3 values and the optimizer 2 parameter groups"):
        fitted(run, schedule=lambda lr: OneCycle([lr, lr, lr]))
    assert fitted(run, max_cycles=1).ended == "max_cycles=1 are done."
