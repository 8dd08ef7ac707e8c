"""Every error becomes its last words and an exit code."""

import signal
import sys
import warnings
from pathlib import Path

import pytest

from instep.cli import border
from instep.cli.border import WrongUse, own_traceback, run_guarded, say
from instep.errors import DescriptionError, InstepError, Interrupted, NonFiniteLoss, Notice

NOTHING_KEPT = "without folder= nothing is kept, so a new start begins at the first update."
KEPT = "all of them kept in runs/a: start it again, and it goes on from there."


def raising(error: BaseException) -> int:
    def command() -> int:
        raise error

    return run_guarded(command)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (WrongUse("no such thing."), 2, "instep: no such thing."),
        (DescriptionError("batch_size=0."), 2, "instep: batch_size=0."),
        (NonFiniteLoss("step 3: nan."), 1, "instep: step 3: nan."),
        (InstepError("other."), 1, "instep: other."),
        (KeyboardInterrupt(), 130, "instep: interrupted"),
        (Interrupted(signal.SIGINT, 1), 130, f"instep: stopped by Ctrl-C after 1 update; {NOTHING_KEPT}"),
        (Interrupted(signal.SIGTERM, 7, Path("runs/a")), 143, f"instep: stopped by SIGTERM after 7 updates, {KEPT}"),
        (SystemExit("out of data"), 1, "instep: out of data"),
    ],
)
def test_one_line_and_a_code(capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str) -> None:
    assert raising(error) == code
    assert capsys.readouterr() == ("", f"{words}\n")


@pytest.mark.parametrize(("stop", "code"), [(SystemExit(), 0), (SystemExit(0), 0), (SystemExit(3), 3)])
def test_an_exit_keeps_its_code(capsys: pytest.CaptureFixture[str], stop: SystemExit, code: int) -> None:
    assert raising(stop) == code
    assert capsys.readouterr() == ("", "")


def test_a_cause_is_shown_before_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        try:
            raise KeyError("users")
        except KeyError as error:
            raise WrongUse("build() raised KeyError.") from error

    assert run_guarded(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2:] == ["KeyError: 'users'", "instep: build() raised KeyError."]


def test_a_traceback_shows_the_users_frames_only(tmp_path: Path) -> None:
    """Instep calls the user's code, which calls torch: the frames before the user's, and Instep's own, are left out."""
    import torch

    theirs = tmp_path / "model.py"
    theirs.write_text("def forward(f):\n    return f()\n")
    scope: dict[str, object] = {}
    exec(compile(theirs.read_text(), str(theirs), "exec"), scope)
    forward = scope["forward"]
    ours = Path(border.__file__).with_name("imagined.py")
    exec(compile("def fit(forward, f):\n    return forward(f)\n", str(ours), "exec"), scope)

    with pytest.raises(RuntimeError) as caught:
        scope["fit"](forward, lambda: scope["fit"](forward, lambda: torch.nn.Linear(2, 2)(torch.ones(3))))  # type: ignore[operator]
    text = own_traceback(caught.value)
    assert text.count(f'File "{theirs}", line 2, in forward') == 2
    assert "imagined.py" not in text
    assert "torch/nn" in text.replace("\\", "/")
    assert text.rstrip().splitlines()[-1].startswith("RuntimeError: mat1 and mat2")


def test_a_traceback_of_ours_alone_stays_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_guarded(None) == 1  # type: ignore[arg-type]
    err = capsys.readouterr().err
    assert "border.py" in err
    assert err.endswith("TypeError: 'NoneType' object is not callable\ninstep: stopped by a TypeError.\n")


def test_the_exception_of_a_user_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(ZeroDivisionError("in the model")) == 1
    err = capsys.readouterr().err
    assert err.endswith("ZeroDivisionError: in the model\ninstep: stopped by a ZeroDivisionError.\n")
    assert "/border.py" not in err


def test_a_notice_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("BatchNorm sees micro-batches.", Notice, stacklevel=1)
        return 0

    shown = warnings.showwarning
    assert run_guarded(command) == 0
    assert capsys.readouterr().err == "note: BatchNorm sees micro-batches.\n"
    assert warnings.showwarning is shown


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...


def test_red_in_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    say("wrong.", border.RED)
    assert terminal.text == "\x1b[31minstep: wrong.\x1b[0m\n"
