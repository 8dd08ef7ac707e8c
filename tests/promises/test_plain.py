"""Promise 8, plain: with one micro-batch the weights equal those of the plain PyTorch loop, bit for bit."""

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from instep import Trainer, UpdateCycle, keys
from instep.loop.objective import from_loss
from tiny import CLASSES, FEATURES, IGNORED, TASKS, Task

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.01),
}


def assert_bitwise(model: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


@settings(max_examples=40, deadline=None)
@given(
    task=st.sampled_from(TASKS),
    n=st.integers(1, 70),
    batch=st.integers(1, 40),
    optimizer=st.sampled_from(list(OPTIMIZERS)),
    clip_norm=st.sampled_from([None, 0.5]),
    clip_value=st.sampled_from([None, 0.01]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 1000),
)
def test_one_micro_batch_is_the_plain_loop(
    task: Task,
    n: int,
    batch: int,
    optimizer: str,
    clip_norm: float | None,
    clip_value: float | None,
    dtype: torch.dtype,
    seed: int,
) -> None:
    plain, ours = task.build(seed, dtype), task.build(seed, dtype)
    x, y = task.draw(n, seed, dtype)
    plain_optimizer, our_optimizer = (OPTIMIZERS[optimizer](m.parameters()) for m in (plain, ours))
    cycle = UpdateCycle(our_optimizer, model=ours, clip_norm=clip_norm, clip_value=clip_value)
    objective = from_loss(F.cross_entropy)
    for xb, yb in zip(x.split(batch), y.split(batch), strict=True):
        if (yb == IGNORED).all():
            continue
        plain_optimizer.zero_grad()
        loss = F.cross_entropy(plain(xb), yb)
        loss.backward()
        norm = None if clip_norm is None else torch.nn.utils.clip_grad_norm_(plain.parameters(), clip_norm)
        if clip_value is not None:
            torch.nn.utils.clip_grad_value_(plain.parameters(), clip_value)
        plain_optimizer.step()

        done = cycle.run([(xb, yb)], objective)
        assert torch.equal(done.loss, loss.detach())
        assert (done.grad_norm is None) == (norm is None)
        if norm is not None and done.grad_norm is not None:
            assert torch.equal(done.grad_norm, norm)
    assert_bitwise(plain, ours)


@pytest.mark.parametrize("by_hand", [False, True])
def test_dropout_is_the_plain_loops_under_the_same_public_key(by_hand: bool) -> None:
    def model() -> nn.Module:
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(FEATURES, 16), nn.Dropout(0.5), nn.Linear(16, CLASSES))

    x, y = TASKS[0].draw(12, seed=0, dtype=torch.float32)
    plain, ours = model(), model()
    plain_optimizer = torch.optim.AdamW(plain.parameters())
    cycle = UpdateCycle(torch.optim.AdamW(ours.parameters()))

    for step in range(5):
        keys.seed_all(keys.for_step(7, step))
        plain_optimizer.zero_grad()
        F.cross_entropy(plain(x), y).backward()
        plain_optimizer.step()

    def objective(batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(ours(batch[0]), batch[1])

    for step in range(5):
        torch.rand(step)  # draws of one's own in between change nothing
        keys.seed_all(keys.for_step(7, step))
        if by_hand:
            cycle.backward(objective((x, y)), count=len(x))
            cycle.step()
        else:
            cycle.run([(x, y)], objective)
    assert_bitwise(plain, ours)


def test_python_numpy_and_torch_draw_by_the_key_of_each_step_of_a_long_run() -> None:
    """Keys are made for many steps at once; a range test between two updates draws by those of other steps."""

    def drawn(model: nn.Module, batch: Any) -> Tensor:
        draws.append((random.random(), float(np.random.random()), torch.rand(()).item()))
        loss: Tensor = model(batch[0]).mean()
        return loss

    def trainer() -> Trainer:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = (torch.zeros(3, 1), torch.zeros(3))
        return Trainer(model, objective=drawn, optimizer=optimizer, train=data, epochs=50, batch_size=1, seed=7, progress=False)

    expected = []
    for step in range(150):
        keys.seed_all(keys.for_step(7, step))
        expected.append((random.random(), float(np.random.random()), torch.rand(()).item()))
    draws: list[tuple[float, float, float]] = []
    run = trainer()
    for update in run.updates():
        if update.step == 80:
            run.find_lr(steps=20, repeats=1)  # draws at other steps
            del draws[81:]
    assert draws == expected
