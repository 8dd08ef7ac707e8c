"""UpdateCycle by itself: order, by hand, errors, closures, non-finite losses."""

import math
from collections.abc import Iterator
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from instep import Loss, UpdateCycle
from instep.data import pieces
from instep.errors import DescriptionError, NonFiniteGradient, NonFiniteLoss, ObjectiveError, UpdateError
from instep.loop.objective import from_loss
from tiny import CLASSES, FEATURES, TASKS


class Scale(nn.Module):
    """One weight w, and the output w·x: its gradients can be computed by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.w * x


@pytest.fixture
def scale() -> Scale:
    return Scale()


@pytest.fixture
def cycle(scale: Scale) -> UpdateCycle:
    return UpdateCycle(torch.optim.SGD(scale.parameters(), lr=1.0))


def gradient(model: Scale) -> float:
    assert model.w.grad is not None
    return model.w.grad.item()


def test_micro_batches_weigh_what_they_count(scale: Scale, cycle: UpdateCycle) -> None:
    for x in (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0])):
        cycle.backward(scale(x).mean(), count=len(x))
    done = cycle.step()
    assert gradient(scale) == 4.0  # (1 + 2 + 3 + 10) / 4, not (2 + 10) / 2
    assert done.loss.item() == 4.0
    assert done.count == 4
    assert done.grad_norm is None
    assert done.stepped
    assert scale.w.item() == -3.0  # 1 - 4


def test_gradients_are_cleared_between_cycles_and_can_be_read_after_the_step(scale: Scale, cycle: UpdateCycle) -> None:
    for _ in range(3):
        cycle.backward(scale(torch.tensor(2.0)), count=1)
        cycle.step()
        assert gradient(scale) == 2.0


def test_an_empty_first_micro_batch_takes_nothing_from_the_rest(scale: Scale, cycle: UpdateCycle) -> None:
    nothing = scale(torch.tensor([1.0])).sum() / 0 * 0  # nan, as torch's mean over ignored targets is
    cycle.backward(nothing, count=0)
    cycle.backward(scale(torch.tensor(3.0)), count=2)
    cycle.backward(scale(torch.tensor(9.0)), count=torch.tensor(1))
    assert cycle.step().loss.item() == pytest.approx(5.0)
    assert gradient(scale) == pytest.approx(5.0)


def test_nothing_counted_is_no_step(scale: Scale, cycle: UpdateCycle) -> None:
    cycle.backward(scale(torch.tensor(math.nan)), count=0)
    done = cycle.step()
    assert not done.stepped
    assert scale.w.item() == 1.0
    assert scale.w.grad is None


def test_clipping_comes_after_normalising(scale: Scale) -> None:
    cycle = UpdateCycle(torch.optim.SGD(scale.parameters(), lr=1.0), clip_norm=5.0, clip_value=3.0)
    for x in (4.0, 8.0):
        cycle.backward(scale(torch.tensor(x)), count=1)
    done = cycle.step()
    assert done.grad_norm is not None
    assert done.grad_norm.item() == 6.0  # of the mean gradient, not of the sum 12
    assert gradient(scale) == 3.0


def test_an_infinite_clip_norm_only_measures(scale: Scale) -> None:
    cycle = UpdateCycle(torch.optim.SGD(scale.parameters(), lr=1.0), clip_norm=math.inf)
    done = cycle.run([torch.tensor([7.0])], lambda x: scale(x).mean())
    assert done.grad_norm is not None
    assert done.grad_norm.item() == 7.0
    assert gradient(scale) == 7.0


def test_run_takes_micro_batches_one_by_one(scale: Scale, cycle: UpdateCycle) -> None:
    log: list[str] = []

    def stream() -> Iterator[Tensor]:
        for x in (1.0, 2.0):
            log.append(f"made {x}")
            yield torch.tensor([x])

    def objective(x: Tensor) -> Tensor:
        log.append(f"used {x.item()}")
        return torch.mean(scale(x))

    cycle.run(stream(), objective)
    assert log == ["made 1.0", "used 1.0", "made 2.0", "used 2.0"]


def test_a_closure_optimizer_sees_the_whole_batch_and_buffers_count_once() -> None:
    """LBFGS over 4 pieces is LBFGS over the batch; BatchNorm's statistics are those of one forward."""
    x, y = TASKS[0].draw(24, seed=0)
    objective = from_loss(F.cross_entropy)

    def train(model: nn.Module, count: int) -> nn.Module:
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6)
        cycle = UpdateCycle(optimizer, model=model)
        losses = [cycle.run(pieces((x, y), count), objective).loss.item() for _ in range(3)]
        assert losses[2] < losses[1] < losses[0]
        return model

    whole, split = (train(TASKS[0].build(1), count) for count in (1, 4))
    for a, b in zip(whole.parameters(), split.parameters(), strict=True):
        assert (a - b).abs().max() < 1e-9

    def with_norm() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES)).double()

    once, model = with_norm(), with_norm()
    once(x)
    UpdateCycle(torch.optim.LBFGS(model.parameters(), max_iter=6), model=model).run([(x, y)], objective)
    assert model.get_buffer("1.num_batches_tracked").item() == 1
    assert torch.equal(once.get_buffer("1.running_mean"), model.get_buffer("1.running_mean"))


