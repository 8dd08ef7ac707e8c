"""Parts of a model: what names, patterns and modules stand for."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DataParallel

from instep.errors import DescriptionError
from instep.optim.parts import modules_of, part_of, slots_of
from tiny import Tagger


def model() -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(11)))


def matched(net: nn.Module, what: str | nn.Module) -> list[str]:
    part = part_of(net, what)
    return [slot.name for slot in slots_of(net) if part.anchor(slot.name) is not None]


def test_a_name_is_a_module_and_all_that_is_in_it() -> None:
    assert matched(model(), "1") == ["1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias"]  # and not 10
    assert matched(model(), "1.0.weight") == ["1.0.weight"]


def test_a_pattern_is_everything_that_it_matches_and_all_that_is_in_that() -> None:
    net = Tagger()
    assert matched(net, "*norm1") == ["layer.norm1.weight", "layer.norm1.bias"]
    assert matched(net, "head.*") == ["head.weight", "head.bias"]
    assert len(matched(net, "*bias")) == 7
    assert len(matched(net, "*")) == len(list(net.parameters()))


def test_a_module_stands_for_itself_under_each_of_its_names() -> None:
    shared = nn.Linear(2, 2)
    net = nn.ModuleDict({"a": shared, "b": shared, "c": nn.Linear(2, 2)})
    assert matched(net, shared) == ["a.weight", "a.bias", "b.weight", "b.bias"]


def test_the_outermost_name_is_the_anchor() -> None:
    part = part_of(model(), "3.*")
    assert part.anchor("3.0.weight") == "3.0"
    assert part.anchor("4.0.weight") is None


def test_names_are_those_of_the_model_inside_its_wrappers() -> None:
    inner = nn.Sequential(nn.Linear(2, 2))
    compiled = torch.compile(inner, backend="eager")
    assert isinstance(compiled, nn.Module)
    for wrapped in (compiled, DataParallel(inner)):
        assert [slot.name for slot in slots_of(wrapped)] == ["0.weight", "0.bias"]
        assert [name for name, _ in modules_of(wrapped)] == ["", "", "0"]


def test_bias_and_norm_are_told_by_dimension_name_and_owner() -> None:
    net = nn.ModuleDict({"attention": nn.MultiheadAttention(4, 2, add_bias_kv=True), "norm": nn.LayerNorm([2, 3])})
    assert [slot.name for slot in slots_of(net) if not slot.is_bias_or_norm] == [
        "attention.in_proj_weight",
        "attention.out_proj.weight",
    ]
    assert slots_of(net)[2].parameter.ndim == 3  # bias_k


def test_what_matches_nothing_is_said() -> None:
    net = Tagger()
    with pytest.raises(DescriptionError, match=r"'haed' matches no module and no parameter of Tagger; did you mean 'head'\?"):
        part_of(net, "haed")
    with pytest.raises(DescriptionError, match=r"'xyz\.\*' matches no module .* it is made of embed, layer, head\."):
        part_of(net, "xyz.*")
    with pytest.raises(DescriptionError, match=r"'' matches no module"):
        part_of(net, "")
    with pytest.raises(DescriptionError, match=r"the Linear is no part of this Tagger; pass a module of this model"):
        part_of(net, nn.Linear(2, 2))
    with pytest.raises(DescriptionError, match=r"3 names no part of a model; use text such as 'base' or '\*\.bias', or a module"):
        part_of(net, 3)  # type: ignore[arg-type]
