"""Cycles: what is chosen, when it ends, and that a run that was cut off anywhere goes on bit for bit."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam

from instep.errors import DescriptionError, InstepError
from instep.schedules import OneCycle
from instep.tuning.cycles import Cycle, Cycles, fit_cycles, gain, why_ended
from instep.tuning.range_test import find_lr
from tiny import TASKS
from tuning.toyrun import Killed, ToyRun, bowl_run


def small_run(total_steps: int = 15) -> ToyRun:
    """Dropout and Adam, so that keys and the optimizer's state matter."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    x, _ = TASKS[0].draw(64, seed=0, dtype=torch.float32)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    optimizer = Adam(model.parameters(), lr=1e-3)
    return ToyRun(model, optimizer, lambda m, b: cross_entropy(m(b[0]), b[1]), (x, y), batch_size=16, total_steps=total_steps)


def end_of(run: ToyRun) -> list[Tensor]:
    return [*run.model.state_dict().values(), *(entry["exp_avg_sq"] for entry in run.optimizer.state.values())]


def test_each_cycle_has_a_range_test_of_its_own_and_goes_on_from_the_weights_before() -> None:
    run = small_run()
    first_choice = find_lr(run, steps=40, momentum=0.85).suggestion
    done = fit_cycles(run, max_cycles=3, steps=40)
    assert len(done.cycles) >= 2
    assert [(cycle.index, cycle.start, cycle.stop) for cycle in done.cycles][:2] == [(0, 0, 15), (1, 15, 30)]
    assert done.cycles[0].max_lr == first_choice
    assert done.cycles[1].max_lr != first_choice
    assert done.cycles[1].before == done.cycles[0].after
    assert done.cycles[0].gain == pytest.approx(done.cycles[0].before - (done.cycles[0].after or 0))
    assert [cycle.to_json() for cycle in done.cycles] == list(run.cycles)
    assert run.step == done.cycles[-1].stop


def test_it_ends_when_a_cycle_gains_too_little() -> None:
    done = fit_cycles(small_run(), max_cycles=8, min_delta=10.0, steps=40)
    assert len(done.cycles) == 1
    assert done.ended.endswith("not more than min_delta=10.")
    done = fit_cycles(small_run(), max_cycles=2, steps=40)
    assert done.ended == "max_cycles=2 are done."


def test_a_range_test_that_suggests_nothing_ends_it() -> None:
    with pytest.raises(InstepError, match="the range test suggests no learning rate to begin with: it diverges at once"):
        fit_cycles(bowl_run(10.0), low=1.0, high=100.0)
    run = small_run()
    found = fit_cycles(run, max_cycles=1, steps=40).cycles[0]
    again = fit_cycles(run, max_cycles=5, low=1e-9, high=1e-8, steps=20)
    assert again.cycles == (found,)
    assert again.ended.startswith("the range test after cycle 1 suggests no learning rate: ")


def test_the_run_may_be_finished_already() -> None:
    run = small_run()
    done = fit_cycles(run, max_cycles=2, steps=40)
    before = end_of(run)
    assert fit_cycles(run, max_cycles=2, steps=40) == done
    assert all(map(torch.equal, before, end_of(run)))


def check_cut_off(lives: list[int]) -> None:
    """In a range test, between it and its cycle, in a cycle, before its end was written down."""
    whole = small_run()
    expected = fit_cycles(whole, max_cycles=2, steps=20)
    run = small_run()
    for count in lives:
        run.lives = count
        try:
            fit_cycles(run, max_cycles=2, steps=20)
        except Killed:
            resumed = small_run()
            resumed.resume_from(run)
            run = resumed
    run.lives = math.inf
    assert fit_cycles(run, max_cycles=2, steps=20) == expected
    assert all(map(torch.equal, end_of(whole), end_of(run)))


CUTS = st.lists(st.integers(0, 220), min_size=1, max_size=3)  # after how many updates, those of the range tests included


@settings(max_examples=12, deadline=None)
@given(lives=CUTS)
def test_cut_off_anywhere_it_goes_on_bit_for_bit(lives: list[int]) -> None:
    check_cut_off(lives)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(lives=CUTS)
def test_cut_off_three_hundred_times(lives: list[int]) -> None:
    check_cut_off(lives)


def test_the_schedule_is_the_callers() -> None:
    run = small_run()
    made: list[float] = []

    def short(max_lr: float) -> OneCycle:
        made.append(max_lr)
        return OneCycle(max_lr=max_lr, pct_start=0.5, momentum=None)

    done = fit_cycles(run, max_cycles=1, steps=40, schedule=short)
    assert made == [1.0, done.cycles[0].max_lr]  # the first only to see what momentum it has
    assert done.cycles[0].max_lr == find_lr(small_run(), steps=40).suggestion


CYCLE = Cycle(index=0, start=0, stop=10, max_lr=0.1, reason="because", confidence=0.5, before=1.0, after=0.4, gain=0.6)


def test_a_gain_is_above_zero_whichever_way_is_better() -> None:
    assert gain(1.0, 0.4, "min") == pytest.approx(0.6)
    assert gain(0.4, 1.0, "max") == pytest.approx(0.6)


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
    assert why_ended(cycles, max_cycles=2, min_delta=0.01) == ended


def test_as_text() -> None:
    shown = Cycles((CYCLE, replace(CYCLE, index=1, start=10, stop=20, max_lr=0.02, before=0.4, after=0.5, gain=-0.1)), "enough.")
    assert str(shown).splitlines() == [
        "cycle     steps  max_lr  before   after     gain",
        "    1   0 to 10     0.1   1.000  0.4000   0.6000",
        "    2  10 to 20    0.02  0.4000  0.5000  -0.1000",
        "enough.",
    ]
    assert shown.best == CYCLE
    assert Cycles((), "nothing").best is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_cycles": 0}, "max_cycles=0 must be a whole number, 1 or more"),
        ({"min_delta": -1.0}, "min_delta=-1.0 is no least gain; use 0 or a number above it"),
    ],
)
def test_wrong_options(options: dict[str, float], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        fit_cycles(small_run(), **options)  # type: ignore[arg-type]


def test_without_evaluations_there_is_nothing_to_go_by() -> None:
    run = small_run()
    run.monitor_mode = None
    with pytest.raises(
        DescriptionError, match=r"fit_cycles\(\) goes by the monitored value, so it needs evaluations; pass valid="
    ):
        fit_cycles(run)
