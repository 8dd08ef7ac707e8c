"""`instep train`: from a command line to a run folder."""

import json
import os
import re
import signal
import time
import warnings
from pathlib import Path

import pytest
import torch

from cli.said import BUILD, Instep
from instep import keys
from instep.cli.border import WrongUse
from instep.cli.train import split_arguments
from instep.run.lock import Lock
from instep.run.run_files import section
from programs import Programs


def described(folder: str | Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(folder, "run.json").read_text())
    return found


def state(folder: str | Path) -> object:
    status = described(folder)["status"]
    assert isinstance(status, dict)
    return status["state"]


def written(text: str, name: str = "my.py") -> str:
    Path(name).write_text(text)
    return name


# --- Training


@pytest.mark.usefixtures("build_file")
def test_a_file_is_trained_into_runs_under_its_name(instep: Instep) -> None:
    said = instep("train", "my.py", "--lr", "0.05", "--epochs", "3", "--deep")
    assert said.code == 0
    assert "model      Sequential, 27 parameters" in said.out
    assert "epoch 3/3  step 6/6" in said.err
    lines = said.out.splitlines()
    assert lines[-1].startswith("  instep report runs/my")
    assert "finished: 3 epochs, 6 updates in 0:00" in lines
    assert re.search(r"\n  last     train/loss [\d.]+, valid/loss [\d.]+, valid/accuracy [\d.]+\n", said.out)
    assert instep("report", "runs/my").code == 0
    assert described("runs/my")["hyper_parameters"] == {"lr": 0.05, "epochs": 3, "deep": True, "seed": 0}
    assert state("runs/my") == "finished"


@pytest.mark.usefixtures("build_file")
def test_json_is_all_that_stands_on_stdout(instep: Instep) -> None:
    said = instep("train", "--json", "my.py")
    numbers = json.loads(said.out)
    assert said.code == 0
    assert said.out.count("\n") == 1
    assert (numbers["folder"], numbers["steps"]) == ("runs/my", 4)
    assert set(numbers["final"]) == {"step", "epoch", "train/loss", "valid/loss", "valid/accuracy"}
    assert "model      Linear, 15 parameters" in said.err


@pytest.mark.usefixtures("build_file")
def test_the_same_command_gives_the_same_numbers_whatever_was_drawn_before(instep: Instep) -> None:
    def final(folder: str, *options: str) -> object:
        torch.rand(3)
        numbers = json.loads(instep("train", "my.py", "--json", "--folder", folder, *options).out)
        return numbers["final"]

    first = final("a")
    assert final("b") == first
    assert final("c", "--seed", "1") != first


def test_build_runs_under_the_key_of_the_seed(instep: Instep) -> None:
    written("import torch\ndef build(seed: int = 3):\n    raise KeyError(torch.rand(1).item())\n")
    said = instep("train", "my.py", "--seed", "5")
    keys.seed_all(keys.for_build(5))
    assert f"KeyError: {torch.rand(1).item()}" in said.err


@pytest.mark.usefixtures("build_file")
def test_the_folder_of_build_is_kept_and_that_of_the_command_wins(instep: Instep) -> None:
    written(BUILD.replace("seed=seed,\n", "seed=seed, folder='mine',\n"), "own.py")
    assert instep("train", "own.py").code == 0
    assert instep("train", "--folder", "yours", "own.py").code == 0
    assert state("mine") == state("yours") == "finished"
    assert not Path("runs").exists()


@pytest.mark.usefixtures("build_file")
def test_fresh_moves_the_old_run_aside(instep: Instep) -> None:
    assert instep("train", "my.py").code == 0
    again = instep("train", "my.py")
    assert again.code == 0
    assert "runs/my is finished (4 updates): nothing is left to train" in again.err
    assert again.out.count("--new trains again in a new folder, --fresh in this one") == 1
    assert "This run was finished already. --new trains again" in instep("train", "my.py", "--no-progress").out
    other = instep("train", "my.py", "--lr", "0.2")
    assert other.code == 2
    assert "runs/my holds a run with another description (before -> now):" in other.err
    assert "hyper_parameters.lr: 0.1 -> 0.2" in other.err
    assert other.err.count("lr: 0.1 -> 0.2") == 1
    assert other.err.endswith(
        "\nTrain in a new folder with --new (runs/my-2) or --folder PATH, or move the old run aside with --fresh. To go on with "
        "the old run under these changes: --allow-changes lr\n"
    )
    before = Path("runs/my/history.jsonl").read_bytes()
    for count in (2, 3):
        said = instep("train", "my.py", "--fresh", "--lr", "0.2")
        assert said.code == 0
        assert re.match(r"the old run is now runs/my\.\d{4}-\d\d-\d\d-\d{6}(-\d)?\n", said.out)
        assert len(list(Path("runs").iterdir())) == count
    assert before in [path.read_bytes() for path in Path("runs").glob("my.*/history.jsonl")]


