"""Run folders: going on, refusing to go on as another run, one process at a time, checkpoints kept and found."""

import json
import os
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tiny
from instep import OneCycle, Trainer
from instep.errors import ChangedRun, CheckpointError, DescriptionError, FolderError, NonFiniteLoss, UpdateError
from instep.optim.freeze import freeze
from instep.run.changes import require_same
from instep.schedules import Step
from programs import Programs
from tiny import CLASSES, FEATURES, TASKS

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)


def make(folder: Path | None, model: nn.Module | None = None, lr: float = 0.1, **changes: Any) -> Trainer:
    model = tiny.net() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    usual = {"optimizer": optimizer, "train": (X, Y), "valid": (X[:10], Y[:10]), "batch_size": 10, "folder": folder}
    return tiny.make(model, **(usual | changes))


def weights(trainer: Trainer) -> Tensor:
    return tiny.weights(trainer.model)


def stop_at(trainer: Trainer, step: int) -> None:
    for update in trainer.updates():
        if update.step == step:
            break


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_finished_run_is_returned_without_training(run: Path) -> None:
    first = make(run)
    history = first.fit()
    again = make(run)
    assert list(again.updates()) == []
    assert torch.equal(weights(first), weights(again))
    assert again.history.to_dicts() == history.to_dicts()
    assert make(run).fit().to_dicts() == history.to_dicts()


def test_the_best_comes_back_from_a_finished_run(run: Path) -> None:
    first = make(run, lr=3.0, restore_best=True, evaluate_every=1)
    first.fit()
    again = make(run, lr=3.0, restore_best=True, evaluate_every=1)
    again.fit()
    assert torch.equal(weights(first), weights(again))
    assert first.history.best is not None
    assert again.evaluate()["valid/loss"] == pytest.approx(first.history.best["valid/loss"])


def test_checkpoints_are_kept_as_asked(run: Path) -> None:
    make(run, checkpoint_every=2, keep=2, valid=None).fit()
    assert steps(run) == [10, 12]
    make(run.with_name("all"), checkpoint_every=5, keep=None, valid=None).fit()
    assert steps(run.with_name("all")) == [5, 10, 12]
    make(run.with_name("few"), checkpoint_every=None, valid=None).fit()
    assert steps(run.with_name("few")) == [12]


def test_the_best_stays_however_old_it_is(run: Path) -> None:
    trainer = make(run, lr=5.0, evaluate_every=1, checkpoint_every=1, keep=1)
    history = trainer.fit()
    assert history.best is not None
    assert steps(run) == sorted({history.best["step"], 12})
    kept = weights(trainer)
    trainer.load("best")
    assert trainer.evaluate()["valid/loss"] == pytest.approx(history.best["valid/loss"])
    trainer.load("latest")
    assert torch.equal(weights(trainer), kept)
    trainer.load(history.best["step"])
    assert not torch.equal(weights(trainer), kept) or history.best["step"] == 12
    with pytest.raises(CheckpointError, match=r"has no checkpoint 7; it has .*12"):
        trainer.load(7)


@pytest.mark.parametrize("every", ["fortnight", 0, "0 minutes", True, "minutes 3"])
def test_intervals_that_are_none(run: Path, every: Any) -> None:
    with pytest.raises(DescriptionError, match=r"checkpoint_every=.* is not known; use \"epoch\""):
        make(run, checkpoint_every=every)


def test_policies_that_make_no_sense(run: Path) -> None:
    with pytest.raises(DescriptionError, match="keep=0 must be a whole number, 1 or more"):
        make(run, keep=0)


# --- Another description


