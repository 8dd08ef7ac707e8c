"""`instep replay`: the command that a run names when it stops, a run that is training, and a prompt in a real terminal."""

import os
import pty
import re
import select
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from cli.recorded import describe, described, trained
from cli.said import Instep
from instep.cli import main

FILE = """\
import time

import torch
from torch import nn

from instep.trainer import Trainer


def build(nan: bool = False, slow: bool = False, lr: float = 0.1, epochs: int = 3, seed: int = 0) -> Trainer:
    x = torch.randn(60, 4)
    y = (x[:, 0] > 0).long()
    if nan:
        x[44, 1] = float("nan")
    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.2), nn.Linear(6, 2))

    def loss(out, target):
        if slow:
            time.sleep(0.03)
        return nn.functional.cross_entropy(out, target)

    return Trainer(
        model,
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr),
        train=(x, y),
        epochs=epochs,
        batch_size=6,
        checkpoint_every=4,
        keep=None,
        log_every=1,
    )
"""

pytestmark = [pytest.mark.usefixtures("file"), pytest.mark.filterwarnings("ignore::instep.errors.Notice")]


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "my.py"
    path.write_text(FILE)
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_stops_names_the_command_that_shows_why(instep: Instep) -> None:
    said = instep("train", "my.py", "--nan", "--lr", "0.2", "--no-progress", "--folder", "runs/a run")
    assert said.code == 1
    command = re.search(r"To look at this update: instep (replay .*)$", said.err.strip())
    assert command
    assert re.fullmatch(r"replay 'runs/a run' --step \d+ --anomaly", command[1])
    before = files(Path("runs"))
    said = instep(*shlex.split(command[1]))
    assert (said.code, said.err) == (0, "")
    assert files(Path("runs")) == before
    assert re.search(r"^loss +nan$", said.out, re.MULTILINE)
    assert re.search(r"^stopped +step \d+ \(epoch 0, batch \d+\): the loss is nan;", said.out, re.MULTILINE)
    assert re.search(r"^samples .*\b44\b.* of train$", said.out, re.MULTILINE)
    assert "\n  Sample 44 of train: feature 1 of column 0 is nan.\n" in said.out
    assert "where it comes from\n  column 0 of the batch holds nan\n" in said.out


def test_what_is_shown_of_an_update(instep: Instep) -> None:
    run = trained(instep)
    said = instep("replay", str(run), "--step", "10", "--to", "11")
    assert (said.code, said.err) == (0, "")
    head, updates, parameters, batch = said.out.split("\n\n")
    assert head.splitlines()[0] == "runs/my at step 11 (epoch 1, batch 1)"
    assert "from the checkpoint of step 8, 3 updates before this one" in head
    assert re.search(r"^history +4 rows of it, to step 12: the same, bit for bit$", head, re.MULTILINE)
    assert [line.split()[0] for line in updates.splitlines()] == ["step", "10", "11"]
    assert {line.split()[0] for line in parameters.splitlines()[1:]} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert batch.startswith("train: 60 samples, 6 of them looked at, as the model gets them\n")


def test_a_learning_rate_that_was_found_is_that_of_the_replay(instep: Instep) -> None:
    said = instep("train", "my.py", "--find-lr", "--no-progress", "--folder", "runs/found")
    assert said.code == 0, said.err
    lr = described(Path("runs/found"))["found_lr"]["lr"]
    said = instep("replay", "runs/found", "--step", "13")
    assert (said.code, said.err) == (0, "")
    assert "the same, bit for bit" in said.out
    assert lr != 0.1


def test_a_changed_file_is_refused_with_the_list(instep: Instep) -> None:
    run = trained(instep)
    Path("my.py").write_text(
        FILE.replace("0.2), nn.Linear", "0.3), nn.Linear").replace("torch.randn(60, 4)", "torch.ones(60, 4)")
    )
    said = instep("replay", str(run), "--step", "3")
    assert (said.code, said.out) == (2, "")
    assert "instep: runs/my holds a run with another description (before -> now):\n" in said.err
    assert "Dropout(p=0.2, inplace=False) -> Dropout(p=0.3, inplace=False)" in said.err
    assert re.search(r"data\.train: column 0, .*, has other values", said.err)