def test_sparse_gradients_are_normalised() -> None:
    def gradient_of(count: int) -> Tensor:
        torch.manual_seed(0)
        table = nn.Embedding(10, 3, sparse=True)
        cycle = UpdateCycle(torch.optim.SGD(table.parameters(), lr=0.1))
        cycle.run(pieces(torch.arange(9) % 4, count), lambda x: table(x).square().mean(dim=1).mean())
        assert table.weight.grad is not None
        return torch.zeros(10, 3) + table.weight.grad

    torch.testing.assert_close(gradient_of(1), gradient_of(4))


def test_a_half_precision_loss_is_weighed_in_single_precision() -> None:
    model = nn.Linear(3, 1).to(torch.bfloat16)
    cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.randn(7, 3, dtype=torch.bfloat16)
    done = cycle.run(pieces(x, 3), lambda x: model(x).square().mean())
    assert done.loss.dtype == torch.float32
    assert done.stepped


def test_a_non_finite_loss_stops_before_the_step(scale: Scale, cycle: UpdateCycle) -> None:
    cycle.backward(scale(torch.tensor(1.0)), count=1)
    with pytest.raises(NonFiniteLoss, match="the loss of micro-batch 2 is inf; no step was made"):
        cycle.backward(scale(torch.tensor(math.inf)), count=1)
    assert scale.w.item() == 1.0
    with pytest.raises(UpdateError, match="no micro-batch went backward"):
        cycle.step()  # what was added up before went with it
    cycle.backward(scale(torch.tensor(1.0)), count=1)
    assert cycle.step().stepped


def test_a_non_finite_loss_can_be_skipped(scale: Scale) -> None:
    cycle = UpdateCycle(torch.optim.SGD(scale.parameters(), lr=1.0), on_nonfinite="skip")
    done = cycle.run([torch.tensor([1.0]), torch.tensor([math.nan])], lambda x: scale(x).mean())
    assert not done.stepped
    assert scale.w.item() == 1.0
    assert scale.w.grad is None
    assert cycle.run([torch.tensor([1.0])], lambda x: scale(x).mean()).stepped


def test_weights_that_are_spoilt_are_not_skipped_over(scale: Scale) -> None:
    cycle = UpdateCycle(torch.optim.SGD(scale.parameters(), lr=1.0), on_nonfinite="skip")
    with torch.no_grad():
        scale.w.fill_(math.nan)
    with pytest.raises(NonFiniteLoss, match=r"the weights themselves are not finite(.|\n)*clip_norm=math\.inf"):
        cycle.run([torch.tensor([1.0])], lambda x: scale(x).mean())


