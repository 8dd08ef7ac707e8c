"""Sweeps with the real Optuna: trials are runs, a killed sweep goes on, pruned trials are promoted and go on exactly."""

import functools
import json
import math
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cli import conftest as commands
from cli.said import Instep
from instep import Trainer, sweep
from instep.errors import DescriptionError, FolderError, InstepError
from instep.integrations.sweep.record import Ending
from instep.integrations.sweep.space import Choices, Parameter, Range
from instep.run.lock import Lock
from instep.run.run_files import read_run
from integrations.swept import BUILD, history_of, stored_states, weights_of

pytestmark = pytest.mark.extras
pytest.importorskip("optuna")

SPACE = ("lr=log:1e-3..10", "width=4,8")
QUICK = ("--epochs", "2", "--trials", "3")


folder, instep = commands.folder, commands.instep


@pytest.fixture(autouse=True)
def my_file(folder: Path) -> None:
    (folder / "my.py").write_text(BUILD)


def build(lr: float = 0.1, width: int = 8, epochs: int = 3, seed: int = 0) -> Trainer:
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(5))
    y = (x[:, :3].sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 2))
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr),
        train=(x, y),
        valid=0.25,
        epochs=epochs,
        batch_size=16,
        metrics="accuracy",
        seed=seed,
    )


# --- The command


def test_trials_are_runs_and_each_is_the_run_of_its_parameters(instep: Instep) -> None:
    said = instep("sweep", "my.py", *SPACE, *QUICK)
    assert said.code == 0, said.err
    assert "trial  " in said.out
    assert "The best valid/loss is " in said.out
    assert "train the best again  instep train my.py --new --epochs 2 --lr=" in said.out
    assert said.err.count("finished") == 3
    for trial in range(3):
        run = Path(f"runs/my-sweep/trial-{trial:04}")
        description = json.loads((run / "run.json").read_text())
        options = description["script"]["options"]
        assert instep("train", "my.py", *options, "--folder", f"again-{trial}", "--no-progress").code == 0
        assert weights_of(Path(f"again-{trial}")) == weights_of(run)
        assert history_of(Path(f"again-{trial}")) == history_of(run)
    assert instep("evaluate", "runs/my-sweep/trial-0001").code == 0  # it can be built again


def test_the_same_command_again_trains_nothing_and_more_trials_extend_it(instep: Instep) -> None:
    first = instep("sweep", "my.py", *SPACE, *QUICK, "--json")
    before = json.loads(first.out)
    again = instep("sweep", "my.py", *SPACE, *QUICK, "--json")
    assert json.loads(again.out) == before
    assert again.err == ""
    more = json.loads(instep("sweep", "my.py", *SPACE, "--epochs", "2", "--trials", "5", "--json").out)
    by_number = {row["trial"]: row for row in more["trials"]}
    assert sorted(by_number) == [0, 1, 2, 3, 4]
    assert [by_number[row["trial"]] for row in before["trials"]] == before["trials"]
    # and in one go
    whole = instep("sweep", "my.py", *SPACE, "--epochs", "2", "--trials", "5", "--folder", "whole", "--json")
    assert _without_folders(json.loads(whole.out)) == _without_folders(more)


