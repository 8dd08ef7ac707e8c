"""torch's own schedulers: exactly torch's trace, stepped at the right moments, and put back where they were."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Optimizer, lr_scheduler
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
    StepLR,
)

from instep.checkpoint import jsontext
from instep.checkpoint.tagged import Decoder, Encoder
from instep.errors import DescriptionError
from instep.schedules import OneCycle, drive, per_epoch
from instep.schedules.scheduler import required_parameters
from torch_schedulers import BUILD

TOTAL = 12


def sgd() -> Optimizer:
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.1, 0.03)]
    return SGD(groups, momentum=0.9)


def written(optimizer: Optimizer) -> list[tuple[float, float]]:
    return [(group["lr"], group["momentum"]) for group in optimizer.param_groups]


def plain_trace(build: Callable[[Optimizer, int], LRScheduler], steps: int = TOTAL) -> list[list[tuple[float, float]]]:
    optimizer = sgd()
    scheduler = build(optimizer, steps)
    trace = []
    for _ in range(steps):
        trace.append(written(optimizer))
        optimizer.step()
        scheduler.step()
    return trace


def read_back(state: Any) -> Any:
    """As it comes from a checkpoint."""
    encoder = Encoder("state")
    text = jsontext.render(encoder.encode(state), "state")
    return Decoder(encoder.tensors).decode(jsontext.parse(text, "state"))


def test_every_scheduler_of_torch_is_tried() -> None:
    assert {*BUILD, "ReduceLROnPlateau", "LRScheduler"} == set(lr_scheduler.__all__)


@pytest.mark.parametrize("name", BUILD)
def test_the_trace_is_torchs_and_goes_on_where_it_was(name: str) -> None:
    """Stopped after each update, through the text of a checkpoint into a new scheduler on a new optimizer: the same trace."""
    schedule = BUILD[name]
    optimizer = sgd()
    driver = drive(schedule, optimizer, total_steps=TOTAL)
    assert (driver.notes, driver.needs_monitor, driver.monitor_mode) == ((), False, None)
    trace = []
    for position in range(TOTAL):
        driver.before_update(position)
        trace.append(written(optimizer))
        optimizer.step()
        driver.after_update()
        if position % 4 == 3:
            driver.after_epoch()
            driver.after_evaluation(1.0)
        state, options = driver.state_dict(), copy.deepcopy(optimizer.state_dict())
        frozen = repr(state)
        optimizer = sgd()
        driver = drive(schedule, optimizer, total_steps=TOTAL)
        optimizer.load_state_dict(options)
        driver.load_state_dict(read_back(state))
        assert repr(state) == frozen  # some of torch's take things out of it
    assert trace == plain_trace(BUILD[name])


class Remembering(LRScheduler):
    """Keeps a list that grows."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.seen: list[int] = []
        super().__init__(optimizer)

    def get_lr(self) -> list[Any]:
        self.seen.append(self.last_epoch)
        return [group["lr"] for group in self.optimizer.param_groups]


def test_a_state_is_not_the_schedulers_own() -> None:
    optimizer = sgd()
    driver = drive(lambda optimizer, total_steps: Remembering(optimizer), optimizer, total_steps=TOTAL)
    state = driver.state_dict()
    before = copy.deepcopy(state)
    optimizer.step()
    driver.after_update()
    assert state == before != driver.state_dict()


# --- Epochs


@pytest.mark.parametrize(
    "schedule",
    [
        per_epoch(lambda optimizer, epochs: CosineAnnealingLR(optimizer, T_max=epochs)),
        per_epoch(lambda o: CosineAnnealingLR(o, 5)),
    ],
)
def test_per_epoch(schedule: Any) -> None:
    optimizer = sgd()
    driver = drive(schedule, optimizer, total_steps=15, epochs=5)
    trace = []
    for epoch in range(5):
        for index in range(3):
            driver.before_update(3 * epoch + index)
            trace.append(written(optimizer))
            optimizer.step()
            driver.after_update()
        driver.after_epoch()
        driver.after_evaluation(0.5)
    assert trace == [value for value in plain_trace(CosineAnnealingLR, 5) for _ in range(3)]
    assert driver.state_dict()["last_epoch"] == 5


def test_an_epoch_without_a_single_step_is_an_epoch() -> None:
    """torch would warn that the order is wrong; it is not."""
    driver = drive(per_epoch(lambda optimizer: StepLR(optimizer, 1)), sgd(), total_steps=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        driver.after_epoch()
    assert driver.state_dict()["last_epoch"] == 1


def test_per_epoch_says_what_it_needs() -> None:
    with pytest.raises(
        DescriptionError, match=r"per_epoch got a StepLR; give it a function that builds a scheduler: per_epoch\(lam"
    ):
        per_epoch(StepLR(sgd(), 3))  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match="per_epoch got the class StepLR; give it a function"):
        per_epoch(StepLR)
    with pytest.raises(DescriptionError, match="per_epoch got a function; give it a function that builds"):
        per_epoch(lambda a, b, c: StepLR(a, 3))  # type: ignore[arg-type]
    with pytest.raises(
        DescriptionError, match=r"per_epoch\(f\) asks for the number of epochs, which is not known here; use epochs="
    ):
        drive(per_epoch(lambda optimizer, epochs: StepLR(optimizer, step_size=epochs)), sgd(), total_steps=10)
    with pytest.raises(
        DescriptionError, match="ReduceLROnPlateau is stepped after each evaluation, not by epochs; pass it without"
    ):
        drive(per_epoch(lambda optimizer: ReduceLROnPlateau(optimizer, patience=3)), sgd(), total_steps=10)


