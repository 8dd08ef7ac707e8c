"""Progress in a notebook: one output, drawn again in its place."""

import io
import math
import re
import sys
import threading
import time
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

import told
from clock import stopped_clock
from instep.records import Evaluation
from instep.report.lines import Lines
from instep.report.notebook import LONGEST, Notebook
from instep.report.progress import Silent, is_notebook, progress
from kernel import notebook
from programs import Programs


def test_it_is_chosen_in_a_kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with notebook():
        assert type(progress(None, told.plan()).display) is Notebook
        assert type(progress(True, told.plan()).display) is Notebook
        assert type(progress(False, told.plan()).display) is Silent
        assert type(progress(None, told.plan(), stream=io.StringIO()).display) is Lines
    for shell in (None, SimpleNamespace()):  # IPython is imported, but nobody uses it; IPython in a terminal
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert not is_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not is_notebook()
    assert "IPython" not in sys.modules


def test_one_output_says_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stopped_clock(monkeypatch)
    with notebook() as outputs, progress(None, told.plan()) as shown:
        shown.start()
        assert "epoch" in outputs.text
        clock.sleep(10.0)
        for step in (100, 200, 300):
            shown.logged(told.logged(step, 60.0 / step))
        shown.advance(300, 2)
        shown.evaluated(told.evaluation(120, loss=0.5, accuracy=0.7), best=True)
        shown.evaluated(told.evaluation(240, loss=0.4, accuracy=0.6), best=False)
        shown.note("a <b> & c")
        assert isinstance(shown.display, Notebook)
        shown.display._draw()
        assert outputs.text == (
            "epoch  3/10  step   300/1,200  0:30 left  loss 0.2000  valid/accuracy 0.6000  "
            "lr 0.003  12.3k samples/s  data wait 3%"
        )
        assert 'aria-valuenow="25"' in outputs.html
        assert "width: 25.0%" in outputs.html
    (drawn,) = outputs.shown
    assert len(drawn) == 3  # start, now, close; nothing for a line of the log or an evaluation
    assert outputs.text == "finished at step 300 after 0:10, best valid/accuracy 0.7000 in epoch 1 (step 120)"
    assert "<b>finished at step 300" in outputs.html
    assert "progressbar" not in outputs.html
    assert "Loss by step: loss from 0.6000 to 0.2000, valid/loss from 0.5000 to 0.4000" in outputs.html
    rows = [[cell.text for cell in row] for row in ET.fromstring(outputs.html.replace("&ensp;", " ")).iter("tr")]
    assert rows == [
        ["epoch", "step", "valid/loss", "valid/accuracy"],
        ["1/10", "120", "0.5000", "0.7000"],
        ["2/10", "240", "0.4000", "0.6000"],
    ]
    assert len(re.findall("<tr style", outputs.html)) == 1  # the best one
    assert "<p>note: a &lt;b&gt; &amp; c</p>" in outputs.html


def test_it_is_drawn_by_a_thread_that_ends_with_it() -> None:
    with notebook(pause_s=0.01) as outputs, progress(None, told.plan()) as shown:
        shown.start()
        assert "instep-progress" in {thread.name for thread in threading.enumerate()}
        deadline = time.monotonic() + 30
        while len(outputs.shown[0]) < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert len(outputs.shown) == 1
    assert len(outputs.shown[0]) >= 5
    assert "instep-progress" not in {thread.name for thread in threading.enumerate()}


def test_a_long_run_stays_small_and_keeps_its_spike() -> None:
    with notebook() as outputs, progress(None, told.plan()) as shown:
        shown.start()
        for step in range(1, 20_001):
            shown.logged(told.logged(step, 99.0 if step == 777 else 1.0 + step / 1e5))
        assert isinstance(shown.display, Notebook)
        assert len(shown.display._updates) <= LONGEST
        assert 99.0 in {row["loss"] for row in shown.display._updates}
    assert len(outputs.html) < 15_000


def test_odd_runs() -> None:
    for losses in ([], [1.0], [None, None], [math.nan, math.inf, 1.0]):
        with notebook() as outputs, progress(None, told.plan(total_steps=0, epochs=0, metrics=())) as shown:
            shown.start()
            for step, loss in enumerate(losses):
                shown.logged(told.logged(step, loss))
        ET.fromstring(outputs.html.replace("&ensp;", " "))
        assert "nan" not in outputs.html.partition("<svg")[2]


def test_losses_of_several_objectives_and_names_that_are_no_html() -> None:
    with notebook() as outputs, progress(None, told.plan(metrics=())) as shown:
        shown.start()
        for step in (1, 2):
            shown.logged(told.logged(step, 1.0, extra={"loss/g": 1.0, "loss/<i>": 2.0}))
        shown.evaluated(Evaluation({"valid/<u>": 1.0}, 2), best=False)
    assert "loss/g from 1.000 to 1.000, loss/&lt;i&gt; from 2.000 to 2.000" in outputs.html
    assert "<i>" not in outputs.html
    assert "<u>" not in outputs.html


def test_numbers_of_the_test_data_are_in_the_summary() -> None:
    with notebook() as outputs, progress(None, told.plan()) as shown:
        shown.start()
        shown.tested(Evaluation({"test/loss": 0.125}, 10))
    assert outputs.text.endswith(", test/loss 0.1250")
    assert "<table" not in outputs.html


def test_a_run_that_does_not_start_shows_why() -> None:
    with notebook() as outputs:
        progress(None, told.plan()).remark("the run is finished")
    assert outputs.text == "the run is finished"
    assert outputs.html == "<div><p>note: the run is finished</p></div>"


def test_a_kernel_that_is_gone_does_not_stop_the_run() -> None:
    with notebook() as outputs, progress(None, told.plan()) as shown:
        shown.start()
        outputs.is_gone = True
        shown.advance(1, 0)
    assert len(outputs.shown[0]) == 1


def test_nobody_imports_ipython_or_matplotlib_for_it(programs: Programs) -> None:
    code = (
        "import sys, instep\nfrom instep import Trainer, History\nfrom instep.report.progress import is_notebook\nis_notebook()\n"
        "History()._repr_html_()\n"
        "print([name for name in ('IPython', 'matplotlib', 'instep.report.notebook', 'ipykernel') if name in sys.modules])"
    )
    assert programs.run(["-c", code], check=True).stdout == "[]\n"
