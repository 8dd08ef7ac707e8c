"""Promise 3, spread: any number of processes gives the gradient, the loss and the count of one.

Here the law itself, for any sizes, with the processes one after the other; tests/distributed makes it with real ones.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep.data.share import Part
from instep.loop.objective import Loss
from instep.loop.shared_accumulation import SharedSums
from instep.loop.torch_losses import known
from tiny import TASKS, Task

CPU = torch.device("cpu")
COUNTED = known(cross_entropy)


def gradient_of_all(model: nn.Module, x: Tensor, y: Tensor, part: Part, divisor: int) -> tuple[list[Tensor], float, float]:
    """What every process of a world ends up with: its backward passes, the sum or mean over processes, the normaliser."""
    parameters = list(model.parameters())
    exchanged = [torch.zeros_like(p) for p in parameters]
    told, sums = [], []
    for rank in range(part.processes):
        own = SharedSums()
        own.begin(len(x) / divisor, divisor)
        model.zero_grad()
        for start, stop in part._replace(rank=rank).spans(len(x)):
            value = own.add(_loss(model, x[start:stop], y[start:stop]))
            if value is not None:
                value.backward()
        for total, p in zip(exchanged, parameters, strict=True):
            total += (torch.zeros_like(p) if p.grad is None else p.grad) / divisor
        told.append(own.numbers(CPU))
        sums.append(own)
    total_told = torch.stack(told).sum(0)
    for own in sums:
        own.take(total_told, part.processes)
    factor, count = sums[-1].normaliser(), sums[-1].total()
    assert isinstance(factor, float)
    return [g * factor for g in exchanged], float(sums[0].loss()), float(count)


def _loss(model: nn.Module, x: Tensor, y: Tensor) -> Loss:
    assert COUNTED is not None
    output = model(x)
    return Loss(cross_entropy(output, y), COUNTED.count((output, y)))


@pytest.mark.parametrize("is_mean", [False, True], ids=["sum", "mean"])
@pytest.mark.parametrize("task", TASKS, ids=repr)
@settings(max_examples=8, deadline=None)
@given(n=st.integers(1, 23), processes=st.integers(1, 7), cycle=st.integers(1, 3), seed=st.integers(0, 99))
def test_any_number_of_processes_gives_the_gradient_of_one(
    task: Task, is_mean: bool, n: int, processes: int, cycle: int, seed: int
) -> None:
    model, (x, y) = task.build(seed), task.draw(n, seed)
    gradients, loss, count = gradient_of_all(model, x, y, Part(0, processes, cycle), processes if is_mean else 1)
    model.zero_grad()
    whole = _loss(model, x, y)
    whole.value.backward()
    largest = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    for found, parameter in zip(gradients, model.parameters(), strict=True):
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert float((found - expected).abs().max()) <= 1e-12 * max(largest, 1.0)
    assert count == float(whole.count)
    assert loss == pytest.approx(whole.value.item(), rel=1e-12)