class Wider(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.inner(x)
        return output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 20}, r"settings\.batch_size: 10 -> 20(.|\n)*move this one away to start again\."),
        ({"clip_norm": 1.0}, r"settings\.clip_norm: nothing -> 1\.0(.|\n)*or pass allow_changes=\('clip_norm',\)"),
        (
            {"lr": 0.2},
            r"optimizer\.groups\.0\.lr: 0\.1 -> 0\.2(.|\n)*allow_changes=\('lr',\)",
        ),
        ({"model": Wider()}, r"model\.class: Sequential -> Wider"),
        ({"train": (X + 1, Y)}, r"data\.train: column 0, torch\.float32\(6,\), has other values"),
        ({"train": (X[:30], Y[:30])}, r"data\.train\.samples: 40 -> 30"),
        ({"seed": 3}, r"settings\.seed: 0 -> 3"),
        ({"epochs": 2}, r"settings\.epochs: 3 -> 2(.|\n)*or pass allow_changes=\('epochs',\)\.$"),
        ({"epochs": 1}, r"settings\.epochs: 3 -> 1(.|\n)*to start again\. The run has made 6 updates already, and cannot be"),
    ],
)
def test_another_description_is_refused_with_both_sides(run: Path, changes: dict[str, Any], words: str) -> None:
    stop_at(make(run), 5)
    with pytest.raises(DescriptionError, match=words) as caught:
        make(run, **changes).fit()
    assert "holds a run with another description (before -> now)" in str(caught.value)
    make(run).fit()  # the folder is as it was, and free


def test_what_a_hyper_parameter_changes_is_listed_once() -> None:
    before, now = ({"hyper_parameters": {"patience": n}, "settings": {"patience": n, "seed": n}} for n in (3, 5))
    with pytest.raises(ChangedRun) as caught:
        require_same(before, now, allowed=(), folder="runs/a", longer_is_fine=False)
    assert caught.value.changes.splitlines()[1:] == ["  hyper_parameters.patience: 3 -> 5", "  settings.seed: 3 -> 5"]
    assert caught.value.names == ("patience", "seed")
    assert require_same(before, now, allowed=("patience", "seed"), folder="runs/a", longer_is_fine=False).is_changed


def test_another_freezing_is_another_run(run: Path) -> None:
    stop_at(make(run), 5)
    model = TASKS[0].build(0, torch.float32)
    freeze(model, "0")
    words = r"settings\.frozen: nothing -> \['0\.weight', '0\.bias'\](.|\n)*allow_changes=\('frozen',\)"
    with pytest.raises(DescriptionError, match=words):
        make(run, model).fit()
    make(run, model, allow_changes=("frozen",)).fit()


def test_a_run_that_failed_before_its_first_checkpoint_does_not_block_the_folder(run: Path) -> None:
    with pytest.raises(NonFiniteLoss, match="step 0"):
        make(run, train=(X * float("nan"), Y)).fit()
    make(run).fit()


def test_a_change_may_be_allowed(run: Path) -> None:
    stop_at(make(run), 5)
    trainer = make(run, lr=0.02, allow_changes=("lr",))
    assert {update.lr for update in trainer.updates()} == {0.02}


def test_an_allowed_change_survives_a_kill(run: Path) -> None:
    """Killed before the next checkpoint, the run must not fall back to the old value."""
    stop_at(make(run), 5)
    loop = make(run, lr=0.02, allow_changes=("lr",), checkpoint_every=None).updates()
    next(loop)
    killed = run.with_name("killed")
    shutil.copytree(run, killed)  # what a kill would leave at this moment
    loop.close()
    assert {update.lr for update in make(killed, lr=0.02, checkpoint_every=None).updates()} == {0.02}


def test_a_start_that_a_schedule_keeps_may_change_with_lr(run: Path) -> None:
    stop_at(make(run, schedule=Step(every=100)), 5)
    trainer = make(run, lr=0.02, schedule=Step(every=100), allow_changes="lr")
    assert {update.lr for update in trainer.updates()} == {0.02}


def test_patience_may_be_raised(run: Path) -> None:
    make(run, lr=5.0, patience=1, evaluate_every=1).fit()
    more = make(run, lr=5.0, patience=50, evaluate_every=1, allow_changes=("patience",))
    assert list(more.updates())


