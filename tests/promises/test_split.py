"""Promise 1, split: any update_cycle or micro_batch_size gives the same training as the whole batch."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from instep import Loss, UpdateCycle
from instep.data import pieces
from instep.loop.objective import Objective, from_loss
from tiny import CLASSES, IGNORED, TASKS, Task

DTYPES = {torch.float64: 1e-12, torch.float32: 1e-5}


@dataclass(frozen=True)
class Split:
    """One drawn case: a data set, its batches, how each is cut, and the loss."""

    task: Task
    n: int
    batch: int
    update_cycle: int | None
    micro_batch_size: int | None
    ignored: float  # share of targets that are ignored
    weighted: bool
    smoothing: float
    clip_norm: float | None
    dtype: torch.dtype
    seed: int

    def pieces_of(self, samples: int) -> int:
        if self.micro_batch_size is not None:
            return -(-samples // self.micro_batch_size)
        return self.update_cycle or 1

    def data(self) -> tuple[Tensor, Tensor]:
        """A run of ignored targets at the front, so that whole micro-batches have none left."""
        x, y = self.task.draw(self.n, self.seed, self.dtype)
        y[: int(self.ignored * self.n)] = IGNORED
        return x, y

    def loss(self) -> functools.partial[Tensor]:
        weight = torch.linspace(0.2, 2.0, CLASSES, dtype=self.dtype) if self.weighted else None
        return functools.partial(F.cross_entropy, weight=weight, label_smoothing=self.smoothing)

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        x, y = self.data()
        return list(zip(x.split(self.batch), y.split(self.batch), strict=True))


@st.composite
def splits(draw: st.DrawFn, tasks: list[Task] = TASKS) -> Split:
    by_cycle = draw(st.booleans())
    return Split(
        task=draw(st.sampled_from(tasks)),
        n=draw(st.integers(1, 70)),
        batch=draw(st.integers(1, 40)),
        update_cycle=draw(st.integers(1, 12)) if by_cycle else None,
        micro_batch_size=None if by_cycle else draw(st.integers(1, 40)),
        ignored=draw(st.sampled_from([0.0, 0.0, 0.2, 0.7])),
        weighted=draw(st.booleans()),
        smoothing=draw(st.sampled_from([0.0, 0.1])),
        clip_norm=draw(st.sampled_from([None, 0.5])),
        dtype=draw(st.sampled_from(list(DTYPES))),
        seed=draw(st.integers(0, 1000)),
    )


def plain_gradients(model: nn.Module, loss: Objective, batch: tuple[Tensor, Tensor], clip_norm: float | None) -> None:
    """The textbook: clear, forward, loss, backward, clip."""
    model.zero_grad()
    value = loss(model(batch[0]), batch[1])
    assert isinstance(value, Tensor)
    value.backward()
    if clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)


def assert_same_gradients(model: nn.Module, other: nn.Module, tolerance: float) -> None:
    """Per tensor, relative to the largest gradient of the model."""
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    largest = max(g.abs().max().item() for g in gradients.values())
    for name, p in other.named_parameters():
        if name in gradients:
            assert p.grad is not None
            difference = (p.grad - gradients[name]).abs().max().item()
            assert difference <= tolerance * largest, f"{name}: {difference / largest:.1e} of the largest gradient"


def all_ignored(batch: tuple[Tensor, Tensor]) -> bool:
    return bool((batch[1] == IGNORED).all())


def check_gradients(case: Split) -> None:
    """Each update's gradient from its own weights: SGD with lr 0 keeps the two models together."""
    whole, split = case.task.build(case.seed, case.dtype), case.task.build(case.seed, case.dtype)
    cycle = UpdateCycle(torch.optim.SGD(split.parameters(), lr=0.0), model=split, clip_norm=case.clip_norm)
    for batch in case.batches():
        done = cycle.run(pieces(batch, case.pieces_of(len(batch[0]))), from_loss(case.loss()))
        if all_ignored(batch):
            assert not done.stepped
            continue
        assert done.stepped
        plain_gradients(whole, case.loss(), batch, case.clip_norm)
        assert_same_gradients(whole, split, DTYPES[case.dtype])
        expected = case.loss()(whole(batch[0]), batch[1])
        torch.testing.assert_close(done.loss, expected, rtol=DTYPES[case.dtype] * 10, atol=0, check_dtype=False)


def check_weights(case: Split, make: Callable[..., torch.optim.Optimizer], tolerance: float) -> None:
    """Three epochs of real updates end at the same weights."""
    case = replace(case, dtype=torch.float64)
    whole, split = case.task.build(case.seed), case.task.build(case.seed)
    plain, cycle = (
        make(whole.parameters()),
        UpdateCycle(make(split.parameters()), model=split, clip_norm=case.clip_norm),
    )
    objective = from_loss(case.loss())
    for _ in range(3):
        for batch in case.batches():
            done = cycle.run(pieces(batch, case.pieces_of(len(batch[0]))), objective)
            if done.stepped:
                plain_gradients(whole, case.loss(), batch, case.clip_norm)
                plain.step()
    for (name, a), b in zip(whole.named_parameters(), split.parameters(), strict=True):
        assert (a - b).abs().max().item() <= tolerance, name


@settings(max_examples=40, deadline=None)
@given(case=splits())
def test_any_split_gives_the_gradient_of_the_whole_batch(case: Split) -> None:
    check_gradients(case)


@settings(max_examples=25, deadline=None)
@given(case=splits())
def test_any_split_ends_at_the_weights_of_the_whole_batch_with_sgd(case: Split) -> None:
    check_weights(case, functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9), 1e-11)


@settings(max_examples=15, deadline=None)
@given(case=splits([TASKS[0]]))
def test_any_split_ends_at_the_weights_of_the_whole_batch_with_adamw(case: Split) -> None:
    check_weights(case, functools.partial(torch.optim.AdamW, lr=0.01), 1e-9)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(case=splits())
def test_a_thousand_splits_give_the_gradient_of_the_whole_batch(case: Split) -> None:
    check_gradients(case)


def test_a_loss_of_ones_own_is_exact_with_its_count() -> None:
    """A token mean written by hand, where one micro-batch has no token at all: its value is 0/0."""
    task = TASKS[3]
    model, twin = task.build(0), task.build(0)
    x, y = task.draw(9, seed=1)
    y[3:6] = IGNORED

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
        tokens = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
        counted = (batch[1] != IGNORED).sum()
        return Loss(tokens.sum() / counted, counted)

    UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1), model=model).run([(x, y)], objective)
    done = UpdateCycle(torch.optim.SGD(twin.parameters(), lr=0.1), model=twin).run(pieces((x, y), 3), objective)
    assert done.count == (y != IGNORED).sum().item()
    assert_same_gradients(model, twin, 1e-12)


def test_a_sum_is_added_up_undivided() -> None:
    model, twin = TASKS[0].build(0), TASKS[0].build(0)
    x, y = TASKS[0].draw(10, seed=1)
    objective = from_loss(nn.CrossEntropyLoss(reduction="sum"))
    UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1), model=model).run([(x, y)], objective)
    UpdateCycle(torch.optim.SGD(twin.parameters(), lr=0.1), model=twin).run(pieces((x, y), 4), objective)
    assert_same_gradients(model, twin, 1e-12)
