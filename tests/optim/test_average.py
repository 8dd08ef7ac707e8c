"""Average: the moving average of weights and batch norm statistics, its state, and what it leaves alone."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from instep.errors import DescriptionError
from instep.loop.evaluate import evaluating
from instep.optim.average import Average
from instep.optim.freeze import freeze
from tiny import TASKS


class Masked(nn.Module):
    """BatchNorm, dropout, and buffers that must not be averaged."""

    mask: Tensor
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.second = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3))
        self.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        scores: Tensor = self.second(self.first(x))
        return scores


def net() -> Masked:
    torch.manual_seed(0)
    return Masked()


def train(model: nn.Module, average: Average | None, steps: int, optimizer: SGD | None = None) -> Iterator[int]:
    optimizer = optimizer or SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        model.train()
        optimizer.zero_grad()
        model(torch.randn(16, 4) * 3 + 1).square().mean().backward()
        optimizer.step()
        if average is not None:
            average.update()
        yield step


def test_the_average_by_hand() -> None:
    model = nn.Linear(1, 1, bias=False)
    average = Average(model, decay=0.75)
    for weight in (8.0, 4.0, 0.0):
        model.weight.data.fill_(weight)
        average.update()
    # 8; 0.75·8 + 0.25·4 = 7; 0.75·7 + 0.25·0
    assert average.module.get_parameter("weight").item() == 5.25
    assert average.count == 3
    assert model.weight.item() == 0.0


@settings(max_examples=20, deadline=None)
@given(task=st.sampled_from(TASKS), decay=st.sampled_from([0.5, 0.9, 0.999]), steps=st.integers(1, 4))
def test_the_weights_are_bitwise_torchs_average(task: Any, decay: float, steps: int) -> None:
    model = task.build(0)
    ours, theirs = Average(model, decay), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
    for _ in range(steps):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        ours.update()
        theirs.update_parameters(model)
    for p, q in zip(ours.module.parameters(), theirs.module.parameters(), strict=True):
        assert torch.equal(p, q)


def test_statistics_are_averaged_and_other_buffers_copied() -> None:
    model = net()
    average = Average(model, decay=0.75)
    name = "first.1.running_mean"
    expected = model.get_buffer(name).clone()
    for step in train(model, average, 5):
        statistic = model.get_buffer(name)
        expected = statistic.clone() if step == 0 else torch.lerp(expected, statistic, 0.25)
        torch.testing.assert_close(average.module.get_buffer(name), expected, rtol=0, atol=0)
    assert int(average.module.get_buffer("first.1.num_batches_tracked")) == 5
    assert int(average.module.get_buffer("seen")) == 80
    assert torch.equal(average.module.get_buffer("mask"), model.mask)


def test_torchs_own_average_of_buffers_would_break_a_mask() -> None:
    """Why `use_buffers=True` is not used: -inf becomes nan, and counters are rounded down."""
    model = net()
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.75), use_buffers=True)
    for _ in train(model, None, 3):
        theirs.update_parameters(model)
    assert theirs.module.get_buffer("mask").isnan().any()
    assert int(theirs.module.get_buffer("first.1.num_batches_tracked")) < 3


def test_the_copy_is_for_looking_at() -> None:
    model = net()
    average = Average(model)
    assert not any(module.training for module in average.module.modules())
    assert not any(p.requires_grad for p in average.module.parameters())
    assert all(p.requires_grad for p in model.parameters())
    assert not {p.data_ptr() for p in model.parameters()} & {p.data_ptr() for p in average.module.parameters()}


def test_training_does_not_notice() -> None:
    def trained(averaged: bool) -> list[Tensor]:
        model = net()
        list(train(model, Average(model) if averaged else None, 4))
        return list(model.state_dict().values())

    assert all(torch.equal(a, b) for a, b in zip(trained(True), trained(False), strict=True))


def test_a_run_goes_on_from_a_state_bitwise() -> None:
    model = net()
    average, optimizer = Average(model, 0.9), SGD(model.parameters(), lr=0.1)
    list(train(model, average, 3, optimizer))
    resumed = net()
    other = Average(resumed, 0.9)
    resumed.load_state_dict(model.state_dict())
    state = {name: value.clone() for name, value in average.state_dict().items()}
    assert all(isinstance(value, Tensor) for value in state.values())
    other.load_state_dict(state)
    assert other.count == 3
    for net_, average_ in ((model, average), (resumed, other)):
        torch.manual_seed(5)
        list(train(net_, average_, 2))
    mine, theirs = average.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_frozen_parts_are_their_own_average() -> None:
    model = net()
    freeze(model, "first")
    average = Average(model, 0.9)
    list(train(model, average, 4))
    for name, value in model.first.state_dict().items():
        assert torch.equal(average.module.get_submodule("first").state_dict()[name], value)


def test_statistics_can_be_recomputed_from_data() -> None:
    model = net()
    average = Average(model, 0.5)
    list(train(model, average, 4))
    batches = [torch.randn(32, 4) * 3 + 1 for _ in range(4)]
    before = {name: value.clone() for name, value in average.state_dict().items()}
    torch.manual_seed(3)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    with average.recomputed(batches, lambda module, batch: module(batch)) as module:
        hidden = torch.cat([module.first[0](batch) for batch in batches])  # type: ignore[operator,index]
        torch.testing.assert_close(module.get_buffer("first.1.running_mean"), hidden.mean(0))
        assert not any(each.training for each in module.modules())
        assert {each.momentum for each in module.modules() if isinstance(each, nn.BatchNorm1d)} == {0.1}
    assert torch.equal(torch.rand(1), drawn)  # dropout was off
    after = average.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_recomputing_leaves_frozen_statistics_alone() -> None:
    """torch's update_bn resets them, and a frozen norm never fills them again."""
    model = net()
    list(train(model, None, 3))
    freeze(model, "first")
    model.second[1].eval()
    average = Average(model, 0.5)
    average.update()
    kept = {name: value.clone() for name, value in average.module.named_buffers() if "running" in name}
    for evaluated in (False, True):
        with average.recomputed([torch.randn(8, 4)], lambda module, batch: module(batch)) as module:
            first = module.get_buffer("first.1.running_mean")
            assert torch.equal(first, kept["first.1.running_mean"])
            assert torch.equal(module.get_buffer("second.1.running_mean"), kept["second.1.running_mean"]) is not evaluated
        model.eval()  # now the second norm is in eval mode only because the model is
    update_bn([torch.randn(8, 4)], average.module)
    assert torch.equal(average.module.get_buffer("first.1.running_mean"), torch.zeros(8))