@pytest.mark.usefixtures("build_file")
def test_new_trains_in_the_next_free_folder(instep: Instep) -> None:
    assert json.loads(instep("train", "my.py", "--json", "--new").out)["folder"] == "runs/my"
    before = Path("runs/my/history.jsonl").read_bytes()
    said = instep("train", "my.py", "--new", "--lr", "0.2")
    assert said.code == 0
    assert said.out.startswith("runs/my holds a run already; this one goes to runs/my-2\n\n")
    assert instep("train", "--new", "my.py").code == 0
    Path("mine").mkdir()
    assert json.loads(instep("train", "my.py", "--json", "--new", "--folder", "mine").out)["folder"] == "mine"
    assert sorted(path.name for path in Path("runs").iterdir()) == ["my", "my-2", "my-3"]
    assert before == Path("runs/my/history.jsonl").read_bytes()
    assert instep("train", "my.py").out.splitlines()[-1].startswith("  instep report runs/my ")


@pytest.mark.usefixtures("build_file")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--new --fresh", "--new leaves the old run where it is, --fresh moves it aside; leave one out."),
        (
            "--new --processes 2 --max-restarts 1",
            "--new would begin in another folder after each restart; with --max-restarts name one: --folder PATH.",
        ),
    ],
)
def test_what_new_does_not_go_with(instep: Instep, options: str, words: str) -> None:
    said = instep("train", "my.py", *options.split())
    assert (said.code, said.err) == (2, f"instep: {words}\n")


@pytest.mark.usefixtures("build_file")
def test_changes_can_be_allowed(instep: Instep) -> None:
    assert instep("train", "my.py").code == 0
    longer = instep("train", "my.py", "--lr", "0.2", "--epochs", "3", "--allow-changes", "lr")
    assert longer.code == 0, longer.err
    assert described("runs/my")["hyper_parameters"] == {"lr": 0.2, "epochs": 3, "deep": False, "seed": 0}
    other = instep("train", "my.py", "--lr", "0.3", "--seed", "1", "--epochs", "3", "--allow-changes", "lr")
    assert other.code == 2
    assert "--allow-changes seed" in other.err
    assert "allow_changes=" not in other.err


def test_another_number_of_workers_is_the_same_run(instep: Instep, build_file: Path) -> None:
    given = BUILD.replace("seed: int = 0", "seed: int = 0, workers: int = 0")
    build_file.write_text(given.replace("seed=seed,", "seed=seed, num_workers=workers,"))
    assert instep("train", "my.py").code == 0
    assert instep("train", "my.py", "--workers", "1", "--epochs", "3").code == 0
    assert section(described("runs/my"), "hyper_parameters")["workers"] == 1
    build_file.write_text(given)  # where it does not go to the loader, it may be anything
    other = instep("train", "my.py", "--workers", "3", "--epochs", "3")
    assert other.code == 2
    assert "hyper_parameters.workers: 1 -> 3" in other.err


@pytest.mark.usefixtures("build_file")
def test_a_folder_that_cannot_be_written_is_said_in_words_of_the_command(instep: Instep) -> None:
    Path("runs").mkdir()
    Path("runs/my").mkdir()
    Path("runs/my/checkpoints").write_text("in the way")
    said = instep("train", "my.py")
    assert said.code == 1
    assert "is not a folder. Move away what has its name, or use another --folder." in said.err
    for inner in ("", "/run"):
        said = instep("train", "my.py", "--folder", f"runs/my/checkpoints{inner}")
        assert "instep: runs/my/checkpoints is a file, and a run is kept in a folder; name another, or move" in said.err


@pytest.mark.usefixtures("build_file")
def test_fresh_leaves_alone_a_run_that_goes_on(instep: Instep) -> None:
    assert instep("train", "my.py").code == 0
    lock = Lock(Path("runs/my"))
    lock.take()
    said = instep("train", "my.py", "--fresh")
    lock.release()
    assert said.code == 2
    assert "runs/my is in use by process" in said.err
    assert instep("train", "my.py", "--fresh").code == 0


