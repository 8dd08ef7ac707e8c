"""Progress: what is shown where, and in which words."""

import io
import os
import time
from collections.abc import Callable
from contextlib import nullcontext

import pytest

import told
from clock import stopped_clock
from instep.records import Plan
from instep.report.lines import Lines
from instep.report.progress import Progress, Silent, progress
from instep.report.run_status import RunStatus


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_where_there_is_no_terminal_and_nothing_where_it_is_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")  # colours are one thing, a pipe that is redrawn another
    for choice in (None, True):
        assert type(progress(choice, told.plan(), stream=io.StringIO()).display) is Lines
        assert type(progress(choice, told.plan(), stream=Tty()).display).__name__ == "Terminal"
    assert type(progress(False, told.plan(), stream=Tty()).display) is Silent
    monkeypatch.setenv("TERM", "dumb")
    assert type(progress(None, told.plan(), stream=Tty()).display) is Lines


def test_it_goes_to_stderr_and_lives_without_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stopped_clock(monkeypatch)
    with progress(None, told.plan()) as shown:
        shown.start()
    out, err = capsys.readouterr()
    assert (out, err) == ("", "finished at step 0 after 0:00\n")
    monkeypatch.setattr("sys.stderr", None)
    assert type(progress(None, told.plan()).display) is Silent


def lines(plan: Plan | None = None, pause_s: float = 5.0) -> tuple[Progress, Callable[[], list[str]]]:
    """Progress in lines, and a function that gives those said since it was last asked."""
    stream = io.StringIO()
    status = RunStatus(plan or told.plan())

    def said() -> list[str]:
        text = stream.getvalue()
        stream.seek(0)
        stream.truncate()
        return text.split("\n")[:-1]

    return Progress(status, Lines(status, stream, pause_s=pause_s)), said


def test_each_evaluation_is_a_line() -> None:
    shown, said = lines()
    shown.start()
    assert said() == []
    shown.evaluated(told.evaluation(120), best=True)
    shown.evaluated(told.evaluation(1200, 0.3, 0.7), best=False)
    assert said() == [
        "epoch  1/10  step   120/1,200  valid/loss 0.2500  valid/accuracy 0.7500  best",
        "epoch 10/10  step 1,200/1,200  valid/loss 0.3000  valid/accuracy 0.7000",
    ]


def test_between_evaluations_there_is_a_line_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stopped_clock(monkeypatch)
    shown, said = lines(pause_s=5.0)
    shown.start()
    for _ in range(22):
        clock.sleep(1.0)
        shown.logged(told.logged(1))
    assert len(said()) == 4


def test_a_line_says_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stopped_clock(monkeypatch)
    shown, said = lines(pause_s=0.0)
    shown.start()
    clock.sleep(10.0)
    shown.advance(300, 2)
    shown.evaluated(told.evaluation(240), best=True)
    shown.logged(told.logged(300, 0.123456, skipped=2))
    assert said()[-1] == (
        "epoch  3/10  step   300/1,200  loss 0.1235  valid/accuracy 0.7500  2 skipped  "
        "lr 0.003  12.3k samples/s  data wait 3%  0:30 left"
    )


def test_time_left_is_by_the_pace_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stopped_clock(monkeypatch)
    status = RunStatus(told.plan(), step=600, first_step=400, started_s=clock.now_s)
    clock.sleep(20.0)  # 200 steps in 20 s: 600 more take 60
    assert status.seconds_left == pytest.approx(60)
    assert status.left() == "1:00 left"
    status.step = 400
    assert (status.seconds_left, status.left()) == (None, "")


def test_a_run_without_a_known_end() -> None:
    shown, said = lines(told.plan(total_steps=0, steps_per_epoch=0, epochs=0, metrics=()), pause_s=0.0)
    shown.start()
    shown.advance(1234, 1)
    shown.logged(told.logged(1234, None))
    shown.close("stopped")
    assert said() == [
        "epoch 1  step 1,234  loss -  lr 0.003  12.3k samples/s  data wait 3%  0:00",
        "stopped at step 1,234 after 0:00, loss -",
    ]