def test_what_a_loop_of_ones_own_changed_goes_on(run: Path) -> None:
    """Unfrozen and put into eval mode by hand in the middle of a run."""

    def trainer(folder: Path) -> Trainer:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(FEATURES, 4), nn.Dropout(0.5), nn.Linear(4, CLASSES))
        model[0].requires_grad_(False)
        return make(folder, model=model)

    def loop(trainer: Trainer, stop: int) -> None:
        for update in trainer.updates():
            if update.step == 3:
                trainer.model[0].requires_grad_(True)
                trainer.model[1].eval()
            if update.step == stop:
                break

    whole = trainer(run.with_name("whole"))
    loop(whole, 99)
    loop(trainer(run), 6)
    again = trainer(run)
    loop(again, 99)
    assert torch.equal(weights(whole), weights(again))


def test_what_is_trained_beside_the_model_goes_on(run: Path) -> None:
    """A temperature in the optimizer, and an objective with a state of its own."""

    class Counting(nn.Module):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.temperature = nn.Parameter(torch.tensor(1.0))

        def forward(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            self.seen += 1
            return F.cross_entropy(model(batch[0]) * self.temperature * (1 + self.seen / 10), batch[1])

    def trainer(folder: Path) -> tuple[Trainer, Counting]:
        objective, model = Counting(), TASKS[0].build(0, torch.float32)
        optimizer = torch.optim.SGD([*model.parameters(), *objective.parameters()], lr=0.1, momentum=0.9)
        return make(folder, model=model, optimizer=optimizer, loss=None, objective=objective, valid=None), objective

    whole, expected = trainer(run.with_name("whole"))
    whole.fit()
    stop_at(trainer(run)[0], 6)
    again, objective = trainer(run)
    again.fit()
    assert objective.temperature.item() == expected.temperature.item() != 1.0
    assert torch.equal(weights(whole), weights(again))


class Failing(nn.Module):
    """Ctrl-C in the middle of a forward, once: what is left is nobody's state, so that going back does not bring it back."""

    left = 0

    def __init__(self, fail_at: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))
        Failing.left = fail_at

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.inner(x)
        if self.training:
            Failing.left -= 1
            if Failing.left == 0:
                raise KeyboardInterrupt
        return output


def test_a_trainer_torn_out_of_an_update_goes_back_to_its_checkpoint(run: Path) -> None:
    torn = make(run, model=Failing(7))
    with pytest.raises(KeyboardInterrupt):
        list(torn.updates())
    assert json.loads((run / "run.json").read_text())["status"]["state"] == "interrupted"
    torn.fit()
    whole = make(run.with_name("whole"), model=Failing(0))
    whole.fit()
    assert torch.equal(weights(torn), weights(whole))
    assert torn.history.to_dicts(clock=False) == whole.history.to_dicts(clock=False)
    alone = make(None, model=Failing(7))
    with pytest.raises(KeyboardInterrupt):
        list(alone.updates())
    with pytest.raises(UpdateError, match="stopped in the middle of an update, and there is no checkpoint to go on from"):
        alone.fit()


def test_a_folder_without_its_description_is_left_alone(run: Path) -> None:
    stop_at(make(run), 5)
    (run / "run.json").unlink()
    with pytest.raises(FolderError, match=r"holds the checkpoints or the history of a run, but no run\.json"):
        make(run).fit()
    assert steps(run)


def test_a_damaged_line_in_the_middle_of_the_history_is_said(run: Path) -> None:
    stop_at(make(run, log_every=1), 5)
    lines = (run / "history.jsonl").read_text().splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join([lines[0], "{broken\n", *lines[2:]]))
    with pytest.raises(FolderError, match="Mend the file, or start again in another folder"):
        make(run, log_every=1).fit()


GENERATOR = """
import sys, torch
from torch import nn
from instep import Trainer
model = nn.Linear(2, 2)
trainer = Trainer(model, loss=nn.functional.cross_entropy, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                  train=(torch.randn(50, 2), torch.zeros(50, dtype=torch.long)), batch_size=5, epochs=3, progress=False,
                  folder=sys.argv[1])
loop = trainer.updates()
for update in loop:
    if update.step == 7:
        break
print("end of script")
"""


