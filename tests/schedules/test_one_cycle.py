"""OneCycle: torch's numbers, bit for bit, for any run and optimizer, and where torch's own stops."""

import math
from typing import Any, Literal

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import OneCycleLR

from instep.errors import DescriptionError
from instep.schedules import OneCycle, drive
from instep.schedules.one_cycle import ends, through


def optimizer_of(kind: str, *lrs: float) -> Optimizer:
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs]
    made: dict[str, Any] = {
        "momentum": lambda: SGD(groups, momentum=0.9),
        "plain": lambda: SGD(groups),
        "adam": lambda: Adam(groups),
        "adamw": lambda: AdamW(groups, betas=(0.8, 0.99)),
        "rmsprop": lambda: RMSprop(groups),
        "adagrad": lambda: Adagrad(groups),
    }
    optimizer: Optimizer = made[kind]()
    return optimizer


def written(optimizer: Optimizer) -> list[tuple[Any, ...]]:
    return [(group["lr"], group.get("momentum"), group.get("betas")) for group in optimizer.param_groups]


def traced(schedule: OneCycle, optimizer: Optimizer, total: int) -> list[list[tuple[Any, ...]]]:
    driver = drive(schedule, optimizer, total_steps=total)
    trace = []
    for position in range(total):
        driver.before_update(position)
        trace.append(written(optimizer))
    return trace


def traced_by_torch(scheduler: OneCycleLR, optimizer: Optimizer, total: int) -> list[list[tuple[Any, ...]]]:
    trace = []
    for _ in range(total):
        trace.append(written(optimizer))
        optimizer.step()
        scheduler.step()
    return trace


def assert_as_torch(
    total: int,
    kind: str,
    max_lr: float | list[float],
    pct_start: float,
    div_factor: float,
    final_div_factor: float,
    anneal: Literal["cos", "linear"],
    three_phase: bool,
    momentum: tuple[float, float] | None,
) -> None:
    lrs = [0.1] * (len(max_lr) if isinstance(max_lr, list) else 2)
    theirs = optimizer_of(kind, *lrs)
    low, high = momentum or (0.85, 0.95)
    scheduler = OneCycleLR(
        theirs,
        max_lr,
        total_steps=total,
        pct_start=pct_start,
        anneal_strategy=anneal,
        cycle_momentum=momentum is not None and kind != "adagrad",
        base_momentum=low,
        max_momentum=high,
        div_factor=div_factor,
        final_div_factor=final_div_factor,
        three_phase=three_phase,
    )
    ours = optimizer_of(kind, *lrs)
    schedule = OneCycle(max_lr, pct_start, div_factor, final_div_factor, anneal, three_phase, momentum)
    assert traced(schedule, ours, total) == traced_by_torch(scheduler, theirs, total)


cycles: dict[str, Any] = {
    "total": st.integers(2, 120),
    "kind": st.sampled_from(["momentum", "plain", "adam", "adamw", "rmsprop", "adagrad"]),
    "max_lr": st.floats(1e-6, 10) | st.lists(st.floats(1e-6, 10), min_size=1, max_size=3),
    "pct_start": st.floats(0.01, 0.99),
    "div_factor": st.floats(1.01, 1000),
    "final_div_factor": st.floats(0.1, 1e6),
    "anneal": st.sampled_from(["cos", "linear"]),
    "three_phase": st.booleans(),
    "momentum": st.sampled_from([(0.85, 0.95), (0.0, 0.5), None]),
}

USUAL: dict[str, Any] = {
    "total": 10,
    "kind": "momentum",
    "max_lr": 0.1,
    "pct_start": 0.3,
    "div_factor": 25.0,
    "final_div_factor": 1e4,
    "anneal": "cos",
    "three_phase": False,
    "momentum": (0.85, 0.95),
}


def no_torch_crash(total: int, pct_start: float) -> bool:
    return pct_start * total != 1  # torch divides 0 by 0


@given(**cycles)
@example(**USUAL)
@example(**{**USUAL, "total": 2, "kind": "adamw", "anneal": "linear", "three_phase": True})
@example(**{**USUAL, "pct_start": 0.9, "three_phase": True})
@example(**{**USUAL, "max_lr": 0.809, "anneal": "linear"})  # the peak, at position 2, is one bit below max_lr
@settings(max_examples=40, deadline=None)
def test_equals_torch_at_every_step(**options: Any) -> None:
    if no_torch_crash(options["total"], options["pct_start"]):
        assert_as_torch(**options)


@pytest.mark.slow
@given(**cycles)
@settings(max_examples=1000, deadline=None)
def test_equals_torch_at_every_step_of_many_runs(**options: Any) -> None:
    if no_torch_crash(options["total"], options["pct_start"]):
        assert_as_torch(**options)


# --- By hand


