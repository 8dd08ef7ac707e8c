"""Phases: what was counted in one part of a run is judged by itself."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import instep
from instep.doctor.hub import Hub
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace
from instep.doctor.watch.clipping import Clipping, ClipPlace
from instep.doctor.watch.losses import Losses, LossKind
from instep.doctor.watch.phases import LONG, Phases, PhaseWatch, by_phase


def trained(trace: Trace, watch: PhaseWatch, steps: int) -> None:
    """After so many steps another phase begins."""
    trace.steps += steps
    watch.on_optimizer()


def test_counts_are_those_of_each_phase_and_of_the_whole_run_last() -> None:
    trace = Trace()
    watch = PhaseWatch(trace, Hub(trace, Locator()))
    place = trace.part(Clipping).places["a"] = ClipPlace("a", "clip_grad_norm_", count=200, fresh=200, limit=1.0)
    trained(trace, watch, 200)
    place.count, place.after_use = 240, 40
    trace.steps += 40
    parts = list(by_phase(trace, [place]))
    assert [(part.count, part.fresh, part.after_use, part.first_step) for part in parts] == [
        (200, 200, 0, 0),
        (40, 0, 40, 200),
        (240, 200, 40, 0),
    ]
    assert parts[-1] is place


def test_counters_are_told_apart_and_phases_without_calls_left_out() -> None:
    trace = Trace()
    watch = PhaseWatch(trace, Hub(trace, Locator()))
    kind = trace.part(Losses).kinds["mse_loss", "a"] = LossKind("mse_loss", "a", count=20, origins=Counter(Mm=20))
    trained(trace, watch, 20)
    trained(trace, watch, 20)  # in which nobody calls it
    kind.count, kind.origins["Softmax"] = 30, 10
    trace.steps += 20
    assert [part.origins for part in by_phase(trace, [kind])] == [
        Counter(Mm=20),
        Counter(Softmax=10),
        Counter(Mm=20, Softmax=10),
    ]


def test_a_few_calls_in_a_phase_are_not_judged_by_themselves() -> None:
    trace = Trace()
    watch = PhaseWatch(trace, Hub(trace, Locator()))
    place = trace.part(Clipping).places["a"] = ClipPlace("a", "clip_grad_norm_", count=200, fresh=200)
    trained(trace, watch, 200)
    place.count, place.after_use = 203, 3
    trace.steps += 40
    assert [part.count for part in by_phase(trace, [place])] == [200, 203]


def test_a_short_phase_is_part_of_the_next() -> None:
    trace = Trace()
    watch = PhaseWatch(trace, Hub(trace, Locator()))
    trained(trace, watch, LONG - 1)
    trained(trace, watch, 1)
    assert trace.part(Phases).number == 2
    assert trace.part(Phases).began == [0, LONG]


@pytest.mark.parametrize("change", ["thawed", "cast", "added", "loaded", "none"])
def test_a_phase_begins_with_what_is_trained(change: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    model[0].requires_grad_(change != "thawed")
    optimizer = torch.optim.SGD(model.parameters() if change != "added" else model[1].parameters(), lr=0.01)

    def train() -> None:
        for _ in range(20):
            optimizer.zero_grad()
            given = torch.randn(8, 4).to(next(model.parameters()).dtype)
            F.mse_loss(model(given), given[:, :1]).backward()
            optimizer.step()

    with instep.watch(aloud=False) as watcher:
        for again in (False, True):
            if again and change == "thawed":
                model[0].requires_grad_(True)
            elif again and change == "cast":
                model.double()
            elif again and change == "added":
                optimizer.add_param_group({"params": list(model[0].parameters())})
            elif again and change == "loaded":
                model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})
            train()  # one line for both: another one that calls the loop begins a phase too
    assert watcher.trace.part(Phases).began == ([0] if change == "none" else [0, 20])
    assert watcher.hub.failed == 0