# --- Plateau


def test_plateau_is_stepped_with_the_monitored_value() -> None:
    losses = [1.0, 0.9, 0.9, 0.95, 0.8, 0.8, 0.8]
    theirs = sgd()
    scheduler = ReduceLROnPlateau(theirs, patience=1)
    ours = sgd()
    driver = drive(lambda optimizer, total_steps: ReduceLROnPlateau(optimizer, patience=1), ours, total_steps=70)
    assert driver.needs_monitor
    assert driver.monitor_mode == "min"
    for loss in losses:
        for position in range(10):
            driver.before_update(position)
            ours.step()
            driver.after_update()
        driver.after_epoch()
        driver.after_evaluation(loss)
        scheduler.step(loss)
        assert written(ours) == written(theirs)
    assert ours.param_groups[0]["lr"] == pytest.approx(0.001)

    new = sgd()
    again = drive(lambda optimizer, total_steps: ReduceLROnPlateau(optimizer, patience=1), new, total_steps=70)
    again.load_state_dict(driver.state_dict())
    assert again.state_dict() == driver.state_dict()


def test_plateau_says_which_way_is_better() -> None:
    driver = drive(lambda optimizer, total_steps: ReduceLROnPlateau(optimizer, mode="max"), sgd(), total_steps=70)
    assert driver.monitor_mode == "max"


# --- What is said


def test_what_a_function_may_not_return() -> None:
    with pytest.raises(
        DescriptionError, match=r"is a function of \(optimizer, total_steps\), and it returned None; return one of tor"
    ):
        drive(lambda optimizer, total_steps: None, sgd(), total_steps=10)  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match=r"it returned a OneCycle; .* is passed as it is: schedule=OneCycle\(max_lr=0.1\)"):
        drive(lambda optimizer, total_steps: OneCycle(0.1), sgd(), total_steps=10)  # type: ignore[arg-type]


def test_a_scheduler_of_another_optimizer() -> None:
    other = sgd()
    with pytest.raises(
        DescriptionError, match="built a StepLR on another optimizer, so this run's would never change; use the opti"
    ):
        drive(lambda optimizer, total_steps: StepLR(other, 3), sgd(), total_steps=10)


def test_a_group_that_joins_later() -> None:
    optimizer = sgd()
    driver = drive(lambda optimizer, total_steps: CosineAnnealingLR(optimizer, T_max=total_steps), optimizer, total_steps=10)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    optimizer.step()
    driver.after_update()  # torch's chained form needs nothing but the group
    optimizer = sgd()
    driver = drive(lambda optimizer, total_steps: OneCycleLR(optimizer, 0.1, total_steps), optimizer, total_steps=10)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    optimizer.step()
    with pytest.raises(
        DescriptionError, match="OneCycleLR was built for 2 parameter groups and the optimizer has 3 now; use a sched"
    ):
        driver.after_update()


def test_a_scheduler_that_ends_before_the_run() -> None:
    words = r"OneCycleLR ends after 5 steps, and the run has 10 updates; build it with total_steps, which the function is given"
    with pytest.raises(DescriptionError, match=words):
        drive(lambda optimizer, total_steps: OneCycleLR(optimizer, 0.1, 5), sgd(), total_steps=10)
    with pytest.raises(DescriptionError, match=words):
        drive(
            lambda optimizer, total_steps: ChainedScheduler([StepLR(optimizer, 3), OneCycleLR(optimizer, 0.1, 5)], optimizer),
            sgd(),
            total_steps=10,
        )
    with pytest.raises(DescriptionError, match="OneCycleLR ends after 2 steps, and the run has 3 epochs; build it with epochs"):
        drive(per_epoch(lambda optimizer: OneCycleLR(optimizer, 0.1, 2)), sgd(), total_steps=10, epochs=3)


def test_what_torch_raises_is_left_as_it_is() -> None:
    optimizer = sgd()
    driver = drive(lambda optimizer, total_steps: OneCycleLR(optimizer, 0.1, total_steps), optimizer, total_steps=2)
    optimizer.step()
    driver.after_update()
    driver.after_update()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        driver.after_update()


def test_no_state_to_go_on_from() -> None:
    driver = drive(lambda optimizer, total_steps: StepLR(optimizer, 3), sgd(), total_steps=10)
    with pytest.raises(
        DescriptionError, match="schedule= is torch's StepLR, and there is no state of one to go on from; start a new"
    ):
        driver.load_state_dict({})


def test_parameters_are_counted() -> None:
    assert required_parameters(lambda position: 0.1) == 1
    assert required_parameters(lambda position, scale=2: 0.1) == 1
    assert required_parameters(lambda optimizer, total_steps: None) == 2
    assert required_parameters(lambda *everything: None) == 0
    assert required_parameters(type) is None