def test_a_skipped_update_leaves_no_trace_in_batch_norm() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1), model=model, on_nonfinite="skip")
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    done = cycle.run([torch.full((4, 2), math.nan)], lambda model, x: model(x).mean())
    assert not done.stepped
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert cycle.run([torch.randn(4, 2)], lambda model, x: model(x).mean()).stepped
    assert model.get_buffer("1.num_batches_tracked").item() == 1


def test_a_backward_that_fails_ends_the_cycle(scale: Scale, cycle: UpdateCycle) -> None:
    cycle.backward(scale(torch.tensor(1.0)), count=1)
    loss = scale(torch.tensor(2.0))
    loss.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError, match="division"):
        cycle.backward(loss, count=1)
    with pytest.raises(UpdateError, match="no micro-batch went backward"):
        cycle.step()


@pytest.mark.parametrize("on_nonfinite", ["stop", "skip"])
def test_a_closure_optimizer_that_runs_into_nan_goes_back(on_nonfinite: Literal["stop", "skip"]) -> None:
    """The second evaluation of the loss fails, when the first has moved the weight already."""
    model = Scale()
    calls: list[float] = []

    def objective(x: Tensor) -> Tensor:
        calls.append(model.w.item())
        loss = torch.mean(model(x) ** 2)
        return loss * math.nan if len(calls) > 1 else loss

    cycle = UpdateCycle(torch.optim.LBFGS(model.parameters(), lr=0.1), on_nonfinite=on_nonfinite)
    if on_nonfinite == "stop":
        with pytest.raises(NonFiniteLoss, match="no step was made"):
            cycle.run([torch.ones(2)], objective)
    else:
        assert not cycle.run([torch.ones(2)], objective).stepped
    assert calls[1] != 1.0
    assert model.w.item() == 1.0


def test_non_finite_gradients_are_named_where_the_norm_is_measured() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))

    def objective(model: nn.Module, x: Tensor) -> Tensor:
        return torch.sum((model(x) * 0).abs().sqrt())  # 0, and its slope is infinite

    stopping = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1), model=model, clip_norm=1.0)
    with pytest.raises(NonFiniteGradient, match=r"the loss is finite, its gradients are not: 0\.weight \(.* nan of 4\)"):
        stopping.run([torch.ones(3, 2)], objective)
    skipping = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1), model=model, clip_norm=math.inf, on_nonfinite="skip")
    assert not skipping.run([torch.ones(3, 2)], objective).stepped


def test_penalties_are_added_once_after_normalising(scale: Scale) -> None:
    def gradient_of(count: int) -> tuple[Tensor, float]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.0), model=model, l1=0.1, l2=0.2)
        done = cycle.run(pieces(torch.randn(7, 3), count), lambda model, x: model(x).mean())
        assert done.penalty is not None
        assert model.weight.grad is not None
        expected = 0.1 * model.weight.abs().sum() + 0.2 * model.weight.square().sum()
        torch.testing.assert_close(done.penalty, expected.detach())
        return model.weight.grad, done.loss.item()

    (whole, loss), (split, split_loss) = gradient_of(1), gradient_of(3)
    torch.testing.assert_close(whole, split)
    assert loss == pytest.approx(split_loss)  # the penalty is not in the loss


def test_a_scaler_leaves_out_the_update_that_overflows() -> None:
    model = nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=100)
    cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1), model=model, clip_norm=1.0, scaler=scaler)
    before = model.weight.detach().clone()
    done = cycle.run(pieces(torch.full((4, 2), 1e3), 2), lambda model, x: model(x).square().mean() * 1e6)
    assert not done.stepped
    assert torch.equal(model.weight, before)
    assert scaler.get_scale() == 2.0**119
    while not cycle.run(pieces(torch.full((4, 2), 1e-2), 2), lambda model, x: model(x).square().mean()).stepped:
        assert torch.equal(model.weight, before)
    assert not torch.equal(model.weight, before)
    with pytest.raises(DescriptionError, match="LBFGS cannot be used with a GradScaler"):
        UpdateCycle(torch.optim.LBFGS(model.parameters()), scaler=scaler)