@pytest.mark.parametrize(("step", "number"), [(0, 1), (1, 1), (119, 1), (120, 1), (121, 2), (1200, 10)])
def test_the_end_of_an_epoch_still_belongs_to_it(step: int, number: int) -> None:
    assert RunStatus(told.plan(), step=step).where()[0].split()[-1] == f"{number}/10"


def test_the_end_names_the_reason_and_the_best() -> None:
    shown, said = lines()
    shown.start(step=100)
    shown.evaluated(told.evaluation(120, accuracy=0.9), best=True)
    shown.evaluated(told.evaluation(240, accuracy=0.8), best=False)
    shown.advance(240, 1)
    shown.close("stopped, no better for 1 evaluation,")
    shown.close("again")
    assert said()[2:] == [
        "stopped, no better for 1 evaluation, at step 240 after 0:00, best valid/accuracy 0.9000 in epoch 1 (step 120)"
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(None, "finished"), (KeyboardInterrupt, "interrupted"), (GeneratorExit, "stopped"), (RuntimeError, "failed")],
)
def test_leaving_the_block_closes_it(error: type[BaseException] | None, reason: str) -> None:
    shown, said = lines()
    with nullcontext() if error is None else pytest.raises(error), shown:
        shown.start()
        shown.advance(7, 0)
        if error is not None:
            raise error
    assert said() == [f"{reason} at step 7 after 0:00"]


def test_a_run_that_did_not_start_has_no_end() -> None:
    shown, said = lines()
    with pytest.raises(RuntimeError, match="too early"), shown:
        raise RuntimeError("too early")
    assert said() == []


def test_a_note_is_a_line_of_its_own() -> None:
    shown, said = lines()
    shown.note("the thread count has changed")
    assert said() == ["note: the thread count has changed"]


def test_a_reader_that_goes_away_does_not_stop_the_run() -> None:
    read, write = os.pipe()
    stream = os.fdopen(write, "w")
    shown = progress(None, told.plan(), stream=stream)
    shown.start()
    os.close(read)
    for step in (120, 240):
        shown.evaluated(told.evaluation(step), best=False)
    with pytest.raises(BrokenPipeError):  # what it would have been
        stream.close()
    shown.close()


def test_silence_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with progress(False, told.plan()) as shown:
        shown.start()
        shown.advance(1, 0)
        shown.logged(told.logged(1))
        shown.evaluated(told.evaluation(1), best=True)
        shown.note("psst")
    assert capfd.readouterr() == ("", "")


def test_an_update_costs_next_to_nothing() -> None:
    """Next to a method that does nothing; drawing or formatting a line would cost a hundred times that."""
    shown, _ = lines()
    shown.start()
    nothing = Nothing()
    costs = [(fastest(shown.advance), fastest(nothing.advance)) for _ in range(3)]
    assert min(ours / theirs for ours, theirs in costs) < 10


class Nothing:
    def advance(self, step: int, epoch: int) -> None:
        return


def fastest(call: Callable[[int, int], None]) -> float:
    """Processor time of 2,000 calls."""
    seconds = []
    for _ in range(5):
        started = time.process_time()
        for step in range(2000):
            call(step, 0)
        seconds.append(time.process_time() - started)
    return max(min(seconds), 1e-6)


def test_each_epoch_is_a_line_also_without_evaluations() -> None:
    shown, said = lines()
    shown.start()
    shown.advance(120, 0)
    shown.logged(told.logged(120, 0.5, skipped=3))
    assert said() == []
    shown.epoch_ended()
    assert said() == ["epoch  1/10  step   120/1,200  loss 0.5000  3 skipped  lr 0.003  12.3k samples/s  data wait 3%"]


def test_the_end_says_how_many_updates_were_skipped() -> None:
    shown, said = lines()
    shown.start()
    shown.logged(told.logged(1, 0.5, skipped=1))
    shown.close()
    assert said()[-1].endswith(", loss 0.5000, 1 update skipped")
