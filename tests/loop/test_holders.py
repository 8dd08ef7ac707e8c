"""Whatever holds a state is found, wherever a user has put it."""

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep.loop.holders import find_holders
from tiny import CLASSES, make, net

GLOBAL = nn.Linear(2, 2)


def read_global(model: nn.Module, batch: Any) -> Tensor:
    return cross_entropy(model(batch[0]) + GLOBAL.weight.sum(), batch[1])


def taking(module: nn.Module, model: nn.Module, batch: Any) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1])


class Holding:
    def __init__(self, *modules: nn.Module) -> None:
        self.modules = {"a": list(modules)}

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        return cross_entropy(model(batch[0]), batch[1])

    def method(self, model: nn.Module, batch: Any) -> Tensor:
        return self(model, batch)


def closure(module: nn.Module) -> Any:
    def objective(model: nn.Module, batch: Any) -> Tensor:
        extra: Tensor = module(batch[0]).sum()
        return cross_entropy(model(batch[0]), batch[1]) + extra

    return objective


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*arguments: Any) -> Any:
        return function(*arguments)

    return inner


def beside(model: nn.Module | None = None, **passed: Any) -> tuple[nn.Module, ...]:
    usual = {"loss": None, "objective": None, "metrics": None, "transform": None}
    return find_holders(net() if model is None else model, **(usual | passed)).beside


def test_modules_are_found_in_whatever_calls_them() -> None:
    own = nn.Linear(2, 2)
    for objective in (
        own,
        functools.partial(taking, own),
        Holding(own),
        Holding(own).method,
        closure(own),
        wrapped(closure(own)),
    ):
        assert beside(objective=objective) == (own,)
        assert beside(objective={"a": objective}) == (own,)
        assert beside(metrics={"a": objective}) == (own,)
        assert beside(transform=objective) == (own,)
    assert beside(objective=read_global) == (GLOBAL,)


def test_what_is_inside_of_the_model_or_of_another_is_not_found_twice() -> None:
    model: Any = net()
    own = nn.Sequential(nn.Linear(2, 2))
    assert beside(model, objective=closure(model)) == ()
    assert beside(model, objective=Holding(model[0], own, own[0])) == (own,)


def test_functions_of_other_packages_are_not_entered() -> None:
    assert beside(loss=cross_entropy) == ()
    assert beside(objective=torch.nn.functional.mse_loss, metrics="accuracy") == ()


def test_a_loss_that_is_a_module_is_sent_to_the_device() -> None:
    sent = []

    class Weighted(nn.CrossEntropyLoss):
        def to(self, *arguments: Any, **options: Any) -> Any:
            sent.append(arguments)
            return super().to(*arguments, **options)

    make(loss=Weighted(weight=torch.ones(CLASSES)))
    assert sent == [(torch.device("cpu"),)]