def test_another_sweep_in_the_folder_is_refused_and_fresh_moves_the_old_one_aside(instep: Instep) -> None:
    assert instep("sweep", "my.py", *SPACE, *QUICK).code == 0
    other = instep("sweep", "my.py", "lr=0..1", *QUICK)
    assert other.code == 2
    assert "runs/my-sweep holds a sweep with space lr=log:0.001..10.0 width=4,8, this one has lr=0.0..1.0" in other.err
    assert "use another --folder" in other.err
    longer = instep("sweep", "my.py", *SPACE, "--epochs", "5")
    assert "holds a sweep with values epochs=2 seed=0, this one has epochs=5 seed=0" in longer.err
    assert "instep sweep --fresh moves the old sweep aside" in longer.err
    assert instep("sweep", "my.py", "lr=0..1", *QUICK, "--fresh").code == 0
    assert len(list(Path("runs").glob("my-sweep*"))) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say what to try, after the file: lr=log:1e-4..1e-1 for a range, width=8,16,32 for choices."),
        (("lr=0..1", "lr=0..2"), "lr is there twice, as lr=0..1 and lr=0..2; use one."),
        (("lr=0..1", "--lr", "2"), "lr is searched (lr=0..1) and given as an option as well; leave one out."),
        (("wdith=1,2",), "build() of my.py has no parameter 'wdith'; did you mean width?"),
        (("width=1,x",), "width of build() of my.py is int, and 'x' is not."),
        (("lr=0..1", "--metric", "valid/acuracy"), "--metric 'valid/acuracy' is no number of an evaluation; there will be"),
        (("lr=0..1", "--trials", "0"), "--trials 0 must be a whole number, 1 or more."),
        (("lr=0..1", "--jobs", "0"), "--jobs 0 must be a whole number, 1 or more."),
        (("lr=0..1", "--pruner", "garden"), "--pruner"),
        (("lr=0..1", "--epoch", "3"), "instep sweep my.py has no option --epoch; did you mean --epochs?"),
    ],
)
def test_a_slip_is_one_line_before_the_first_trial(instep: Instep, arguments: tuple[str, ...], words: str) -> None:
    said = instep("sweep", "my.py", *arguments)
    assert said.code == 2
    assert words in " ".join(said.err.split())
    assert not Path("runs").exists()


def test_help_names_the_options_of_both(instep: Instep) -> None:
    said = instep("sweep", "my.py", "--help")
    assert said.code == 0
    for name in ("--trials", "--pruner", "--metric", "--jobs", "--epochs", "--sampler-seed"):
        assert name in said.out


# --- Killed, stopped, pruned, promoted

HALVING = ("sweep", "my.py", *SPACE, "--trials", "9", "--pruner", "halving", "--sampler-seed", "3")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The sweep that nothing interrupted; its folders are absolute."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "my.py").write_text(BUILD)
    found = _finished(folder, str(folder / "whole"), HALVING)
    assert any(row["state"] == "pruned" for row in found["trials"])
    return found


def test_a_killed_sweep_goes_on_as_if_it_had_not_been(folder: Path, whole: dict[str, Any]) -> None:
    """Killed four times, at any moment, it has the trials of the one that was not: parameters, values, weights, histories."""
    chance = random.Random(1)
    kills = 0
    for _ in range(4):
        with _started(folder, "killed", HALVING) as process:
            _wait_for_training(process, folder / "killed", chance)
            if process.poll() is None:
                kills += 1
                process.kill()
    assert kills >= 2
    _require_same(folder / "killed", _finished(folder, "killed", HALVING), whole)


def _require_same(sweep: Path, killed: dict[str, Any], whole: dict[str, Any]) -> None:
    assert _without_folders(killed) == _without_folders(whole)
    assert stored_states(sweep).get("RUNNING", 0) == 0
    for row in whole["trials"]:
        run = Path(row["folder"])
        assert weights_of(sweep / run.name) == weights_of(run)
        assert history_of(sweep / run.name) == history_of(run)


KILLED_AFTER_REPORT = """
import os, signal, sys
from instep.cli import main
from instep.integrations.optuna import Study

report, at = Study.report, sys.argv.pop(1)

def killed(study, trial, evaluation, *given):
    stops = report(study, trial, evaluation, *given)
    if f"{trial}:{evaluation}:{stops}" == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return stops

Study.report = killed
main()
"""


@pytest.mark.parametrize("at", ["3:3:True", "1:9:True", "1:3:False"])
def test_killed_right_after_an_evaluation_was_stored(folder: Path, whole: dict[str, Any], at: str) -> None:
    """Before the run could save what the pruner stopped, at the last evaluation of a run, and where the trial goes on."""
    command = [sys.executable, "-c", KILLED_AFTER_REPORT, at, *HALVING, "--folder", "killed", "--json"]
    assert subprocess.run(command, check=False, cwd=folder, capture_output=True).returncode == -signal.SIGKILL
    shutil.rmtree(folder / "killed" / f"trial-000{at[0]}" / "checkpoints")  # as if none had been complete yet
    _require_same(folder / "killed", _finished(folder, "killed", HALVING), whole)


