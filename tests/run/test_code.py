"""What is taken in of code and values: all that the user wrote, nothing that differs between two processes of one script."""

import functools
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instep.run.code import DataSet, describe_code, read_code
from instep.run.module_texts import describe_modules
from instep.run.plain import UNKNOWN, plain

OPTIONS = SimpleNamespace(alpha=0.5, started=time.time(), unread=1)
GUARD = threading.Lock()
ROUND = 3


def part(owner: Any) -> dict[str, Any]:
    parts: dict[str, Any] = describe_code({"owner": owner}, nn.Linear(1, 1))["parts"]
    found: dict[str, Any] = parts.get("owner", {"functions": {}, "values": {}})
    return found


def reads(value: float) -> float:
    with GUARD:
        return float(value * OPTIONS.alpha + OPTIONS.started * 0)


@torch.no_grad()
def decorated(value: float) -> float:
    return reads(value)


@functools.lru_cache
def cached(value: float) -> float:
    return value * ROUND


class Base:
    shared = 2
    unread = 5

    def kept(self) -> int:
        return self.shared


class Called(Base):
    def __init__(self, gain: float) -> None:
        self.gain = gain

    def __call__(self, value: float) -> float:
        return reads(value) * self.gain

    def method(self, value: float) -> float:
        return value


def test_functions_are_followed_through_decorators_methods_and_globals() -> None:
    assert part(decorated)["functions"].keys() == {"decorated", "reads"}
    assert part(cached) == {"functions": {"cached": read_code(cached.__wrapped__.__code__).hash}, "values": {"ROUND": 3}}
    assert part(lambda value: cached(value) + 1)["values"] == {"ROUND": 3}
    assert part(Called(2.0).method)["functions"].keys() == {
        "Base.kept",
        "Called.__init__",
        "Called.__call__",
        "Called.method",
        "reads",
    }


def test_values_are_those_that_code_names() -> None:
    assert part(decorated)["values"] == {"OPTIONS.alpha": 0.5}
    assert part(Called(2.0))["values"] == {"gain": 2.0, "OPTIONS.alpha": 0.5, "Base.shared": 2}
    assert part(functools.partial(reads, 3.0))["values"] == {"reads(0)": 3.0, "OPTIONS.alpha": 0.5}


def test_what_is_installed_says_nothing() -> None:
    for owner in (torch.nn.functional.cross_entropy, functools.reduce, torch.optim.SGD, print, None, "accuracy"):
        assert part(owner) == {"functions": {}, "values": {}}


def test_a_loss_of_torch_says_what_it_does_not_print() -> None:
    one, other = (part(nn.CrossEntropyLoss(torch.ones(2), ignore_index=index))["values"] for index in (-100, 0))
    assert one["CrossEntropyLoss.weight"] == [1.0, 1.0]
    assert (one["CrossEntropyLoss.ignore_index"], other["CrossEntropyLoss.ignore_index"]) == (-100, 0)


def test_two_functions_of_one_name_are_told_apart() -> None:
    twice = [lambda value: value + 1, lambda value: value + 2]
    found = part(twice)["functions"]
    assert len(found) == len(set(found.values())) == 2


class Data:
    def __init__(self) -> None:
        self.random = torch.rand(3)
        self.unset = torch.empty(100)
        self.transform = decorated

    def __getitem__(self, index: int) -> Tensor:
        return self.random[index]


def test_of_a_data_set_the_code_counts_and_what_it_holds_does_not() -> None:
    assert part(DataSet(Data())) == part(DataSet(Data()))
    assert part(DataSet(Data()))["functions"].keys() == {"Data.__init__", "Data.__getitem__", "decorated", "reads"}


class Awkward:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_what_cannot_be_looked_at_stops_nothing() -> None:
    assert part([Awkward()])["values"] == {}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(time.time(), id="the time"),
        "/tmp/a",
        "a\\b",
        "cuda:1",
        pytest.param(object(), id="an object"),
        pytest.param({object(): 1}, id="a dict"),
        pytest.param([object()], id="a list"),
        torch.ones(3, requires_grad=True),
        GUARD,
        print,
    ],
)
def test_what_says_nothing_about_the_result(value: Any) -> None:
    assert plain(value) is UNKNOWN


def test_names_that_say_how_a_run_is_run() -> None:
    assert plain(3, "RANK") is plain(3, "world_size") is plain("x", "device") is UNKNOWN
    assert plain(3, "ranks") == 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self._private, self.started = 2.0, 1, time.time()
        self.norm, self.attention = nn.BatchNorm1d(4), nn.MultiheadAttention(4, 2)
        self.register_buffer("kept", torch.rand(2))

    def extra_repr(self) -> str:
        return f"scale={self.scale}, at={object()}"


def test_modules_are_told_by_what_they_print_and_hold() -> None:
    found = describe_modules(Net())
    assert found == describe_modules(Net())
    assert found.texts[""] == "Net(scale=2.0, at=<object object>)"
    assert found.texts["norm"].startswith("BatchNorm(4, eps=1e-05")  # SyncBatchNorm stands for it in several processes
    assert {"_private": 1, "attention.num_heads": 2}.items() <= found.values.items()
    assert not {"scale", "started", "kept", "training"} & found.values.keys()
