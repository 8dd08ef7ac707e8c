"""Promise 6, tune: a range test or a batch-size search leaves no trace, also cut off; training after it is as without it."""

import contextlib
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from instep import OneCycle, Trainer, keys
from instep.tuning.batch_size import find_batch_size
from instep.tuning.range_test import find_lr
from tiny import CLASSES, FEATURES, TASKS

SAMPLES, BATCH = 26, 8


class Fuse:
    """Raises in the forward that it is set to; nobody's state, so nobody puts it back."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.error: type[BaseException] = ZeroDivisionError

    def burn(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.error


class Drawing(nn.Module):
    """Dropout, BatchNorm, tied weights, draws from every generator, a buffer that is not saved, and a count of its own."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 8), nn.Linear(8, 8))
        self.body[4].weight = self.body[3].weight
        self.head = nn.Linear(8, CLASSES)
        self.register_buffer("passing", torch.zeros(1), persistent=False)
        self.calls = 0
        self._fuse = [fuse]

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self._fuse[0].burn()
            self.calls += 1
            self.get_buffer("passing").add_(1)
            x = x * (0.9 + 0.2 * random.random()) + np.random.rand() * 0.01
        scores: Tensor = self.head(self.body(x))
        return scores


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.05),
    "momentum": lambda p: SGD(p, lr=0.05, momentum=0.9),
    "adamw": lambda p: AdamW(p, lr=1e-2),
    "tensor lr": lambda p: AdamW(p, lr=torch.tensor(1e-2), foreach=False),
    "lbfgs": lambda p: LBFGS(p, lr=0.1, max_iter=2),
}
SCHEDULES: dict[str, Any] = {
    "none": None,
    "one cycle": OneCycle(max_lr=0.05),
    "torch's": lambda optimizer, total_steps: CosineAnnealingLR(optimizer, 2 * total_steps),
}
FINDERS: dict[str, Callable[[Trainer], Any]] = {
    "range test": lambda trainer: find_lr(trainer.run, steps=20),
    "linear, with momentum": lambda trainer: find_lr(trainer.run, low=1e-4, steps=20, mode="linear", repeats=1, momentum=0.85),
    "by trying": lambda trainer: find_batch_size(trainer.run, how="trying", paces=False),
    "by measuring": lambda trainer: find_batch_size(trainer.run, memory_bytes=1e12, most=8),
}


@dataclass(frozen=True)
class Case:
    """A run, and what is done to it after some of its updates."""

    optimizer: str
    schedule: str
    update_cycle: int
    after: int  # updates of the run before the search
    inside: bool  # the loop over the updates goes on round it, or was left
    finder: str
    error: type[BaseException] | None  # in the forward of the search that `at` says
    at: int


def built(case: Case, fuse: Fuse) -> Trainer:
    keys.seed_all(keys.for_build(0))
    model = Drawing(fuse)
    x, y = TASKS[0].draw(SAMPLES, seed=0, dtype=torch.float32)
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=OPTIMIZERS[case.optimizer](model.parameters()),
        schedule=SCHEDULES[case.schedule],
        train=(x, y),
        epochs=2,
        batch_size=BATCH,
        update_cycle=case.update_cycle,
        drop_last=True,
        on_nonfinite="skip",
        progress=False,
    )


def everything(trainer: Trainer) -> list[Any]:
    """All that a search could have touched, copied."""
    model, optimizer = trainer.model, trainer.optimizer
    assert isinstance(model, Drawing)
    return [
        trainer.step,
        model.calls,
        [(name, id(t), t.detach().clone()) for name, t in [*model.named_parameters(), *model.named_buffers()]],
        [None if p.grad is None else (id(p.grad), p.grad.clone()) for p in model.parameters()],
        [module.training for module in model.modules()],
        copy.deepcopy(optimizer.state_dict()),
        [thing.state_dict() for thing in trainer.run.stateful],
        torch.get_rng_state(),
        np.random.get_state(legacy=False),
        random.getstate(),
    ]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@contextlib.contextmanager
def burning(fuse: Fuse, case: Case) -> Iterator[None]:
    """The search may be cut off by the error that the case asks for."""
    fuse.left, fuse.error = (None, ZeroDivisionError) if case.error is None else (case.at, case.error)
    try:
        yield
    except BaseException as error:
        if type(error) is not case.error:
            raise
    finally:
        fuse.left = None


def search(trainer: Trainer, case: Case, fuse: Fuse) -> None:
    np.random.seed(1)
    np.random.randn(), random.gauss(0, 1)  # so that half a pair of draws is waiting
    before = everything(trainer)
    with burning(fuse, case):
        FINDERS[case.finder](trainer)
    for one, other in zip(before, everything(trainer), strict=True):
        assert same(one, other), case


def trained(case: Case, *, searched: bool) -> list[Any]:
    fuse = Fuse()
    trainer = built(case, fuse)
    for update in trainer.updates():
        if update.step + 1 == case.after:
            if not case.inside:
                break
            if searched:
                search(trainer, case, fuse)
    if searched and not case.inside:
        search(trainer, case, fuse)
    trainer.fit()
    return [*trainer.model.state_dict().values(), *(p.grad for p in trainer.model.parameters()), trainer.optimizer.state_dict()]


CASES = st.builds(
    Case,
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    schedule=st.sampled_from(sorted(SCHEDULES)),
    update_cycle=st.sampled_from([1, 2]),
    after=st.sampled_from([1, 2, 4]),
    inside=st.booleans(),
    finder=st.sampled_from(sorted(FINDERS)),
    error=st.sampled_from([None, None, ZeroDivisionError, KeyboardInterrupt]),
    at=st.integers(0, 30),
)


def check(case: Case) -> None:
    for one, other in zip(trained(case, searched=False), trained(case, searched=True), strict=True):
        assert same(one, other), case


@settings(max_examples=15, deadline=None)
@given(case=CASES)
def test_a_search_leaves_no_trace(case: Case) -> None:
    check(case)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(case=CASES)
def test_five_hundred_searches_leave_no_trace(case: Case) -> None:
    check(case)


def test_also_before_the_first_update() -> None:
    """The optimizer has no state yet, and has none afterwards."""
    for finder in FINDERS.values():
        trainer = built(Case("adamw", "one cycle", 1, 0, False, "", None, 0), Fuse())
        before = everything(trainer)
        finder(trainer)
        assert not trainer.optimizer.state
        assert all(p.grad is None for p in trainer.model.parameters())
        for one, other in zip(before, everything(trainer), strict=True):
            assert same(one, other)