def test_a_pruned_trial_goes_on_by_hand_to_its_full_length(instep: Instep) -> None:
    rows = json.loads(instep(*HALVING, "--json").out)["trials"]
    pruned = next(row for row in rows if row["state"] == "pruned")
    options = json.loads((Path(pruned["folder"]) / "run.json").read_text())["script"]["options"]
    assert instep("train", "my.py", *options, "--folder", pruned["folder"], "--no-progress").code == 0
    assert instep("train", "my.py", *options, "--folder", "straight", "--no-progress").code == 0
    assert read_run(Path(pruned["folder"])).state == "finished"
    assert weights_of(Path(pruned["folder"])) == weights_of(Path("straight"))


def test_a_promoted_trial_is_the_run_that_was_never_stopped(folder: Path) -> None:
    """The second trial is behind the first and stops at its first evaluation; six later it is among the best third."""
    tried: list[float] = [1.0, 0.5, 1e-3, 2e-3, 3e-3, 4e-3]

    def choose(seed: int) -> Any:
        import optuna

        class Fixed(optuna.samplers.RandomSampler):  # type: ignore[misc]
            def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> float:
                return tried[trial.number] if trial.number < len(tried) else 5e-3

        return Fixed(seed=seed)

    result = sweep(
        build, {"lr": "1e-4..2"}, trials=6, pruner="halving", sampler=choose, fixed={"epochs": 4}, folder="s", progress=False
    )
    second = next(row for row in result.rows if row.number == 1)
    assert second.parameters["lr"] == 0.5
    assert second.evaluations > 1  # it went on
    storage = stored_states(folder / "s")
    assert sum(storage.values()) > 6  # entries of the storage, of which the result has one a trial
    assert [row.number for row in sorted(result.rows, key=lambda row: row.number)] == [0, 1, 2, 3, 4, 5]
    trainer = build_by(lr=0.5, epochs=4)
    trainer.run.set_folder("straight")
    trainer.run.set_progress(False)
    evaluated = 0
    for _ in trainer.updates():
        evaluated = len(trainer.history.evaluations)
        if evaluated == second.evaluations:
            break
    assert weights_of(Path("straight")) == weights_of(second.folder)
    assert history_of(Path("straight")) == history_of(second.folder)


def build_by(**values: Any) -> Trainer:
    from instep import keys

    keys.seed_all(keys.for_build(0))
    return build(**values)


