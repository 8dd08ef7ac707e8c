"""The other functions of position: torch's numbers where torch has the shape, and by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    SequentialLR,
    StepLR,
)

from instep.errors import DescriptionError
from instep.schedules import WSD, Constant, Exponential, Linear, Schedule, Step, WarmRestarts, WarmupCosine, drive
from instep.schedules.decay import since_restart
from instep.schedules.span import Span, in_updates

totals = st.integers(1, 150)


def sgd(*lrs: float) -> Optimizer:
    return SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs], lr=0.1)


def assert_as_torch(schedule: Schedule, build: Callable[[Optimizer], LRScheduler], total: int) -> None:
    """Two groups go through a run with each; closed form and torch's chained products differ by rounding only."""
    ours, theirs = sgd(0.1, 0.03), sgd(0.1, 0.03)
    driver, scheduler = drive(schedule, ours, total_steps=total), build(theirs)
    for position in range(total):
        driver.before_update(position)
        for one, other in zip(ours.param_groups, theirs.param_groups, strict=True):
            assert one["lr"] == pytest.approx(other["lr"], rel=1e-9, abs=1e-14)
        theirs.step()
        scheduler.step()


def values(schedule: Schedule, total: int, base: float = 1.0) -> list[float]:
    curve = schedule.curve(total, base)
    return [curve(position) for position in range(total)]


# --- As torch's


def warmup_then(optimizer: Optimizer, warmup: int, after: LRScheduler) -> LRScheduler:
    if not warmup:
        return after
    rise = LinearLR(optimizer, start_factor=1 / (warmup + 1), total_iters=warmup)
    return SequentialLR(optimizer, [rise, after], milestones=[warmup])


@given(total=totals, share=st.floats(0, 0.99), given_as_share=st.booleans())
@settings(max_examples=40, deadline=None)
def test_warmup_cosine(total: int, share: float, given_as_share: bool) -> None:
    updates = min(round(share * total), total - 1)
    warmup: Span = share if given_as_share and in_updates(share, total) == updates else updates

    def build(optimizer: Optimizer) -> LRScheduler:
        return warmup_then(optimizer, updates, CosineAnnealingLR(optimizer, T_max=total - updates))

    assert_as_torch(WarmupCosine(warmup), build, total)


def test_warmup_cosine_to_a_final_value() -> None:
    def build(optimizer: Optimizer) -> LRScheduler:
        return LambdaLR(optimizer, WarmupCosine(7, final=0.2).curve(50, base=1.0))

    assert_as_torch(WarmupCosine(7, final=0.2), build, 50)
    one = sgd(0.1)
    scheduler = CosineAnnealingLR(one, T_max=40, eta_min=0.02)
    for value in values(WarmupCosine(final=0.2), 40, base=0.1):
        assert value == pytest.approx(one.param_groups[0]["lr"])
        one.step()
        scheduler.step()


