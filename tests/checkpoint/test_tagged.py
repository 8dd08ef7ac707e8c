"""Tagged JSON: whatever state_dicts hold comes back as it was, and what cannot is refused by name."""

import enum
import math
import warnings
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import lr_scheduler

from checkpoint.made import same
from instep.checkpoint import jsontext
from instep.checkpoint.tagged import Decoder, Encoder
from instep.errors import CheckpointError
from instep.records import GeneratorState


def back(value: Any) -> Any:
    encoder = Encoder("state")
    text = jsontext.render(encoder.encode(value), "state")
    tensors = {name: tensor.clone() for name, tensor in encoder.tensors.items()}
    return Decoder(tensors).decode(jsontext.parse(text, "state"))


VALUES: dict[str, Any] = {
    "nothing": None,
    "truth": [True, False],
    "whole numbers": [0, -1, 2**53 + 1, -(2**200), 3**2000],
    "numbers": [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan],
    "complex": [1 + 2j, complex(math.nan, -math.inf)],
    "texts": ["", "$tag", "ü\n\x00", "\ud800", "🦶"],
    "bytes": [b"", b"\x00\xff"],
    "tuples": ((), (1, (2, [3])), [(4,)]),
    "keys": {1: "int", "1": "str", 1.5: "float", None: "none", (1, 2): "tuple", True and "x": "x", b"b": 1},
    "dollar": {"$tuple": [1], "a": {"$x": {}}},
    "counter": Counter({80: 1, 30: 2, "a": 0}),
    "ordered": OrderedDict([("b", 1), ("a", 2)]),
    "defaultdict": [defaultdict(list, {1: [2]}), defaultdict(None, a=1), defaultdict(Counter)],
    "deque": [deque([1, 2], maxlen=3), deque()],
    "sets": [set(), {3, 1, "a", (1, 2)}, frozenset({1.5, None})],
    "numpy": [np.float32(0.1), np.int64(-3), np.bool_(True), np.float64("nan"), np.complex64(1j), np.uint8(255)],
    "torch": [torch.float8_e5m2, torch.device("cuda", 1), torch.device("cpu"), torch.Size([2, 0])],
    "tensors": {"a": torch.arange(3), "b": [torch.tensor(1.5), (torch.zeros(0, 3),)], 7: torch.tensor(True)},
    "arrays": [np.arange(6, dtype=np.uint32).reshape(2, 3).T, np.zeros((0, 2)), np.array(1.5, dtype=np.float16)],
    "generators": np.random.RandomState(1).get_state(),
    "where a generator stands": [GeneratorState("torch", torch.arange(3)), GeneratorState("python", (3, (1, 2), None))],
    "pcg": np.random.default_rng(1).bit_generator.state,
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(name: str) -> None:
    returned = back(VALUES[name])
    # A float nan is not equal to itself, so numpy's scalars are compared by their bits.
    if name == "numpy":
        assert [(type(v), v.tobytes()) for v in returned] == [(type(v), v.tobytes()) for v in VALUES[name]]
    else:
        assert same(VALUES[name], returned)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=8)
keys = st.integers() | st.text() | st.booleans() | st.tuples(st.integers(), st.text())
trees: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.tuples(inner, inner) | st.builds(deque, st.lists(inner)),
    max_leaves=20,
)


@settings(max_examples=40, deadline=None)
@given(trees)
def test_any_tree_comes_back(tree: Any) -> None:
    assert same(tree, back(tree))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(trees)
def test_any_of_many_trees_comes_back(tree: Any) -> None:
    assert same(tree, back(tree))


def test_a_defaultdict_still_fills_its_gaps() -> None:
    returned = back(defaultdict(list))
    returned["new"].append(1)
    assert returned == {"new": [1]}


def test_a_state_dict_keeps_the_versions_of_its_modules() -> None:
    state = nn.BatchNorm1d(2).state_dict()
    returned = back(state)
    assert type(returned) is OrderedDict
    assert returned._metadata == state._metadata  # type: ignore[attr-defined]
    assert returned._metadata[""]["version"] == 2  # type: ignore[attr-defined]


def test_tensors_go_by_the_path_to_them() -> None:
    encoder = Encoder("optimizer")
    encoder.encode({"state": {"0.weight": {"exp_avg": torch.ones(1), "old": [torch.ones(2)]}}, "a/b": torch.ones(3)})
    assert list(encoder.tensors) == ["state/0.weight/exp_avg", "state/0.weight/old/0", "a/b"]


def test_two_paths_that_read_the_same_are_two_tensors() -> None:
    returned = back({"a/b": torch.tensor(1), "a": {"b": torch.tensor(2)}})
    assert (returned["a/b"].item(), returned["a"]["b"].item()) == (1, 2)


def test_the_text_of_a_set_does_not_depend_on_the_process() -> None:
    one, other = {"a", "b", "c", 1}, {1, "c", "b", "a"}
    assert Encoder("x").encode(one) == Encoder("x").encode(other) == {"$set": ["a", "b", "c", 1]}