def test_recomputed_statistics_are_put_back_after_an_error() -> None:
    average = Average(net(), 0.5)
    before = {name: value.clone() for name, value in average.state_dict().items()}

    def fail(module: nn.Module, batch: Tensor) -> None:
        module(batch)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"), average.recomputed([torch.randn(8, 4)], fail):
        pass
    assert all(torch.equal(average.state_dict()[name], value) for name, value in before.items())
    assert not any(module.training for module in average.module.modules())
    with evaluating(average.module):
        average.module(torch.randn(2, 4))


def test_a_window_longer_than_the_run_is_noted() -> None:
    assert Average(nn.Linear(1, 1), 0.9).notes(1000) == []
    assert Average(nn.Linear(1, 1), 0.999).notes(160) == [
        "ema=0.999 goes back about 1,000 updates, and the run has 160: at its end the first weights still "
        "count 85%. ema=0.97 would fit."
    ]
    assert len(Average(nn.Linear(1, 1), 0.999).notes(0)) == 1


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5, 2, True, "0.9"])
def test_a_decay_that_makes_no_sense(decay: Any) -> None:
    with pytest.raises(DescriptionError, match=re.escape(f"decay={decay!r} is no share of the average to keep; use a number")):
        Average(nn.Linear(1, 1), decay)


def test_models_that_cannot_be_averaged() -> None:
    with pytest.raises(DescriptionError, match=r"weight is bfloat16, too coarse for an average that moves by a thousandth"):
        Average(nn.Linear(1, 1).bfloat16())
    model = nn.Linear(1, 1)
    model.last = model.weight * 2
    with pytest.raises(DescriptionError, match=r"Linear cannot be copied to keep an average of it: .*deepcopy"):
        Average(model)
    with pytest.raises(DescriptionError, match=r"(?s)the state of the average does not fit this model: .*size mismatch"):
        Average(nn.Linear(1, 1)).load_state_dict(Average(nn.Linear(2, 1)).state_dict())


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 225, 1000, 54321])
@pytest.mark.parametrize("decay", [0.5, 0.9, 0.98, 0.999, 0.99999])
def test_the_decay_that_would_fit_does(decay: float, steps: int) -> None:
    for note in Average(nn.Linear(1, 1), decay).notes(steps):
        fitting = float(note.rpartition("ema=")[2].removesuffix(" would fit."))
        assert fitting < decay
        assert steps == 1 or Average(nn.Linear(1, 1), fitting).notes(steps) == []