@given(total=totals, start=st.floats(0.01, 1), end=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_linear(total: int, start: float, end: float) -> None:
    assert_as_torch(Linear(start, end), lambda optimizer: LinearLR(optimizer, start, end, total_iters=total), total)


def test_linear_after_a_warmup() -> None:
    def build(optimizer: Optimizer) -> LRScheduler:
        return warmup_then(optimizer, 10, LinearLR(optimizer, 1.0, 0.0, total_iters=40))

    assert_as_torch(Linear(warmup=0.2), build, 50)


@given(total=totals, every=st.integers(1, 60), factor=st.floats(0.1, 1.5))
@settings(max_examples=40, deadline=None)
def test_step(total: int, every: int, factor: float) -> None:
    assert_as_torch(Step(every, factor), lambda optimizer: StepLR(optimizer, every, factor), total)


@given(total=totals, milestones=st.lists(st.integers(1, 150), max_size=5), factor=st.floats(0.1, 1))
@settings(max_examples=40, deadline=None)
def test_milestones(total: int, milestones: list[int], factor: float) -> None:
    """In any order, and one that is given twice counts twice."""
    assert_as_torch(Step(factor=factor, milestones=milestones), lambda o: MultiStepLR(o, sorted(milestones), factor), total)


@given(total=totals, factor=st.floats(0.8, 1.01))
@settings(max_examples=40, deadline=None)
def test_exponential(total: int, factor: float) -> None:
    assert_as_torch(Exponential(factor), lambda optimizer: ExponentialLR(optimizer, factor), total)


@given(total=totals, first=st.integers(1, 40), multiply=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_warm_restarts(total: int, first: int, multiply: int) -> None:
    assert_as_torch(WarmRestarts(first, multiply), lambda o: CosineAnnealingWarmRestarts(o, first, multiply), total)


# --- By hand


def test_warmup_cosine_by_hand() -> None:
    """Half of a whole that is left to fall is gone at the middle, and nothing is ever at 0."""
    assert values(WarmupCosine(warmup=3), 7) == pytest.approx([0.25, 0.5, 0.75, 1, (2 + 2**0.5) / 4, 0.5, (2 - 2**0.5) / 4])
    assert values(WarmupCosine(warmup=0.25, final=0.5), 4) == pytest.approx([0.5, 1, 0.875, 0.625])
    assert values(WarmupCosine(), 1) == [1.0]


def test_linear_by_hand() -> None:
    assert values(Linear(), 4) == pytest.approx([1, 0.75, 0.5, 0.25])
    assert values(Linear(start=2, end=1, warmup=1), 5) == pytest.approx([1, 2, 1.75, 1.5, 1.25])
    assert values(Linear(start=0, end=1), 4) == pytest.approx([0, 0.25, 0.5, 0.75])


def test_wsd_by_hand() -> None:
    assert values(WSD(warmup=1, decay=0.5), 8) == pytest.approx([0.5, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert values(WSD(warmup=0, decay=4, final=0.5, fall="sqrt"), 6) == pytest.approx(
        [1, 1, 1, 0.75, 0.5 + 0.5 * (1 - 0.5**0.5), 0.5 + 0.5 * (1 - 0.75**0.5)]
    )
    assert values(WSD(warmup=0, decay=2, fall="cos"), 4) == pytest.approx([1, 1, 1, 0.5])
    assert values(WSD(warmup=2, decay=0), 4) == pytest.approx([1 / 3, 2 / 3, 1, 1])


def test_steps_and_decay_by_hand() -> None:
    assert values(Step(every=2), 5) == pytest.approx([1, 1, 0.1, 0.1, 0.01])
    assert values(Step(every=0.5, factor=0.5), 4) == [1, 1, 0.5, 0.5]
    assert values(Step(milestones=(0.75, 2), factor=0.5), 4) == [1, 1, 0.5, 0.25]
    assert values(Exponential(half_life=2), 5)[::2] == [1, 0.5, 0.25]
    assert values(Exponential(half_life=0.5), 4)[::2] == [1, 0.5]
    assert values(Exponential(half_life=0.1), 5) == [1, 0.25, 1 / 16, 1 / 64, 1 / 256]  # half an update
    assert values(WarmRestarts(first=2, multiply=2, final=0.5), 6) == pytest.approx(
        [1, 0.75, 1, 0.5 + 0.5 * (2 + 2**0.5) / 4, 0.75, 0.5 + 0.5 * (2 - 2**0.5) / 4]
    )
    assert values(WarmRestarts(first=0.5), 4) == pytest.approx([1, 0.5, 1, 0.5])
    assert values(Constant(), 3, base=0.2) == [0.2] * 3


def test_restarts_by_hand() -> None:
    assert [since_restart(position, 2, 3) for position in (0, 1, 2, 7, 8, 25, 26)] == [
        (0, 2),
        (1, 2),
        (0, 6),
        (5, 6),
        (0, 18),
        (17, 18),
        (0, 54),
    ]


SHAPES = [WarmupCosine(0.1, final=0.1), Linear(), WSD(0.1, 0.3), WSD(0, 5, fall="cos"), WSD(0, 5, fall="sqrt")]


@pytest.mark.parametrize("schedule", SHAPES, ids=repr)
def test_past_the_end_it_stays_at_the_final_value(schedule: Schedule) -> None:
    curve = schedule.curve(20, base=2.0)
    assert curve(20) == curve(21) == curve(10**6) == pytest.approx(0.2 if schedule == SHAPES[0] else 0.0)
    assert curve(19) > curve(20)


# --- What is said

RUN = "a whole number of updates from {} on .{}=100., or a share of the run below 1 .{}=0.1."


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: WarmupCosine(warmup=100.0), "warmup=100.0 is no stretch of a run; use " + RUN.format(0, "warmup", "warmup")),
        (lambda: WarmupCosine(warmup=-1), "warmup=-1 is no stretch of a run"),
        (lambda: WarmupCosine(warmup=1.0), "warmup=1.0 is no stretch of a run"),
        (lambda: WarmupCosine(warmup=float("nan")), "warmup=nan is no stretch of a run"),
        (lambda: WarmupCosine(warmup=True), "warmup=True is a bool; use a whole number"),
        (lambda: WarmupCosine(warmup="5%"), "warmup='5%' is a str; use a whole number"),  # type: ignore[arg-type]
        (lambda: WarmupCosine(final=-0.1), "final=-0.1 cannot multiply a learning rate; use 0 or a number above it"),
        (lambda: Linear(start=-1), "start=-1 cannot multiply a learning rate"),
        (lambda: Linear(end=float("inf")), "end=inf cannot multiply a learning rate"),
        (lambda: Linear(start=0), "start=0 and end=0 leave no learning rate; use start=1.0, end=0.0"),
        (lambda: WSD(0, -1), "decay=-1 is no stretch of a run"),
        (lambda: WSD(0, 1, fall="square"), 'fall=\'square\' is not known; use "linear", "cos" or "sqrt"'),  # type: ignore[arg-type]
        (Step, r"Step got every=None and milestones=None; give one of them: Step\(every=1000\), or Step\(milest"),
        (lambda: Step(10, milestones=[1]), r"Step got every=10 and milestones=\[1\]; give one"),
        (lambda: Step(0), "every=0 is no stretch of a run; use " + RUN.format(1, "every", "every")),
        (lambda: Step(0.0), "every=0.0 is no stretch of a run"),
        (lambda: Step(milestones=[5, 1.5]), "milestone=1.5 is no stretch of a run"),
        (lambda: Step(5, factor=0), "factor=0 cannot be multiplied with again and again; use a number between 0 and 1"),
        (Exponential, "Exponential got factor=None and half_life=None; give one of them: .*half_life=0.2"),
        (lambda: Exponential(0.9, 10), "Exponential got factor=0.9 and half_life=10; give one"),
        (lambda: Exponential(-0.9), "factor=-0.9 cannot be multiplied with again and again"),
        (lambda: Exponential(half_life=0), "half_life=0 is no stretch of a run"),
        (lambda: WarmRestarts(0), "first=0 is no stretch of a run"),
        (lambda: WarmRestarts(5, multiply=0), "multiply=0 cannot lengthen a cosine; use a whole number from 1 on"),
        (lambda: WarmRestarts(5, multiply=1.5), "multiply=1.5 cannot lengthen a cosine"),  # type: ignore[arg-type]
        (lambda: WarmRestarts(5, final=1.0), "final=1.0 is not below the start, 1; use a share from 0 to below 1"),
    ],
)
def test_what_makes_no_sense(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        build()


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (WarmupCosine(50), "warmup=50 leaves nothing of the run of 50 updates; use fewer, or a share such as warmup=0.1"),
        (Linear(warmup=51), "warmup=51 leaves nothing of the run of 50 updates"),
        (WSD(0.999, 1), r"warmup=0.999 \(50 updates\) leaves nothing of the run"),
        (WSD(30, 0.5), r"warmup=30 and decay=0.5 \(25 updates\) are longer than the run of 50 updates; use shorter ones, or sh"),
        (Step(0.001), r"every=0.001 \(0 updates\) is less than one update in a run of 50; use a larger share, or every=1"),
        (
            WarmRestarts(0.001),
            r"first=0.001 \(0 updates\) is less than one update in a run of 50; use a larger share, or first=1",
        ),
    ],
)
def test_what_does_not_fit_into_the_run(schedule: Schedule, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        drive(schedule, sgd(0.1), total_steps=50)


def test_nothing_to_multiply() -> None:
    with pytest.raises(
        DescriptionError, match="WarmupCosine multiplies the optimizer's lr, which is 0; give the optimizer an lr"
    ):
        drive(WarmupCosine(), sgd(0.0, 0.0), total_steps=50)
    drive(WarmupCosine(), sgd(0.0, 0.1), total_steps=50)


def test_it_is_a_value() -> None:
    assert Step(milestones=[10, 20]) == Step(milestones=(10, 20))
    assert len({Step(milestones=[10, 20]), Step(milestones=(10, 20)), WarmupCosine(5), WarmupCosine(5)}) == 2