def test_a_cycle_by_hand() -> None:
    """11 updates, peak at 0.4·11 − 1: rises until 3.4, falls until 10."""
    curve = OneCycle(1.0, pct_start=0.4, div_factor=10, final_div_factor=10, anneal="linear").curve(11, base=1.0)
    assert curve(0) == pytest.approx(0.1)
    assert curve(3) == pytest.approx(0.1 + 0.9 * 3 / 3.4)
    assert curve(5) == pytest.approx(1 - 0.99 * 1.6 / 6.6)
    assert curve(10) == pytest.approx(0.01)
    assert curve(11) == curve(1000) == curve(10)


def test_cosine_and_three_phases_by_hand() -> None:
    assert ends(20, 0.3, three_phase=True) == [5.0, 10.0, 19]
    curve = OneCycle(2.0, pct_start=0.3, div_factor=4, final_div_factor=5, three_phase=True).curve(20, base=2.0)
    assert curve(0) == 0.5
    assert curve(1) == pytest.approx(2.0 - 0.75 * (math.cos(math.pi / 5) + 1))
    assert curve(5) == 2.0
    assert curve(10) == 0.5
    assert curve(19) == pytest.approx(0.1)
    momentum = OneCycle(2.0, three_phase=True).momentum_curve(20)
    assert momentum is not None
    assert [momentum(position) for position in (0, 5, 10, 15, 19)] == [0.95, 0.85, 0.95, 0.95, 0.95]


def test_past_the_end_the_last_value_stays() -> None:
    for three_phase in (False, True):
        curve = OneCycle(0.1, pct_start=0.8, anneal="linear", three_phase=three_phase).curve(10, base=0.1)
        assert curve(10) == curve(11) == curve(10**9) == curve(9)


def test_a_phase_without_length_is_at_its_goal() -> None:
    curve = through([1.0, 3.0, 0.0], [0.0, 4], "linear")
    assert [curve(position) for position in range(5)] == [3.0, 2.25, 1.5, 0.75, 0.0]


def test_a_rise_of_one_update_is_at_the_peak_where_torch_divides_by_zero() -> None:
    with pytest.raises(ZeroDivisionError):
        OneCycleLR(optimizer_of("momentum", 0.1), 0.5, total_steps=4, pct_start=0.25)
    trace = traced(OneCycle(0.5, pct_start=0.25), optimizer_of("momentum", 0.1), 4)
    assert trace[0] == [(0.5, 0.85, None)]
    assert trace[3] == [(pytest.approx(0.5 / 25e4), 0.95, None)]


def test_a_run_of_one_update_makes_it_at_the_peak() -> None:
    """torch's cycle would be at its end already, at 1/250,000 of the peak."""
    assert traced(OneCycle(0.5), optimizer_of("momentum", 0.1), 1) == [[(0.5, 0.85, None)]]
    assert traced(OneCycle(0.5, three_phase=True), optimizer_of("adam", 0.1), 1) == [[(0.5, None, (0.85, 0.999))]]


# --- Groups


def test_groups_keep_their_ratios_below_max_lr() -> None:
    optimizer = optimizer_of("momentum", 1e-4, 1e-3)
    driver = drive(OneCycle(0.02, pct_start=0.5), optimizer, total_steps=20)
    driver.before_update(9)  # the peak
    assert [group["lr"] for group in optimizer.param_groups] == [pytest.approx(0.002), 0.02]
    for position in range(20):
        driver.before_update(position)
        small, large = (group["lr"] for group in optimizer.param_groups)
        assert small == pytest.approx(large / 10)


def test_groups_with_lr_zero() -> None:
    """All at 0 say nothing about ratios; one at 0 among others is meant to stay there."""
    assert OneCycle(0.5).bases([0.0, 0.0]) == [0.5, 0.5]
    assert OneCycle(0.5).bases([0.0, 0.1]) == [0.0, 0.5]


def test_a_group_joins_in_the_middle_where_torch_raises() -> None:
    def joining(lr: float) -> dict[str, Any]:
        return {"params": [nn.Parameter(torch.zeros(1))], "lr": lr}

    theirs = optimizer_of("momentum", 0.1)
    scheduler = OneCycleLR(theirs, 0.5, total_steps=10)
    theirs.add_param_group(joining(0.1))
    theirs.step()
    with pytest.raises(KeyError):
        scheduler.step()

    for schedule in (OneCycle(0.5), OneCycle([0.5])):
        optimizer = optimizer_of("momentum", 0.1)
        driver = drive(schedule, optimizer, total_steps=10)
        for position in range(10):
            if position == 4:
                optimizer.add_param_group(joining(0.1))
                optimizer.add_param_group(joining(0.02))
            driver.before_update(position)
            first, *others = optimizer.param_groups
            assert first["lr"] == schedule.curve(10, base=0.5)(position)
            assert [group["lr"] for group in others] == ([] if position < 4 else [first["lr"], pytest.approx(first["lr"] / 5)])
            assert len({group["momentum"] for group in optimizer.param_groups}) == 1