def test_step_without_backward(cycle: UpdateCycle) -> None:
    with pytest.raises(UpdateError, match="no micro-batch went backward in this cycle"):
        cycle.step()
    with pytest.raises(UpdateError, match="no micro-batch went backward in this cycle"):
        cycle.run([], lambda batch: batch)


def test_a_loss_that_is_no_number(scale: Scale, cycle: UpdateCycle) -> None:
    with pytest.raises(ObjectiveError, match=r"the loss has shape \(2,\), but must be one number; use its mean"):
        cycle.backward(scale(torch.ones(2)), count=2)
    with pytest.raises(ObjectiveError, match=r"the loss is a float, not a tensor; leave \.item\(\) out"):
        cycle.backward(0.5, count=2)  # type: ignore[arg-type]
    with pytest.raises(ObjectiveError, match=r"the objective returned dict; return a Loss\(value, count\)"):
        cycle.run([torch.ones(2)], lambda x: {"value": x})  # type: ignore[arg-type, return-value]


def test_a_loss_of_one_element_is_a_number(scale: Scale, cycle: UpdateCycle) -> None:
    cycle.backward(scale(torch.ones(1)), count=1)
    assert cycle.step().loss.shape == ()


def test_a_loss_without_a_graph(scale: Scale, cycle: UpdateCycle) -> None:
    with torch.no_grad():
        loss = scale(torch.tensor(1.0))
    with pytest.raises(ObjectiveError, match=r"the loss has no graph to go back through: was it computed under no_grad\(\)"):
        cycle.backward(loss, count=1)


def test_mixed_kinds_of_loss(scale: Scale, cycle: UpdateCycle) -> None:
    cycle.backward(scale(torch.tensor(1.0)), count=1)
    with pytest.raises(ObjectiveError, match="micro-batch 2 returned a sum, the one before it a mean"):
        cycle.backward(Loss.sum(scale(torch.tensor(1.0))))


def test_counts_that_are_none(scale: Scale, cycle: UpdateCycle) -> None:
    loss = scale(torch.tensor(1.0))
    with pytest.raises(ObjectiveError, match="needs count=, the number of samples"):
        cycle.backward(loss)
    with pytest.raises(ObjectiveError, match="has two counts"):
        cycle.backward(Loss(loss, 1), count=1)
    with pytest.raises(ObjectiveError, match="count=-1 is not a number of units"):
        cycle.backward(loss, count=-1)
    with pytest.raises(ObjectiveError, match=r"count has shape \(2,\), but must be one number"):
        cycle.backward(loss, count=torch.ones(2))


def test_a_closure_optimizer_by_hand(scale: Scale) -> None:
    cycle = UpdateCycle(torch.optim.LBFGS(scale.parameters()))
    with pytest.raises(UpdateError, match=r"LBFGS evaluates the loss several times a step.*use cycle\.run"):
        cycle.backward(scale(torch.tensor(1.0)), count=1)


def test_run_while_a_cycle_is_open_by_hand(scale: Scale, cycle: UpdateCycle) -> None:
    cycle.backward(scale(torch.tensor(1.0)), count=1)
    with pytest.raises(UpdateError, match=r"1 micro-batches are added up by hand; call step\(\) or discard\(\)"):
        cycle.run([torch.ones(1)], lambda x: scale(x).mean())
    cycle.discard()
    assert cycle.run([torch.ones(1)], lambda x: scale(x).mean()).stepped


def test_arguments_that_make_no_sense(scale: Scale) -> None:
    optimizer = torch.optim.SGD(scale.parameters(), lr=1.0)
    with pytest.raises(DescriptionError, match=r"optimizer is a list; pass a torch\.optim\.Optimizer"):
        UpdateCycle([])  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match="clip_norm=0 leaves no gradient"):
        UpdateCycle(optimizer, clip_norm=0)
    with pytest.raises(DescriptionError, match="clip_value=-1 leaves no gradient"):
        UpdateCycle(optimizer, clip_value=-1)
    with pytest.raises(DescriptionError, match="on_nonfinite='ignore' is not known"):
        UpdateCycle(optimizer, on_nonfinite="ignore")  # type: ignore[arg-type]
