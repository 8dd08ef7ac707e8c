"""The live display on a real pseudo terminal."""

import os
import pty
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import numpy as np
import pytest
import torch

import told
from instep.report.progress import progress

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
STYLED = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """A pseudo terminal: `stream` is its inner end, `text()` all that was written to it."""

    def __init__(self) -> None:
        self.outer, self.inner = pty.openpty()
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stream(self) -> TextIO:
        return os.fdopen(os.dup(self.inner), "w", encoding="utf-8")

    def text(self) -> str:
        """What was written until its inner end was closed everywhere; there is nothing more to come then."""
        if self.inner >= 0:
            os.close(self.inner)
            self.inner = -1
            self._reader.join(timeout=20)
            os.close(self.outer)
        return self._written.decode().replace("\r\n", "\n")

    def _read(self) -> None:
        try:
            while piece := os.read(self.outer, 65_536):
                self._written += piece
        except OSError:  # how a pseudo terminal says that it is over
            return


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen()
    yield screen
    screen.text()


def run(screen: Screen, *, evaluations: int = 3) -> str:
    with screen.stream() as stream, progress(None, told.plan(), stream=stream) as shown:
        shown.note("said before the start")
        shown.start()
        for epoch in range(evaluations):
            step = 120 * (epoch + 1)
            shown.advance(step, epoch)
            shown.logged(told.logged(step, 0.5, waiting=0.4))
            shown.evaluated(told.evaluation(step), best=epoch == 0)
        shown.note("half way [bold]there[/bold]")
        time.sleep(0.3)  # a drawing or two
    return screen.text()


def test_it_draws_above_and_below_and_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    before = sys.stdout, sys.stderr
    text = run(screen)
    assert (sys.stdout, sys.stderr) == before
    assert text.count(HIDE) == text.count(SHOW) == 1
    assert text.index(HIDE) < text.index(SHOW)
    plain = STYLED.sub("", text)
    assert "epoch   step  valid/loss  valid/accuracy\n" in plain
    assert " 1/10    120      0.2500          0.7500  best\n" in plain
    assert " 3/10    360      0.2500          0.7500" in plain
    assert "epoch  3/10  step   360/1,200  ━━━━━━━━" in plain
    assert "loss 0.5000  valid/accuracy 0.7500  lr 0.003  12.3k samples/s  data wait 40%" in plain
    assert "note: said before the start\n" in plain
    assert "note: half way [bold]there[/bold]\n" in plain
    assert plain.split(SHOW)[1].strip("\r\x1b[1A2K\n") == ""  # nothing but the erasing of the live lines comes after
    assert re.search(r"finished at step 360 after 0:0\d, best valid/accuracy 0\.7500 in epoch 1 \(step\n120\)\n", plain)
    assert max(len(line) for line in re.split(r"\x1b\[\d*[A-K]|[\r\n]", plain)) <= 80 + len(HIDE)


def test_colours_can_be_declined(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = run(screen)
    assert "━━━╾───" in text
    assert not STYLED.search(text)


def test_a_narrow_terminal_shows_what_fits(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setenv("NO_COLOR", "1")
    text = run(screen, evaluations=1)
    assert "epoch  1/10  step   120/1,200   10%" in text
    assert "loss 0.5000  valid/accuracy 0.7500\n" in text.replace("\r", "\n").replace("\x1b", "\n")


def test_random_state_is_left_alone(screen: Screen) -> None:
    states = random.getstate(), torch.get_rng_state(), str(np.random.get_state())
    run(screen)
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert str(np.random.get_state()) == states[2]


FIRST = """
import random, sys, types
from instep.report.progress import progress

assert "rich" not in sys.modules
before = random.getstate()
with progress(None, types.SimpleNamespace(total_steps=1200, steps_per_epoch=120, epochs=10, metrics=())) as shown:
    shown.start()
print("rich" in sys.modules, random.getstate() == before)
"""


def test_random_state_is_left_alone_by_the_first_display_of_a_process(screen: Screen) -> None:
    """Rich draws from Python's generator when it is imported."""
    command = [sys.executable, "-c", FIRST]
    done = subprocess.run(command, stdin=screen.inner, stdout=subprocess.PIPE, stderr=screen.inner, text=True, check=True)
    assert done.stdout == "True True\n"


def test_a_thousand_evaluations_are_a_thousand_lines_and_few_drawings(screen: Screen) -> None:
    started = time.monotonic()
    text = STYLED.sub("", run(screen, evaluations=1000))
    pauses = (time.monotonic() - started) / 0.15
    assert len(re.findall(r" {6}0\.2500 {10}0\.7500  ", text)) == 1000
    assert text.count("samples/s") <= pauses + 3


def test_a_terminal_that_goes_away_does_not_stop_the_run(screen: Screen) -> None:
    stream = screen.stream()
    before = sys.stderr
    with progress(None, told.plan(), stream=stream) as shown:
        shown.start()
        assert sys.stderr is not before
        stream.close()
        time.sleep(0.2)
        shown.evaluated(told.evaluation(120), best=True)
    assert sys.stderr is before
    assert HIDE in screen.text()


# A program as people write them: it prints, warns and forks, and an error ends it before anybody closes the display.
# Its plan is a stand-in, because the real one costs two seconds of importing torch.
PROGRAM = """
import os, sys, time, types, warnings
from instep.report.progress import progress

shown = progress(None, types.SimpleNamespace(total_steps=1200, steps_per_epoch=120, epochs=10, metrics=()))
shown.start()
shown.advance(60, 0)
print("printed", flush=True)  # before the fork, which would copy what waits to be written
warnings.warn("warned")
if os.fork() == 0:
    sys.exit(print("from a child", type(sys.stderr).__name__))
os.wait()
time.sleep(0.3)
raise RuntimeError("the end")
"""


def python(screen: Screen, *, stdout: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, stdin=screen.inner, stdout=stdout, stderr=screen.inner, text=True, timeout=300, check=False)


def test_a_program_that_ends_in_an_error_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    """Prints go above the live lines, and the traceback is whole."""
    assert python(screen, stdout=screen.inner).returncode == 1
    text = screen.text()
    assert text.count(HIDE) == text.count(SHOW) == 1
    assert text.rindex("step    60/1,200") < text.index(SHOW)
    for line in ("printed\n", "UserWarning: warned\n", "from a child TextIOWrapper\n", "RuntimeError: the end\n"):
        assert line in text


def test_what_is_piped_elsewhere_goes_there(screen: Screen) -> None:
    done = python(screen, stdout=subprocess.PIPE)
    assert sorted(done.stdout.splitlines()) == ["from a child TextIOWrapper", "printed"]
    text = screen.text()
    assert "step    60/1,200" in text
    assert "printed\n" not in text