@pytest.mark.usefixtures("build_file")
def test_fresh_leaves_alone_what_is_no_run(instep: Instep) -> None:
    Path("data").mkdir()
    Path("data/thesis.txt").write_text("do not lose me")
    said = instep("train", "my.py", "--fresh", "--folder", "data")
    assert said.code == 2
    assert said.err == "instep: data holds no run (run.json is missing), so --fresh leaves it alone; use another --folder.\n"
    assert os.listdir() == ["my.py", "data"] or sorted(os.listdir()) == ["data", "my.py"]
    Path("empty").mkdir()
    assert instep("train", "my.py", "--fresh", "--folder", "empty").code == 0


@pytest.mark.usefixtures("build_file")
def test_a_dry_run_writes_nothing(instep: Instep) -> None:
    said = instep("train", "my.py", "--dry-run", "--fresh")
    assert said.code == 0
    assert "updates    2 an epoch, 4 in all (2 epochs)" in said.out
    assert said.out.endswith("\nok: two updates and an evaluation went through; nothing was written.\n")
    assert os.listdir() == ["my.py"]
    assert json.loads(instep("train", "my.py", "--dry-run", "--json").out) == {"dry_run": "ok"}


@pytest.mark.usefixtures("build_file")
def test_progress_can_be_switched_off(instep: Instep) -> None:
    said = instep("train", "my.py", "--no-progress")
    assert (said.code, said.err) == (0, "")
    assert "valid/accuracy" in said.out
    both = instep("train", "my.py", "--no-progress", "--progress")
    assert (both.code, both.err) == (2, "instep: --progress and --no-progress say the opposite; leave one out.\n")


@pytest.mark.usefixtures("build_file")
def test_loggers_by_name(instep: Instep) -> None:
    said = instep("train", "--logger", "csv", "my.py", "--epochs", "1")
    assert said.code == 0
    rows = Path("runs/my/metrics.csv").read_text().splitlines()
    assert rows[0].startswith("kind,step,epoch,loss,lr,")
    assert [row.split(",")[0] for row in rows[1:]] == ["update", "evaluation"]
    assert instep("evaluate", "runs/my").code == 0  # which builds it again
    unknown = instep("train", "my.py", "--new", "--logger", "tensorbord")
    assert (unknown.code, unknown.err) == (2, "instep: no logger is called 'tensorbord'; did you mean 'tensorboard'?\n")
    assert not Path("runs/my-2").exists()


# --- The command line


@pytest.mark.parametrize(
    ("arguments", "target", "rest"),
    [
        ("", None, ""),
        ("my.py", "my.py", ""),
        ("my.py:make --lr 3", "my.py:make", "--lr 3"),
        ("--dry-run my.py --lr 3", "my.py", "--dry-run --lr 3"),
        ("--dry_run --folder a/b my.py", "my.py", "--dry_run --folder a/b"),
        ("--folder=a --json my.py --help", "my.py", "--folder=a --json --help"),
        ("--help my.py", "my.py", "--help"),
        ("--lr 3", None, "--lr 3"),
        ("--json --lr 3", None, "--json --lr 3"),
        ("--folder", None, "--folder"),
        ("--logger csv --logger=wandb my.py", "my.py", "--logger csv --logger=wandb"),
    ],
)
def test_the_file_is_found_between_the_options(arguments: str, target: str | None, rest: str) -> None:
    assert split_arguments(arguments.split()) == (target, rest.split())


def test_a_file_behind_its_options_is_pointed_out() -> None:
    with pytest.raises(
        WrongUse, match=r"^my.py stands after options of its own; the file comes first: instep train my.py \[options…\]$"
    ):
        split_arguments(["--lr", "3", "my.py"])


@pytest.mark.usefixtures("build_file")
def test_help_of_a_file_is_that_of_its_build(instep: Instep) -> None:
    said = instep("train", "my.py", "--help")
    assert said.code == 0
    assert said.out.startswith("usage: instep train my.py [-h] [OPTIONS]")
    assert "Train what a file describes, or the built-in example." in said.out
    assert "build() of my.py: A line through noise." in said.out
    assert "How far an update goes. (default: 0.1)" in said.out
    assert "--deep, --no-deep" in said.out
    assert "--fresh" in said.out


@pytest.mark.usefixtures("build_file")
def test_wrong_use_is_one_line(instep: Instep) -> None:
    for arguments, words in [
        (["my.py", "--lrr", "3"], "instep train my.py has no option --lrr; did you mean --lr? See instep train my.py --help."),
        (["my.py", "--epochs", "x"], "--epochs x is no whole number. See instep train my.py --help."),
        (["my.py", "--processes", "two"], "--processes two is no whole number. See instep train my.py --help."),
        (["you.py"], "you.py does not exist; instep init you.py writes one to start from."),
        (["my.py", "--seed", "-1"], "seed=-1 is not a whole number from 0 to 2**64 - 1."),
    ]:
        said = instep("train", *arguments)
        assert (said.code, said.out, said.err) == (2, "", f"instep: {words}\n")