def test_wrong_use_is_one_line(instep: Instep) -> None:
    run = trained(instep)
    for options, words in (
        (["--step", "30"], r"instep: runs/my has 30 updates, so its last step is 29, not 30\.\n"),
        (["--step", "3", "--to", "2"], r"instep: --to 2 is before --step 3; it is the last step to replay\.\n"),
        (["--step", "3", "--shell"], r"instep: --shell opens a prompt, and needs a terminal for it\.\n"),
        (["--step", "3", "--file", "none.py"], r"instep: none\.py does not exist; .*\n"),
    ):
        said = instep("replay", str(run), *options)
        assert (said.code, said.out) == (2, "")
        assert re.fullmatch(words, said.err), said.err
    describe(run, script=None)
    said = instep("replay", str(run), "--step", "3")
    assert "does not say what built it" in said.err
    said = instep("replay", str(run), "--step", "3", "--file", "my.py")
    assert said.code == 0
    assert "the same, bit for bit" in said.out


def test_a_run_that_is_training_is_left_alone(instep: Instep) -> None:
    """The very bytes: of a replay's making is nothing, and the run ends as one that nobody looked at."""
    run = Path("runs/living")
    living = train_in_a_child("my.py", "--slow", "--no-progress", "--folder", str(run))
    try:
        while not (run / "checkpoints" / "step-00000008").exists():
            assert os.waitpid(living, os.WNOHANG) == (0, 0)
            time.sleep(0.02)
        os.kill(living, signal.SIGSTOP)  # so that what changes is none of its own doing
        before = files(run)
        said = instep("replay", str(run), "--step", "7")
        assert (said.code, said.err) == (0, "")
        assert "from the checkpoint of step 4, 3 updates before" in said.out
        assert "4 rows of it, to step 8: the same, bit for bit" in said.out
        assert files(run) == before
    finally:
        os.kill(living, signal.SIGCONT)
    assert os.waitpid(living, 0)[1] == 0
    quiet = trained(instep, "--slow", folder="runs/quiet")
    ours, theirs = (
        {path.name: path.read_bytes() for path in sorted(one.glob("checkpoints/step-00000028/*"))} for one in (run, quiet)
    )
    assert ours
    assert ours == theirs


def train_in_a_child(*arguments: str) -> int:
    """`instep train` in a forked process, which has all modules already; its number."""
    pid = os.fork()
    if not pid:
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os._exit(main(["train", *arguments]))
        finally:
            os._exit(127)
    return pid


@pytest.mark.parametrize("prompt", [">>> ", "]: "], ids=["python", "ipython"])
def test_a_prompt_in_a_terminal(prompt: str, instep: Instep, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(instep)
    if prompt == ">>> ":
        monkeypatch.setitem(sys.modules, "IPython", None)
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # IPython leaves its own where another test has begun one
    else:
        pytest.importorskip("IPython")
    monkeypatch.setenv("IPYTHONDIR", str(Path("ipython").resolve()))
    typed = [
        b"len(batch[0]), samples.tolist()[:1] == replay.samples.tolist()[:1]\n",
        b"'loss is', round(loss, 6) == round(float(update.loss), 6), type(model).__name__, type(optimizer).__name__\n",
        b"sum(p.grad is not None for p in model.parameters())\n",
        b"exit()\n",
    ]
    code, shown = type_into("replay", str(run), "--step", "9", "--shell", typed=typed, prompt=prompt)
    assert code == 0, shown
    assert "runs/my at step 9 (epoch 0, batch 9)" in shown
    assert "model      the model, with its weights after this update" in shown
    assert "(6, True)" in shown
    assert "('loss is', True, 'Sequential', 'SGD')" in shown
    assert re.search(r"^(Out\[3\]: )?4\s*$", shown, re.MULTILINE)


def type_into(*arguments: str, typed: list[bytes], prompt: str) -> tuple[int, str]:
    """The command on a pseudo-terminal, in a forked child; each line is typed when a prompt waits for it."""
    pid, terminal = pty.fork()
    if not pid:
        code = 127
        try:
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
            os.environ |= {"TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
            code = main(arguments)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        finally:
            os._exit(code)
    written, seen, deadline = b"", 0, time.monotonic() + 60
    while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # how a pseudo terminal says that it is over
            break
        written += piece
        if typed and prompt.encode() in written[seen:]:
            seen = len(written)
            os.write(terminal, typed.pop(0))
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode()).replace("\r\n", "\n")