def test_a_script_that_keeps_the_loop_ends(run: Path, programs: Programs) -> None:
    """The generator is closed while the interpreter shuts down, when no thread can be started any more."""
    assert programs.run(["-c", GENERATOR, str(run)], check=True).stdout == "end of script\n"
    assert steps(run)[-1] == 8


def test_a_run_may_be_made_longer_where_the_schedule_does_not_mind(run: Path) -> None:
    make(run, schedule=Step(every=4)).fit()
    longer = make(run, schedule=Step(every=4), epochs=5)
    assert len(list(longer.updates())) == 8
    whole = make(run.with_name("whole"), schedule=Step(every=4), epochs=5)
    whole.fit()
    assert torch.equal(weights(longer), weights(whole))


def test_a_schedule_that_depends_on_the_length_explains_itself(run: Path) -> None:
    make(run, schedule=OneCycle(max_lr=0.2)).fit()
    with pytest.raises(
        DescriptionError, match="This schedule depends on the length of the run, so a run of another length is another one"
    ):
        make(run, schedule=OneCycle(max_lr=0.2), epochs=5).fit()


def test_other_threads_are_a_notice(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stop_at(make(run), 5)
    described = json.loads((run / "run.json").read_text())
    described["threads"] = 64
    (run / "run.json").write_text(json.dumps(described))
    make(run, progress=True).fit()
    shown = capsys.readouterr().err
    assert "threads was 64 before, is 1 now" in shown
    assert "going on from step 6" in shown


# --- Damage and trouble


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stop_at(make(run, checkpoint_every=1, keep=None), 7)
    file = run / "checkpoints" / "step-00000008" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    trainer = make(run, checkpoint_every=1, keep=None, progress=True)
    trainer.fit()
    assert "step-00000008 is damaged: model.safetensors has the checksum" in capsys.readouterr().err.replace("\n", " ")
    whole = make(run.with_name("whole"))
    whole.fit()
    assert torch.equal(weights(trainer), weights(whole))
    assert trainer.history.to_dicts(clock=False) == whole.history.to_dicts(clock=False)


def test_a_torn_line_of_the_history_is_repaired(run: Path) -> None:
    stop_at(make(run), 5)
    with (run / "history.jsonl").open("a") as file:
        file.write('{"kind": "update", "step": 7, "lo')
    trainer = make(run)
    trainer.fit()
    whole = make(run.with_name("whole"))
    whole.fit()
    assert trainer.history.to_dicts(clock=False) == whole.history.to_dicts(clock=False)


def test_a_run_killed_before_its_first_checkpoint_begins_again(run: Path) -> None:
    trainer = make(run)
    trainer.fit()
    for path in (run / "checkpoints").glob("step-*"):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    again = make(run)
    again.fit()
    assert torch.equal(weights(trainer), weights(again))
    assert again.history.to_dicts(clock=False) == trainer.history.to_dicts(clock=False)


def test_a_lost_history_is_said(run: Path) -> None:
    stop_at(make(run), 5)
    (run / "history.jsonl").unlink()
    with pytest.raises(FolderError, match=r"has 0 of the .* rows to go on from; put the file back, or start again"):
        make(run).fit()


def test_a_description_that_cannot_be_read(run: Path) -> None:
    run.mkdir()
    (run / "run.json").write_text("{")
    with pytest.raises(FolderError, match=r"run\.json cannot be read"):
        make(run).fit()


def test_a_file_in_place_of_the_folder(run: Path) -> None:
    run.write_text("not a folder")
    with pytest.raises(FolderError, match="is a file, and a run is kept in a folder"):
        make(run).fit()


def test_what_cannot_be_kept_is_refused_before_training(run: Path) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(FEATURES, CLASSES)
            self.register_buffer("odd", torch.zeros(3, 3).to_sparse())

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.inner(x)
            return output

    with pytest.raises(CheckpointError, match="odd"):
        make(run, model=Odd()).fit()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_stops_the_run(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        model = nn.Sequential(nn.Linear(FEATURES, 2000), nn.Linear(2000, CLASSES))  # 90 kB, and as much momentum
        trainer = make(disk / "run", model=model, checkpoint_every=1, keep=None)
        with pytest.raises(CheckpointError, match=r"the disk of .* is full"):
            trainer.fit()
        kept = steps(disk / "run")
        assert kept
        assert kept[-1] < 12
        trainer.load(kept[-1])  # those that were written are whole
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_full_to_the_last_byte_loses_nothing_and_lets_go_of_the_folder(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        trainer = make(disk / "run", log_every=1)
        with pytest.raises((CheckpointError, FolderError), match=r"full|No space left|cannot be written"):
            for update in trainer.updates():
                if update.step == 4:
                    with pytest.raises(OSError, match="No space left"), (disk / "filler").open("wb", buffering=0) as filler:
                        while filler.write(bytes(4096)) == 4096:
                            pass
                        raise OSError("No space left")
        (disk / "filler").unlink()
        again = make(disk / "run", log_every=1)
        again.fit()  # from the checkpoint at step 4; nobody holds the folder
        whole = make(None, log_every=1)
        whole.fit()
        assert torch.equal(weights(again), weights(whole))
        assert again.history.to_dicts(clock=False) == whole.history.to_dicts(clock=False)
    finally:
        subprocess.run(["umount", disk], check=True)


# --- One process at a time


def test_two_trainers_in_one_folder(run: Path) -> None:
    first = make(run)
    updates = first.updates()
    assert isinstance(updates, Generator)
    next(updates)
    with pytest.raises(FolderError, match=rf"is in use by process {os.getpid()}; wait for it, stop it, or use another folder"):
        make(run).fit()
    updates.close()
    make(run).fit()
    with pytest.raises(FolderError, match="was changed since this Trainer paused at step 1; make a new Trainer"):
        first.fit()


def test_a_crash_leaves_no_lock_behind(run: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            updates = make(run, checkpoint_every=1).updates()
            next(updates)
            time.sleep(60)
        finally:
            os._exit(1)
    while not (run / "run.json").exists():
        time.sleep(0.01)
    time.sleep(0.2)
    with pytest.raises(FolderError, match=f"is in use by process {child}"):
        make(run).fit()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    make(run, checkpoint_every=1).fit()


SCRIPT = """
import signal, sys, torch
from torch import nn
from instep import Trainer
from instep.errors import Interrupted

class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        if self.calls == 3:
            print("signal", flush=True)
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            print("never", flush=True)
        return self.inner(x)

model = Slow()
trainer = Trainer(model, loss=nn.functional.cross_entropy, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                  train=(torch.randn(50, 2), torch.zeros(50, dtype=torch.long)), batch_size=5, epochs=3, progress=False)
try:
    trainer.fit()
except Interrupted:
    print("gently")
except KeyboardInterrupt:
    print("at once")
"""


def test_a_second_ctrl_c_stops_at_once(programs: Programs) -> None:
    said = programs.run(["-c", SCRIPT], check=True).stdout
    assert said.split() == ["signal", "at", "once"]


def test_init_starts_from_the_weights_of_a_run_or_file(run: Path) -> None:
    trained = make(run)
    trained.fit()
    assert torch.equal(weights(make(run.with_name("b"), model=TASKS[0].build(5, torch.float32), init=run)), weights(trained))
    file = run / "checkpoints" / "step-00000012" / "model.safetensors"
    assert torch.equal(weights(make(run.with_name("c"), model=TASKS[0].build(5, torch.float32), init=file)), weights(trained))


def test_nothing_is_warned_about(run: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(run).fit()


@pytest.mark.parametrize(
    ("log_every", "steps"),
    [(25, [26, 52]), (10, [10, 20, 26, 36, 46, 52]), (12, [12, 26, 38, 52]), (100, [26, 52])],
)
def test_a_short_rest_of_an_epoch_has_no_row_of_its_own(log_every: int, steps: list[int]) -> None:
    x, y = TASKS[0].draw(52, seed=0, dtype=torch.float32)
    trainer = make(None, train=(x, y), valid=None, batch_size=2, epochs=2, log_every=log_every)
    trainer.fit()
    assert [row["step"] for row in trainer.history.rows if row["kind"] == "update"] == steps
