"""What the doctor does not do, since every watched script would pay for it."""

from dataclasses import field

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from instep.doctor import extra_forward
from instep.doctor.extra_forward import is_torchs
from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch, Patches
from instep.doctor.records import part_class, record_class
from instep.doctor.sites import Locator
from instep.doctor.tallies import Tally, since
from instep.doctor.trace import Trace
from instep.doctor.watch import phases
from instep.doctor.watch.optimizers import Step
from instep.doctor.watcher import Watcher


class Numbers:
    """Counts numbers that are taken from tensors."""

    def __init__(self) -> None:
        self.count = 0

    def after_number(self, _: Called) -> None:
        self.count += 1


class Doubled(nn.Module):
    """A forward that torch does not know."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def _step(closure: bool) -> Step:
    return Step(None, None, closure, False, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("closure", [False, True])
def test_what_an_optimizer_does_inside_its_step_is_not_told_one_by_one(closure: bool) -> None:
    hub = Hub(Trace(), Locator())
    hub.open()
    numbers, patches = Numbers(), Patches(hub)
    hub.connect(numbers)
    try:
        patches.install([Patch("number", ("torch:Tensor.item",), outside_steps=True)])
        torch.ones(()).item()
        patches.before_step(_step(closure))
        torch.ones(()).item()
        patches.after_step(_step(closure))
        torch.ones(()).item()
    finally:
        patches.remove()
    assert numbers.count == (3 if closure else 2)  # what a closure does is the user's


def test_a_step_that_failed_does_not_silence_what_comes_after_a_rest() -> None:
    hub = Hub(Trace(), Locator())
    hub.open()
    numbers, patches = Numbers(), Patches(hub)
    hub.connect(numbers)
    try:
        patches.install([Patch("number", ("torch:Tensor.item",), outside_steps=True)])
        patches.before_step(_step(False))
        patches.on_rest()
        patches.on_wake()
        torch.ones(()).item()
    finally:
        patches.remove()
    assert numbers.count == 1


def test_modules_of_torchs_that_nobody_listens_to_are_tried_without_a_copy_of_the_process() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 2))
    assert is_torchs(model)
    assert not is_torchs(nn.Sequential(nn.Linear(4, 4), Doubled()))
    assert not is_torchs(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)))
    with torch.autocast("cpu"):
        assert not is_torchs(model)
    with TorchFunctionMode():
        assert not is_torchs(model)
    handle = register_module_forward_hook(lambda *_: None)
    assert not is_torchs(model)
    handle.remove()
    with Watcher():  # whose own hooks are on all modules
        assert is_torchs(model)
    model[0].register_forward_hook(lambda *_: None)
    assert not is_torchs(model)


@record_class
class Count(Tally):
    """A tally."""

    count: int = 0


@part_class
class Counts:
    """A part of the trace."""

    all: list[Count] = field(default_factory=list)
    most: int = 3


def test_parts_are_made_anew_each_time() -> None:
    one, other = Counts(), Counts()
    one.all.append(Count(1))
    assert (other.all, other.most) == ([], 3)
    with pytest.raises(TypeError, match="needs a default"):
        part_class(type("Wrong", (), {"__annotations__": {"count": int}}))


def test_tallies_of_the_phase_that_goes_on_are_computed_once_in_a_judgement(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    tally = Count(20)
    trace.part(Counts).all.append(tally)
    part = trace.part(phases.Phases)
    part.began, part.notes, trace.steps = [0, 20], [{}, {id(tally): Count(4)}], 40
    asked: list[Tally] = []

    def count_since(tally: Count, before: Count | None, step: int) -> Count | None:
        asked.append(tally)
        return since(tally, before, step)

    monkeypatch.setattr(phases, "since", count_since)

    def counts() -> list[int]:
        return [found.count for found in phases.by_phase(trace, [tally])]

    part.over[0] = {id(tally): Count(20)}
    part.counted = {}
    assert counts() == counts() == [20, 16, 20]
    assert len(asked) == 1
    part.counted = None
    tally.count = 24
    assert counts() == [20, 20, 24]


def test_a_draw_of_numpys_is_noticed_however_arrays_are_printed() -> None:
    before = extra_forward._generators()
    assert extra_forward._are_equal(before, extra_forward._generators())
    with np.printoptions(threshold=10):  # 624 words are shortened to six
        np.random.random(300)
        assert not extra_forward._are_equal(before, extra_forward._generators())
    extra_forward._restore(before)
    assert extra_forward._are_equal(before, extra_forward._generators())
