"""Names with and without the prefixes of wrappers."""

import pytest
import torch
from torch import nn

from instep.checkpoint.names import bare_names, match

PLAIN = ["body.weight", "body.bias", "head.weight"]


def prefixed(*prefixes: str) -> list[str]:
    return ["".join(f"{prefix}." for prefix in prefixes) + name for name in PLAIN]


@pytest.mark.parametrize(
    "names",
    [
        PLAIN,
        prefixed("module"),
        prefixed("_orig_mod"),
        prefixed("module", "_orig_mod"),
        prefixed("_orig_mod", "module"),
        prefixed("module", "module", "_orig_mod"),
        ["body._orig_mod.weight", "body._orig_mod.bias", "head.weight"],
        ["module.body._orig_mod.weight", "module.body._orig_mod.bias", "module.head.weight"],
    ],
    ids=lambda names: names[0],
)
def test_prefixes_are_repaired_in_either_direction(names: list[str]) -> None:
    assert match(PLAIN, names) == dict(zip(names, PLAIN, strict=True))
    assert match(names, PLAIN) == dict(zip(PLAIN, names, strict=True))
    assert match(names, names) == {name: name for name in names}


def test_names_that_match_as_they_are_stay_as_they_are() -> None:
    """A layer called `module` beside one that is not: nothing may be swapped."""
    names = ["module.weight", "weight"]
    assert match(names, names) == {"module.weight": "module.weight", "weight": "weight"}
    wrapped = ["module.module.weight", "module.weight"]
    assert match(names, wrapped) == {"module.module.weight": "module.weight", "module.weight": "weight"}
    assert match(wrapped, names) == {"module.weight": "module.module.weight", "weight": "module.weight"}


def test_other_names_are_left_out() -> None:
    assert match(["a", "b"], ["module.a", "module.c"]) == {"module.a": "a"}
    assert match(["a.weight"], ["net.a.weight"]) == {}
    assert match([], ["a"]) == match(["a"], []) == {}
    assert match(["a"], ["n_averaged", "module.a"]) == {"module.a": "a"}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # what torch.compile imports
def test_bare_names_are_those_without_wrappers() -> None:
    """A wrapper is known by what it is, not by the name of its part."""

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.DataParallel(nn.Linear(2, 2, bias=False))
            self.compiled = torch.compile(nn.Linear(2, 2, bias=False))

    assert bare_names(Holder()) == {"module.module.weight": "module.weight", "compiled._orig_mod.weight": "compiled.weight"}
    assert list(bare_names(nn.DataParallel(Holder())).values()) == ["module.weight", "compiled.weight"]
