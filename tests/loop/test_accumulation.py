"""Sums as on an accelerator: counts and losses that the host must not read. Here on CPU tensors declared unreadable."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from instep import Loss, UpdateCycle
from instep.data import pieces
from instep.errors import NonFiniteLoss
from instep.loop import accumulation as sums


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "readable", lambda tensor: False)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("empty", [0, 1, 3])
def test_counts_on_the_device_weigh_exactly(empty: int) -> None:
    """A micro-batch without a unit is the first, one in the middle, the last; torch's own losses give zero gradients there."""
    batches = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0]), torch.tensor([5.0, 7.0])]
    targets = [torch.zeros(len(b), dtype=torch.long) for b in batches]
    batches.insert(empty, torch.tensor([9.0, 9.0]))
    targets.insert(empty, torch.full((2,), -100))
    w = nn.Parameter(torch.tensor([1.0, 0.5], dtype=torch.float64))

    def objective(piece: tuple[Tensor, Tensor]) -> Loss:
        x, y = piece
        value = nn.functional.cross_entropy(x.double()[:, None] * w, y)
        return Loss(value, (y != -100).sum())

    done = UpdateCycle(torch.optim.SGD([w], lr=0.0)).run(zip(batches, targets, strict=True), objective)
    got = w.grad
    w.grad = None
    whole = nn.functional.cross_entropy(torch.cat(batches).double()[:, None] * w, torch.cat(targets))
    whole.backward()
    assert isinstance(done.count, Tensor)
    assert done.count.item() == 6
    torch.testing.assert_close(done.loss, whole.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(got, w.grad, rtol=1e-12, atol=0)


@pytest.mark.usefixtures("unread")
def test_a_batch_without_a_unit_has_zero_gradients_not_nan() -> None:
    w = nn.Parameter(torch.tensor([1.0, 0.5]))

    def objective(y: Tensor) -> Loss:
        return Loss(nn.functional.cross_entropy(torch.ones(len(y), 1) * w, y), (y != -100).sum())

    UpdateCycle(torch.optim.SGD([w], lr=0.1)).run(pieces(torch.full((4,), -100), 2), objective)
    assert w.tolist() == [1.0, 0.5]


@pytest.mark.usefixtures("unread")
def test_a_non_finite_loss_is_noticed_one_update_late() -> None:
    w = nn.Parameter(torch.tensor(1.0))
    cycle = UpdateCycle(torch.optim.SGD([w], lr=0.1))
    cycle.backward(w * math.inf, count=1)
    assert cycle.step().stepped  # nobody has looked
    cycle.backward(w * 1.0, count=1)
    with pytest.raises(
        NonFiniteLoss, match="the loss or a gradient of the update before this one is not finite, and its step was made"
    ):
        cycle.step()


@pytest.mark.usefixtures("unread")
def test_skipping_looks_before_the_step() -> None:
    w = nn.Parameter(torch.tensor(1.0))
    cycle = UpdateCycle(torch.optim.SGD([w], lr=0.1), on_nonfinite="skip")
    cycle.backward(w * math.inf, count=1)
    assert not cycle.step().stepped
    assert w.item() == 1.0
    cycle.backward(w * 1.0, count=1)
    assert cycle.step().stepped


@given(counts=st.lists(st.integers(0, 5), min_size=2, max_size=6), expected=st.sampled_from([None, "right", "wrong"]))
def test_what_is_expected_changes_nothing_but_the_way(counts: list[int], expected: str | None) -> None:
    """Right, wrong or unknown: the gradient is that of the mean over all units."""
    total = sum(counts)
    added = sums.Sums("stop", {None: None, "right": float(total), "wrong": total + 3.0}[expected])
    w = torch.ones((), dtype=torch.float64, requires_grad=True)
    for index, count in enumerate(counts, 1):
        value = added.add(Loss(w * index, count))
        if value is not None:
            value.backward()
    if total:
        assert w.grad is not None
        truth = sum(index * count for index, count in enumerate(counts, 1)) / total
        assert w.grad.item() * added.normaliser() == pytest.approx(truth, rel=1e-12)
        is_one = expected is None and sum(count > 0 for count in counts) == 1
        assert (added.normaliser() == 1.0) == (expected == "right" or is_one)