def test_ctrl_c_stops_after_an_update_and_the_same_command_goes_on(folder: Path) -> None:
    long = ("sweep", "my.py", *SPACE, "--trials", "2", "--epochs", "4000")
    process = _started(folder, "stopped", long)
    _wait_for((folder / "stopped" / "trial-0000" / "history.jsonl").exists, process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 143, said
    assert "stopped by SIGTERM after 0 trials; stopped has all to go on from: start it again." in " ".join(said.split())
    assert read_run(folder / "stopped" / "trial-0000").state == "interrupted"


def test_two_jobs_train_the_same_trials_and_end_with_a_sweep_that_is_killed(folder: Path, instep: Instep) -> None:
    two = ("sweep", "my.py", *SPACE, *QUICK, "--sampler", "random")
    alone = json.loads(instep(*two, "--folder", "alone", "--json").out)
    together = _finished(folder, "together", (*two, "--jobs", "2"))
    assert _without_folders(together)["trials"] == _without_folders(alone)["trials"]
    with _started(folder, "killed", ("sweep", "my.py", *SPACE, "--epochs", "4000", "--jobs", "2")) as process:
        _wait_for(lambda: len(list((folder / "killed").glob("trial-*/history.jsonl"))) == 2, process)
        process.kill()
    for run in (folder / "killed").glob("trial-*"):
        _wait_for(functools.partial(_is_free, run))


def _is_free(run: Path) -> bool:
    lock = Lock(run)
    try:
        lock.take()
    except FolderError:
        return False
    lock.release()
    return True


# --- In Python


def test_a_sweep_in_python_gives_a_table_the_best_and_a_page() -> None:
    state = torch.random.get_rng_state()
    result = sweep(build, {"lr": "log:1e-2..1", "width": [4, 8]}, trials=6, fixed={"epochs": 2}, progress=False)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert result.folder == Path("runs/test_sweep-sweep")
    assert (result.metric, result.metric_mode) == ("valid/loss", "min")
    values = [row.value for row in result.rows]
    assert values == sorted(values, key=lambda value: value or math.inf)
    assert result.best is result.rows[0]
    assert result.best.value == read_run(result.best.folder).history.best["valid/loss"]  # type: ignore[index]
    assert result.to_dicts()[0]["lr"] == result.best.parameters["lr"]
    assert set(result.importances) == {"lr", "width"}
    assert math.isclose(sum(result.importances.values()), 1.0)
    shown = result._repr_html_()
    assert shown.count("<svg") == 2
    assert "The best valid/loss is " in str(result)
    assert (result.folder / "report.html").read_text().startswith("<!doctype html>")


def test_more_of_an_accuracy_is_better() -> None:
    result = sweep(build, {"lr": [1e-4, 1.0]}, trials=2, metric="valid/accuracy", fixed={"epochs": 4}, progress=False)
    assert result.metric_mode == "max"
    assert result.best is not None
    assert result.best.value == max(row.value or 0.0 for row in result.rows)


def test_a_sweep_is_the_same_twice_and_another_with_another_seed() -> None:
    def chosen(folder: str, seed: int) -> list[Any]:
        result = sweep(build, {"lr": "0..1"}, trials=3, fixed={"epochs": 1}, folder=folder, seed=seed, progress=False)
        return sorted((row.number, row.parameters["lr"], row.value) for row in result.rows)

    assert chosen("a", 0) == chosen("b", 0)
    assert chosen("a", 0) != chosen("c", 1)


def diverging(lr: float = 0.1) -> Trainer:
    if lr == 3.0:
        raise ValueError("three is too many")
    return build(lr=math.nan if lr > 1 else lr)


def test_a_trial_that_diverges_or_fails_does_not_end_the_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    result = sweep(diverging, {"lr": [0.1, 2.0, 3.0]}, trials=8, sampler="random")
    states = {row.parameters["lr"]: row for row in result.rows}
    assert {lr: row.state for lr, row in states.items()} == {0.1: "finished", 2.0: "diverged", 3.0: "failed"}
    assert "ValueError: three is too many (test_sweep.py:" in states[3.0].error
    assert result.best is not None
    assert result.best.parameters["lr"] == 0.1
    assert "failed: ValueError: three is too many" in capsys.readouterr().err
    assert result._repr_html_()


def failing(lr: float = 0.1) -> Trainer:
    if lr != 0.0:
        raise RuntimeError("no luck")
    return build()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"space": {"lr": [0.0, 1.0, 2.0]}, "sampler": lambda seed: _second()}, "the first 3 trials failed, so the sweep stops"),
        ({"pruner": "garden"}, "pruner='garden' is not known; use none, median, halving, hyperband, or a pruner of Optuna's"),
        ({"sampler": "dice"}, "sampler='dice' is not known; use tpe, random, or a function that makes one"),
        ({"metric_mode": "up"}, "metric_mode='up' is not known"),
        ({"seed": -1}, "seed=-1 is not a whole number"),
        ({"jobs": 2, "build": lambda lr=0.1: build(lr)}, "jobs=2 starts processes, which have to import build"),
    ],
)
def test_what_cannot_be_swept(given: dict[str, Any], words: str) -> None:
    function = given.pop("build", failing)
    with pytest.raises(InstepError, match=words):
        sweep(function, **{"space": {"lr": [0.0, 1.0]}, "progress": False, **given})


def _second() -> Any:
    import optuna

    class Second(optuna.samplers.RandomSampler):  # type: ignore[misc]
        def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> float:
            return 1.0

    return Second(seed=0)


def no_evaluations(lr: float = 0.1) -> Trainer:
    model = nn.Linear(2, 1)
    data = torch.randn(8, 2), torch.randn(8, 1)
    return Trainer(model, loss=nn.functional.mse_loss, optimizer=torch.optim.SGD(model.parameters(), lr=lr), train=data, epochs=1)