def test_a_group_that_joins_an_optimizer_without_lr_peaks_at_max_lr() -> None:
    optimizer = optimizer_of("momentum", 0.0)
    driver = drive(OneCycle(0.5), optimizer, total_steps=10)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.3})
    driver.before_update(2)
    assert [group["lr"] for group in optimizer.param_groups] == [OneCycle(0.5).curve(10, base=0.5)(2)] * 2


def test_a_list_needs_one_for_each_group() -> None:
    words = r"max_lr=\[0.1, 0.2\] has 2 values and the optimizer 3 parameter groups; give one value for each group, or one number"
    with pytest.raises(DescriptionError, match=words):
        drive(OneCycle([0.1, 0.2]), optimizer_of("adam", 1, 1, 1), total_steps=10)


# --- What is said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_lr": 0.0}, "max_lr=0.0 is no learning rate to rise to; use a number above 0"),
        ({"max_lr": -1.0}, "max_lr=-1.0 is no learning rate"),
        ({"max_lr": math.nan}, "max_lr=nan is no learning rate"),
        ({"max_lr": []}, r"max_lr=\[\] is no learning rate"),
        ({"max_lr": [0.1, 0.0]}, r"max_lr=\[0.1, 0.0\] is no learning rate"),
        ({"max_lr": "1e-3"}, "max_lr='1e-3' is text; use a number above 0"),
        ({"pct_start": 0.0}, "pct_start=0.0 is no share of a run; use one between 0 and 1, such as 0.3"),
        ({"pct_start": 1}, "pct_start=1 is no share"),
        ({"pct_start": 30}, "pct_start=30 is no share"),
        ({"div_factor": 1.0}, "div_factor=1.0 puts max_lr=0.1 not above the start, max_lr / div_factor; use a number above 1"),
        ({"final_div_factor": 0}, "final_div_factor=0 gives no last learning rate, .* use a number above 0, such as 1e4"),
        ({"anneal": "cosine"}, 'anneal=\'cosine\' is not known; use "cos" or "linear"'),
        (
            {"momentum": (0.95, 0.85)},
            r"momentum=\(0.95, 0.85\) is not \(lowest, highest\), from 0 to below 1; use \(0.85, 0.95\)",
        ),
        ({"momentum": (0.9, 1.0)}, r"momentum=\(0.9, 1.0\) is not"),
        ({"momentum": 0.9}, "momentum=0.9 is not"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        OneCycle(**{"max_lr": 0.1, **options})


def test_the_plan_says_what_is_overwritten() -> None:
    (note,) = drive(OneCycle(0.05), optimizer_of("momentum", 0.001), total_steps=100).notes
    assert note == "OneCycle overwrites the optimizer's lr=0.001: it goes 0.002 → 0.05 → 2e-07."
    assert drive(OneCycle(0.05), optimizer_of("momentum", 0.05 / 25), total_steps=100).notes == ()
    (note,) = drive(OneCycle(0.05), optimizer_of("adam", 0.05), total_steps=100).notes
    assert note.endswith("max_lr=0.05 is not above it, so no update is larger than with that lr.")


def test_the_plan_says_that_momentum_is_switched_on() -> None:
    start = 0.1 / 25
    (note,) = drive(OneCycle(0.1), optimizer_of("plain", start), total_steps=100).notes
    assert note == "OneCycle switches the optimizer's momentum on, 0 → (0.85, 0.95); momentum=None leaves it alone."
    assert drive(OneCycle(0.1, momentum=None), optimizer_of("plain", start), total_steps=100).notes == ()


def test_the_plan_says_that_a_phase_has_no_room() -> None:
    start = 0.1 / 25
    (note,) = drive(OneCycle(0.1), optimizer_of("adam", start), total_steps=3).notes
    assert note == "OneCycle has no room to rise: pct_start=0.3 of 3 updates is not more than one."
    (note,) = drive(OneCycle(0.1, pct_start=0.6, three_phase=True), optimizer_of("adam", start), total_steps=30).notes
    assert note == "OneCycle never comes to its third phase: pct_start=0.6 is not below a half."


def test_it_is_a_value() -> None:
    peaks = [0.1, 0.2]
    schedule = OneCycle(peaks)
    peaks[0] = 9.0
    assert schedule == OneCycle((0.1, 0.2))
    assert len({schedule, OneCycle((0.1, 0.2)), OneCycle(0.1)}) == 2
    assert repr(OneCycle(0.1)).startswith("OneCycle(max_lr=0.1, pct_start=0.3, ")
