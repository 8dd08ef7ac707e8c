"""The rules about gradients and precision on traces made by hand, and what their observers note, in numbers."""

import pytest
import torch
from torch import Tensor, nn

from instep.doctor.cycle_tallies import Cycles
from instep.doctor.mean_losses import is_mean
from instep.doctor.rules.accumulation import _regular_leaks
from instep.doctor.rules.graphs import graph_kept, graph_retained
from instep.doctor.rules.updates import diverging_loss, exploding_updates, vanishing_updates
from instep.doctor.trace import Trace
from instep.doctor.watch.cycles import CyclePart
from instep.doctor.watch.graphs import GraphPlace, Graphs
from instep.doctor.watch.updates import Movement, Moves, Trend, Updates
from instep.doctor.watcher import Watcher


def trace_of(losses: list[float], ratios: list[float]) -> Trace:
    """A trace with one loss and one tensor, a sample of it every fourth step."""
    trace = Trace()
    trend = trace.part(Updates).trends["train.py:9"] = Trend("train.py:9")
    for step, loss in enumerate(losses):
        trend.add(step, loss)
    move = Moves("weight", "float32", 64, samples=len(ratios), late=len(ratios))
    for ratio in ratios:
        move.ratios.append(ratio)
        move.low += ratio < 1e-7
        move.high += ratio > 0.1
        move.highest = max(move.highest, ratio)
    trace.part(Updates).optimizers[0] = Movement("SGD", True, "train.py:10", [move])
    return trace


def test_a_loss_diverges_only_where_updates_are_large() -> None:
    losses = [2.0 * 1.2**step for step in range(48)]
    (found,) = diverging_loss(trace_of(losses, [0.2] * 8))
    assert found.where == "train.py:9"
    assert found.evidence["last"] > 10 * found.evidence["lowest"]
    assert not list(diverging_loss(trace_of(losses, [1e-3] * 8)))


@pytest.mark.parametrize(
    "losses",
    [[2.0] * 48, [2.0 / (1 + step) for step in range(48)], [-2.0 * 1.2**step for step in range(48)], [0.1, 5.0] * 24],
    ids=["flat", "falling", "negative", "noisy"],
)
def test_other_losses_do_not_diverge(losses: list[float]) -> None:
    assert not list(diverging_loss(trace_of(losses, [0.2] * 8)))


def test_large_updates_are_named_unless_the_loss_diverges_already() -> None:
    (found,) = exploding_updates(trace_of([2.0] * 48, [0.2] * 8))
    assert found.level == "hint"
    assert found.evidence["median_ratio"] == 0.2
    assert not list(exploding_updates(trace_of([2.0] * 48, [0.2] * 3 + [0.01] * 5)))
    assert not list(exploding_updates(trace_of([2.0 * 1.2**step for step in range(48)], [0.2] * 8)))


def test_tiny_updates_are_named_unless_there_were_larger_ones() -> None:
    (found,) = vanishing_updates(trace_of([2.0] * 48, [1e-9] * 8))
    assert found.evidence["tensors"] == ["weight"]
    assert not list(vanishing_updates(trace_of([2.0] * 48, [1e-3] + [1e-9] * 9)))
    assert not list(vanishing_updates(trace_of([2.0] * 48, [1e-9] * 5)))


def test_a_trend_keeps_its_length() -> None:
    trend = Trend(None)
    for step in range(100_000):
        trend.add(step, float(step))
    assert len(trend.blocks) == len(trend.steps) <= 64
    assert trend.steps[0] == 0
    assert trend.blocks[-1] > 90_000


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ([4, 4, 6, 4, 6, 4, 6], [2, 2, 2]),
        ([4] * 8, []),
        ([3, 4, 2, 4, 3, 2], []),
        ([4, 6, 4, 4, 6, 6], []),
        ([4, 9, 4, 9, 4, 9], []),
        ([4, 3, 4, 3, 4, 3], []),  # the rest of an epoch has a step of its own
        (([4] * 80 + [6]) + ([4] * 79 + [6]) * 3, [2, 2, 2, 2]),
    ],
)
def test_leaks_without_a_loader_are_regular(sizes: list[int], left: list[int]) -> None:
    cycles = Cycles()
    for step, size in enumerate(sizes):
        cycles.add_size(step, size)
    assert _regular_leaks(cycles)[1] == left


def test_kept_and_retained_graphs_are_one_finding() -> None:
    trace = Trace()
    trace.part(Graphs).backwards["a.py:1"] = place = GraphPlace("a.py:1", count=40, old=30, most=37)
    assert [found.id for found in graph_kept(trace)] == ["graph-kept"]
    assert not list(graph_retained(trace))
    place.retained = 40
    assert not list(graph_kept(trace))
    assert [found.id for found in graph_retained(trace)] == ["graph-retained"]


def test_means_are_seen_through_sums() -> None:
    w = torch.ones(4, requires_grad=True)
    assert is_mean(w.mean().grad_fn)
    assert is_mean((w.mean() + 0.1 * w.sum()).grad_fn)
    assert is_mean(nn.functional.mse_loss(w, 2 * w).grad_fn)
    assert not is_mean((w.mean() / 4).grad_fn)
    assert not is_mean(w.sum().grad_fn)


def steps(model: nn.Module, count: int, *, backwards: int) -> Watcher:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    visit = Watcher()
    with visit:
        for _ in range(count):
            for _ in range(backwards):
                loss: Tensor = model(torch.ones(2, 3)).mean() / backwards
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not visit.hub.failures
    return visit


def test_cycles_are_counted_by_what_a_step_holds() -> None:
    torch.manual_seed(0)
    part = steps(nn.Linear(3, 2), 6, backwards=3).trace.part(CyclePart)
    (cycles,) = part.optimizers.values()
    assert cycles.sizes == {3: 6}
    assert cycles.undivided == 0
    assert cycles.by_hand == 0
    (place,) = part.backwards.values()
    assert (place.count, place.used, place.thrown, place.barren) == (18, 18, 0, 0)


@pytest.mark.parametrize("mistake", [False, True], ids=["cleared", "not cleared"])
def test_gradients_that_a_second_model_clears_in_place_are_looked_at(mistake: bool) -> None:
    """Its steps come at the same place among the backwards each time, which looks at every eighth would miss."""
    x = torch.randn(8, 4)
    with Watcher() as watcher:
        for _ in range(2):
            model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for i in range(96):
                (model(x).square().mean() / 4).backward()
                if i % 4 == 3:
                    optimizer.step()
                    for parameter in model.parameters():
                        if parameter.grad is not None and not (mistake and watcher.trace.steps > 24):
                            parameter.grad.zero_()
    assert ("missing-zero-grad" in {finding.id for finding in watcher.findings}) == mistake


def test_updates_by_hand_are_seen_where_the_first_rows_stay() -> None:
    """The row of an embedding that pads never moves."""
    model = nn.Sequential(nn.Embedding(16, 12, padding_idx=0), nn.Linear(12, 2))
    with Watcher() as watcher:
        for _ in range(12):
            model(torch.randint(1, 16, (8, 3))).square().mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    parameter.sub_(0.1 * parameter.grad)
                    parameter.grad = None
    assert any("weights were updated by hand" in remark for remark in watcher.remarks)