def test_a_run_without_evaluations_cannot_be_swept() -> None:
    with pytest.raises(DescriptionError, match="a sweep goes by a number of the evaluations, and this run has no evaluations"):
        sweep(no_evaluations, {"lr": "0..1"})


def test_another_sweep_cannot_use_the_folder_at_the_same_time() -> None:
    Path("s").mkdir()
    lock = Lock(Path("s"))
    lock.take()
    with pytest.raises(FolderError, match="s is in use by process"):
        sweep(build, {"lr": "0..1"}, folder="s", progress=False)
    lock.release()


DOCS = Path(__file__).parents[2] / "docs" / "sweeps.md"
EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep.py"


def test_the_page_of_the_docs_tells_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python extras\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for code in blocks:
        exec(compile(code, str(DOCS), "exec"), {"__name__": "page"})
        assert "The best valid/loss is" in capsys.readouterr().out


def test_the_example_runs(folder: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--trials", "3", "--epochs", "3"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout
    assert "The best valid/accuracy is" in said
    assert (folder / "runs" / "sweep-sweep" / "report.html").exists()


# --- The storage


def made_study(folder: Path, pruner: str, mode: Any = "min") -> Any:
    from instep.integrations.optuna import Study, pruner_of, sampler_of

    space: dict[str, Parameter] = {"lr": Range(0.0, 1.0), "width": Choices((1, 2))}
    given: dict[str, Any] = {"mode": mode, "pruner": pruner_of(pruner, 9), "sampler": sampler_of("tpe")}
    return Study(folder, space, **given, seed=0, settings={})


def test_the_pruner_says_the_same_when_it_is_asked_again(folder: Path) -> None:
    """As it must where a sweep is killed between an evaluation and what comes of it."""
    study = made_study(folder, "halving")
    for value in (1.0, 2.0):
        trial = study.ask().trial
        answers = [study.report(trial, 1, value, False), study.report(trial, 1, value, False), study.stops(trial)]
        assert answers == [value == 2.0] * 3
        study.finish(trial, Ending("pruned" if value == 2.0 else "finished"))
    study.close()


def test_entries_that_were_never_begun_are_no_trials(folder: Path) -> None:
    study = made_study(folder, "none")
    chosen = dict(study.ask().stored)
    second = dict(study.ask().stored)
    study.close()
    (folder / "killed").mkdir()
    killed = made_study(folder / "killed", "none")
    assert dict(killed.ask().stored) == chosen
    killed._study.ask()  # and killed before it was one
    killed.close()
    again = made_study(folder / "killed", "none")
    assert [record.trial for record in again.records()] == [0]
    assert dict(again.ask().stored) == second
    again.close()


def test_optuna_keeps_its_own_voice(folder: Path) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    made_study(folder, "hyperband").close()
    assert optuna.logging.get_verbosity() == before


def test_errors_travel_between_processes() -> None:
    from instep.integrations.sweep.jobs import _portable

    class Local(Exception):
        pass

    assert isinstance(_portable(Local("x")), InstepError)
    assert str(pickle.loads(pickle.dumps(_portable(Local("x"))))) == "Local: x"


# --- Processes


def _started(folder: Path, name: str, arguments: tuple[str, ...]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "instep", *arguments, "--folder", name, "--json"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def _finished(folder: Path, name: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    out, err = _started(folder, name, arguments).communicate(timeout=300)
    assert out, err
    found: dict[str, Any] = json.loads(out)
    return found


def _wait_for_training(process: "subprocess.Popen[str]", sweep: Path, chance: random.Random) -> None:
    """Until the sweep has trained a bit more than before."""
    before = len(list(sweep.glob("trial-*")))
    _wait_for(lambda: len(list(sweep.glob("trial-*"))) > before or process.poll() is not None, process)
    time.sleep(chance.random())


def _wait_for(happens: Callable[[], bool], process: "subprocess.Popen[str] | None" = None) -> None:
    deadline = time.monotonic() + 300
    while not happens():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)


def _without_folders(told: dict[str, Any]) -> dict[str, Any]:
    rows = [{name: value for name, value in row.items() if name != "folder"} for row in told["trials"]]
    return {**told, "folder": "", "trials": rows, "best": {**told["best"], "folder": ""}}