# --- The user's own code


def test_a_build_that_raises_shows_the_users_traceback(instep: Instep) -> None:
    written("from instep.trainer import Trainer\ndef data(): return {}['images']\ndef build() -> Trainer: return data()\n")
    said = instep("train", "my.py")
    assert said.code == 2
    lines = said.err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "my.py" in lines[1]
    assert "/instep/" not in said.err
    assert lines[-2:] == ["KeyError: 'images'", "instep: build() of my.py raised KeyError."]


def test_a_wrong_description_shows_where_it_stands(instep: Instep) -> None:
    written(BUILD.replace("batch_size=8", "batch_size=0"))
    said = instep("train", "my.py")
    assert said.code == 2
    assert "in build" in said.err
    assert "/instep/" not in said.err
    assert "DescriptionError" not in said.err
    assert re.fullmatch(r"instep: batch_size=0 .*", said.err.splitlines()[-1])


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("None", "instep: build() of my.py returned nothing; it has to end with return Trainer(…)."),
        ("3", "instep: build() of my.py returned a int; it has to return an instep.Trainer."),
    ],
)
def test_a_build_that_returns_no_trainer(instep: Instep, returned: str, words: str) -> None:
    said = instep("train", written(f"def build(): return {returned}\n"))
    assert (said.code, said.err) == (2, f"{words}\n")


def test_a_file_with_a_typing_error_shows_the_line(instep: Instep) -> None:
    said = instep("train", written("def build(:\n"))
    assert said.code == 2
    assert said.err.splitlines()[-2:] == [
        "SyntaxError: invalid syntax",
        "instep: my.py cannot be loaded: SyntaxError: invalid syntax.",
    ]
    assert 'my.py", line 1' in said.err
    assert "importlib" not in said.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "from instep.errors import DescriptionError; raise DescriptionError('batch_size=0 is no size.')",
            "batch_size=0 is no size.",
        ),
        ("import torch; torch.ones(2) @ torch.ones(3)", "RuntimeError: .*size.*"),
        ("raise KeyError", "KeyError."),
    ],
)
def test_a_file_that_raises_says_why_in_its_last_line(instep: Instep, line: str, words: str) -> None:
    said = instep("train", written(f"{line}\n"))
    assert said.code == 2
    assert re.fullmatch(f"instep: my.py cannot be loaded: {words}", said.err.splitlines()[-1])


def test_a_model_that_raises_fails_the_run(instep: Instep) -> None:
    wrong = "class Net(nn.Linear):\n    def forward(self, x): raise ZeroDivisionError('no way')\n"
    written(BUILD.replace("def build", wrong + "\n\ndef build").replace("else nn.Linear", "else Net"))
    said = instep("train", "my.py")
    assert said.code == 1
    assert "in forward" in said.err
    assert "trainer.py" not in said.err
    assert said.err.splitlines()[-2:] == ["ZeroDivisionError: no way", "instep: stopped by a ZeroDivisionError."]
    assert state("runs/my") == "failed"


def test_a_loss_that_is_not_finite_is_one_line(instep: Instep) -> None:
    written(BUILD.replace("nn.functional.cross_entropy", "lambda out, y: out.sum() * float('nan')"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # a loss that Instep does not know counts samples, which it says
        said = instep("train", "my.py")
    assert said.code == 1
    assert "note: <lambda> counts as a mean over samples." in said.err
    assert re.fullmatch(r"instep: step 0 \(epoch 0, batch 0\): .*", said.err.splitlines()[-1])
    assert "Traceback" not in said.err


# --- As the shell sees it


def test_a_starter_trains_and_a_signal_stops_it(folder: Path, instep: Instep, programs: Programs) -> None:
    """The one test with a process: `init`, then `train` until SIGTERM, as a scheduler of jobs would end it."""
    command = ["-c", "import sys; from instep.cli import main; sys.exit(main())", "train", "train.py", "--epochs", "10000"]
    assert instep("init").code == 0
    history, deadline = folder / "runs/train/history.jsonl", time.monotonic() + 300
    with Path("said.txt").open("w") as heard, programs.start(command, stderr=heard.fileno()) as running:
        while not (history.exists() and history.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait() == 143
    err = Path("said.txt").read_text()
    assert re.search(r"instep: stopped by SIGTERM after \d+ updates, all of them kept in runs/train: start it again, .*\n$", err)
    assert state("runs/train") == "interrupted"