Point = namedtuple("Point", "x y")


class Color(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            {"hook": print},
            r"state\['hook'\] is a builtins.builtin_function_or_method, which a checkpoint cannot keep; use numbers",
        ),
        ({"a": [1, Point(1, 2)]}, r"state\['a'\]\[1\] is a .*Point"),
        (Color.RED, r"state is a .*Color"),
        ({1: {"rng": torch.Generator()}}, r"state\[1\]\['rng'\] is a torch._C.Generator"),
        (defaultdict(lambda: 3), r"state is a defaultdict of <function .*lambda.*use one of int, float"),
        (np.array(["a"]), r"state is an array of <U1, which a checkpoint cannot keep"),
        (np.array([1], dtype=">i4"), r"state is an array of >i4"),
        (np.datetime64("2026-01-01"), r"state is a numpy.datetime64"),
        (nn.Linear(1, 1), r"state is a torch.nn.modules.linear.Linear"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(value: Any, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        Encoder("state").encode(value)


def test_what_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append({"again": endless})
    with pytest.raises(CheckpointError, match=r"state\[0\]\['again'\].* nests deeper .* does it contain itself\?"):
        Encoder("state").encode(endless)


def test_what_nests_as_deep_as_allowed_comes_back() -> None:
    deep: Any = 1
    for _ in range(90):
        deep = (deep,)
    assert back(deep) == deep


HOSTILE = [
    {"$call": "os.system"},
    {"$tuple": 3},
    {"$tuple": [1], "more": 2},
    {"$dict": [[1]]},
    {"$dict": [[1, 2], [1, 3]]},
    {"$dict": [[[1], 2]]},
    {"$dict": {"a": 1}},
    {"$set": [[1]]},
    {"$counter": 7},
    {"$defaultdict": ["eval", []]},
    {"$defaultdict": [["list"], []]},
    {"$deque": [-1, []]},
    {"$deque": ["a", [1]]},
    {"$float": "1e3"},
    {"$float": [1]},
    {"$complex": [1, 2]},
    {"$complex": [1.0]},
    {"$int": 5},
    {"$int": "os"},
    {"$bytes": "not base64!"},
    {"$bytes": 4},
    {"$numpy": ["object", "AAAA"]},
    {"$numpy": ["float32", "AA=="]},
    {"$numpy": ["float32", ""]},
    {"$size": [1.5]},
    {"$size": [2**70]},
    {"$dtype": "Tensor"},
    {"$dtype": ["float32"]},
    {"$device": "nowhere:0"},
    {"$device": 10**30},
    {"$tensor": "absent"},
    {"$tensor": ["a"]},
    {"$array": None},
    {"$array": "half"},
    {"$state_dict": [[]]},
    {"$generator": ["os", 1]},
    {"$generator": ["torch"]},
    {"$generator": 3},
]


@pytest.mark.parametrize("value", HOSTILE, ids=str)
def test_a_tag_that_is_wrong_or_unknown_is_refused(value: Any) -> None:
    with pytest.raises(CheckpointError, match="tag"):
        Decoder({"half": torch.zeros(2, dtype=torch.bfloat16)}).decode(value)


def test_a_value_that_nests_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(CheckpointError, match="nests deeper than a checkpoint can hold"):
        Decoder({}).decode(deep)


# --- What torch's own state_dicts hold

# The hard ones: a Counter of milestones, an infinite best. The others: tests/schedules/test_scheduler.py.
SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [3, 3, 7]),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
}


@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["a number as lr", "a tensor as lr"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_goes_on_as_if_nothing_had_been(name: str, lr: Any) -> None:
    def made() -> tuple[torch.optim.Optimizer, Any]:
        value = lr.clone() if isinstance(lr, torch.Tensor) else lr
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=value)
        return optimizer, SCHEDULERS[name](optimizer)

    def trace(optimizer: torch.optim.Optimizer, scheduler: Any, steps: range) -> list[float]:
        lrs = []
        for step in steps:
            optimizer.step()
            scheduler.step(*([abs(5.0 - step)] if name == "ReduceLROnPlateau" else []))
            lrs.append(float(optimizer.param_groups[0]["lr"]))
        return lrs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's SequentialLR trips over its own deprecation
        optimizer, scheduler = made()
        trace(optimizer, scheduler, range(5))
        kept = back(
            {"scheduler": scheduler.state_dict(), "group": {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}}
        )
        assert same(scheduler.state_dict(), kept["scheduler"])
        expected = trace(optimizer, scheduler, range(5, 14))

        optimizer, scheduler = made()
        optimizer.param_groups[0].update(kept["group"])
        scheduler.load_state_dict(kept["scheduler"])
        assert trace(optimizer, scheduler, range(5, 14)) == expected


def test_a_grad_scaler_comes_back() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.ones(1))
    scaler.update(512.0)
    returned = back(scaler.state_dict())
    assert same(scaler.state_dict(), returned)
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(returned)
    assert other.state_dict() == scaler.state_dict()
