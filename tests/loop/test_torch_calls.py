"""backward() and step() without torch's wrappers: the same numbers, and whoever hooks, patches or profiles them is heard."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.profiler import ProfilerActivity, profile

from instep.loop import torch_calls
from instep.optim.fused_adam import FusedAdam

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def loss_of(model: nn.Module) -> Tensor:
    return F.cross_entropy(model(X), torch.arange(6) % 3)


@pytest.fixture
def optimizer() -> torch.optim.Optimizer:
    model = net()
    loss_of(model).backward()
    return torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize(
    "make",
    [
        torch.optim.SGD,
        functools.partial(torch.optim.SGD, momentum=0.9, foreach=True),
        functools.partial(torch.optim.AdamW, fused=True),
        functools.partial(torch.optim.Adam, differentiable=False, capturable=False),
        torch.optim.Adagrad,
    ],
)
def test_the_numbers_are_torchs(make: Callable[..., torch.optim.Optimizer]) -> None:
    ours, theirs = net(), net()
    one, other = make(ours.parameters(), lr=0.1), make(theirs.parameters(), lr=0.1)
    for _ in range(4):
        one.zero_grad()
        other.zero_grad()
        torch_calls.backward(loss_of(ours))
        torch_calls.step(one)
        loss_of(theirs).backward()
        other.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_gradients_are_added_up() -> None:
    model = net()
    torch_calls.backward(loss_of(model))
    once = model.weight.grad
    assert once is not None
    once = once.clone()
    torch_calls.backward(loss_of(model))
    assert model.weight.grad is not None
    assert torch.equal(model.weight.grad, 2 * once)


def test_a_kept_gradient_of_the_loss_is_its_own() -> None:
    model = net()
    losses = [loss_of(model), loss_of(model)]
    for loss in losses:
        loss.retain_grad()
        torch_calls.backward(loss)
        assert loss.grad is not None
        assert loss.grad.item() == 1
        loss.grad.zero_()


def test_hooks_are_called(optimizer: torch.optim.Optimizer) -> None:
    called: list[str] = []
    handles = [
        register_optimizer_step_pre_hook(lambda *_: called.append("before any")),
        optimizer.register_step_pre_hook(lambda *_: called.append("before")),
        optimizer.register_step_post_hook(lambda *_: called.append("after")),
        register_optimizer_step_post_hook(lambda *_: called.append("after any")),
    ]
    torch_calls.step(optimizer)
    assert called == ["before any", "before", "after", "after any"]
    for handle in handles:
        handle.remove()
        called.clear()
        torch_calls.step(optimizer)
    assert not called


def test_a_profiler_sees_the_step(optimizer: torch.optim.Optimizer) -> None:
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as seen:
        torch_calls.step(optimizer)
    assert "Optimizer.step#SGD.step" in {event.key for event in seen.key_averages()}


def test_a_step_that_somebody_replaced_is_called(optimizer: torch.optim.Optimizer, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    own = torch.optim.SGD.step

    @functools.wraps(own)
    def counted(self: Any, *args: Any) -> Any:
        called.append("class")
        return own(self, *args)

    monkeypatch.setattr(torch.optim.SGD, "step", counted)
    torch_calls.step(optimizer)
    monkeypatch.setattr(optimizer, "step", lambda: called.append("instance"))
    torch_calls.step(optimizer)
    assert called == ["class", "instance"]


def test_a_scheduler_of_torch_counts_the_steps(optimizer: torch.optim.Optimizer) -> None:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    torch_calls.step(optimizer)
    scheduler.step()  # warns, and so fails, where it has seen no step before


def test_beside_a_scheduler_the_step_is_as_fast_and_the_same() -> None:
    """torch's schedulers put a step of their own before the optimizer's; the fast way is taken nevertheless."""

    def trained(step: Callable[[torch.optim.Optimizer], object]) -> list[Tensor]:
        weights = torch.nn.Parameter(torch.arange(4.0))
        optimizer = torch.optim.AdamW([weights], lr=0.1, fused=True)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for number in range(4):
            weights.grad = torch.full((4,), number - 1.5)
            step(optimizer)
            scheduler.step()
        return [weights.detach(), *(value for value in optimizer.state[weights].values())]

    made: list[FusedAdam] = []

    def fast(optimizer: torch.optim.Optimizer) -> None:
        made[:] = made or [FusedAdam(optimizer)]
        torch_calls.step(optimizer, made[0])

    assert all(map(torch.equal, trained(fast), trained(lambda optimizer: optimizer.step())))
    assert made[0]._misses == 0, "no step was made the fast way"


def test_a_step_put_round_that_of_a_scheduler_is_called(optimizer: torch.optim.Optimizer) -> None:
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    called: list[str] = []
    inner: Any = optimizer.step

    @functools.wraps(inner)
    def mine(*args: Any, **kwargs: Any) -> Any:
        called.append("mine")
        return inner(*args, **kwargs)

    optimizer.step = mine  # type: ignore[method-assign]
    torch_calls.step(optimizer)
    assert called == ["mine"]


@pytest.mark.parametrize("where", [(Tensor, "backward"), (torch.autograd, "backward")])
def test_a_backward_that_somebody_replaced_is_called(where: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    own = getattr(*where)

    def counted(*args: Any, **options: Any) -> None:
        called.append(args)
        own(*args, **options)

    monkeypatch.setattr(*where, counted)
    model = net()
    torch_calls.backward(loss_of(model))
    assert called
    assert model.weight.grad is not None


class Named(Tensor):
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.backward:
            called.append(function)
        return super().__torch_function__(function, types, args, kwargs or {})  # type: ignore[no-untyped-call]


called: list[Any] = []


def test_a_subclass_has_its_say() -> None:
    weight = nn.Parameter(torch.ones(3))
    loss = weight.sum().as_subclass(Named)
    torch_calls.backward(loss)
    assert called
    assert weight.grad is not None


def test_the_log_of_autograd_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="torch.autograd.graph"):
        torch_calls.backward(loss_of(net()))
    assert any("Executing" in record.getMessage() for record in caplog.records)
