"""Cycles: what is chosen, and when it ends. How they are trained and gone on with is in test_cycling."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam

from instep.errors import DescriptionError, InstepError
from instep.schedules import Linear, OneCycle
from instep.tuning.cycles import Cycle, CycleOptions, Cycles, best_end, chosen, gain
from instep.tuning.range_test import find_lr
from tiny import TASKS
from tuning.toyrun import ToyRun, bowl_run


def small_run() -> ToyRun:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    x, _ = TASKS[0].draw(64, seed=0, dtype=torch.float32)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    optimizer = Adam(model.parameters(), lr=1e-3)
    return ToyRun(model, optimizer, lambda m, b: cross_entropy(m(b[0]), b[1]), (x, y), batch_size=16, total_steps=15)


def test_the_first_cycle_is_at_what_a_range_test_suggests() -> None:
    run = small_run()
    cycle = chosen(run, (), CycleOptions(steps=40), "valid/loss", "min", made=0)
    assert isinstance(cycle, Cycle)
    assert cycle.max_lr == find_lr(run, steps=40, momentum=0.85).suggestion
    assert (cycle.index, cycle.start, cycle.stop, cycle.after, cycle.gain) == (0, 0, 15, None, None)
    assert cycle.before == run.evaluate()["valid/loss"]


def test_the_next_begins_where_the_run_stands_and_has_to_beat_the_best() -> None:
    run = small_run()
    run.step = 30
    before = (replace(CYCLE, after=0.2), replace(CYCLE, index=1, before=0.2, after=0.3))
    cycle = chosen(run, before, CycleOptions(steps=40), "valid/loss", "min", made=28)
    assert isinstance(cycle, Cycle)
    assert (cycle.index, cycle.start, cycle.stop, cycle.made, cycle.before) == (2, 30, 45, 28, 0.2)


def test_the_range_test_has_the_momentum_of_the_cycles_peak() -> None:
    plain = CycleOptions(steps=40, schedule=lambda lr: OneCycle(lr, momentum=None)).range_test(small_run())
    assert plain.losses == find_lr(small_run(), steps=40).losses
    assert plain.losses != CycleOptions(steps=40).range_test(small_run()).losses


def test_a_range_test_that_suggests_nothing() -> None:
    options = CycleOptions(low=1.0, high=100.0)
    with pytest.raises(InstepError, match="the range test suggests no learning rate to begin with: it diverges at once"):
        chosen(bowl_run(10.0), (), options, "valid/loss", "min", made=0)
    why = chosen(bowl_run(10.0), (CYCLE,), options, "valid/loss", "min", made=10)
    assert isinstance(why, str)
    assert why.startswith("the range test after cycle 1 suggests no learning rate: it diverges at once")


CYCLE = Cycle(index=0, start=0, stop=10, max_lr=0.1, reason="because", confidence=0.5, before=1.0, after=0.4, gain=0.6)


def test_a_gain_is_above_zero_whichever_way_is_better() -> None:
    assert gain(1.0, 0.4, "min") == pytest.approx(0.6)
    assert gain(0.4, 1.0, "max") == pytest.approx(0.6)


def test_the_best_end() -> None:
    cycles = (CYCLE, replace(CYCLE, index=1, before=0.4, after=math.nan))
    assert best_end(cycles, "min") == 0.4
    assert best_end(cycles, "max") == 1.0
    assert math.isnan(best_end((replace(CYCLE, before=math.nan, after=math.nan),), "min"))


@pytest.mark.parametrize(
    ("cycles", "ended"),
    [
        ([], None),
        ([CYCLE], None),
        ([CYCLE, replace(CYCLE, index=1)], "max_cycles=2 are done."),
        ([replace(CYCLE, gain=-0.1)], "cycle 1 gained nothing."),
        ([replace(CYCLE, gain=math.nan)], "cycle 1 gained nothing."),
        ([replace(CYCLE, gain=0.005)], "cycle 1 gained 0.005000, not more than min_delta=0.01."),
    ],
)
def test_when_it_ends(cycles: list[Cycle], ended: str | None) -> None:
    assert CycleOptions(max_cycles=2, min_delta=0.01).why_ended(cycles) == ended


def test_as_text() -> None:
    shown = Cycles((CYCLE, replace(CYCLE, index=1, start=10, stop=20, max_lr=0.02, before=0.4, after=0.5, gain=-0.1)), "enough.")
    assert str(shown).splitlines() == [
        "cycle     steps  max_lr  before   after     gain",
        "    1   0 to 10     0.1   1.000  0.4000   0.6000",
        "    2  10 to 20    0.02  0.4000  0.5000  -0.1000",
        "enough.",
    ]
    assert shown.best == CYCLE
    rows = [[cell.text for cell in row] for row in ET.fromstring(shown._repr_html_()).iter("tr")]
    assert rows[1:] == [
        ["1", "0 to 10", "0.1", "1.000", "0.4000", "0.6000"],
        ["2", "10 to 20", "0.02", "0.4000", "0.5000", "-0.1000"],
    ]
    assert Cycles((), "nothing").best is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_cycles": 0}, "max_cycles=0 must be a whole number, 1 or more"),
        ({"min_delta": -1.0}, "min_delta=-1.0 is no least gain; use 0 or a number above it"),
        ({"low": 1.0, "high": 0.1}, "low=1.0 to high=0.1 is no range to grow in"),
        ({"repeats": 0}, "repeats=0 must be a whole number, 1 or more"),
        ({"schedule": lambda lr: Linear()}, r"schedule= made a Linear; fit_cycles\(\) needs a function that makes a OneCycle"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        CycleOptions(**options)
