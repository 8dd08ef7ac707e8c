"""param_groups: every parameter in one group with the options it should have, and a plan that says so."""

import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from instep.errors import DescriptionError
from instep.optim.freeze import freeze
from instep.optim.groups import ParamGroups, option_notes, param_groups
from instep.schedules import OneCycle, drive
from tiny import Cnn, Reader, Tagger


class Tied(nn.Module):
    """A small language model whose head is its embedding."""

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(1, 4))
        self.embed = nn.Embedding(7, 4)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)) for _ in range(blocks))
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight


def two() -> nn.ModuleDict:
    return nn.ModuleDict({"base": nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8)), "classifier": nn.Linear(8, 3)})


def planned(groups: ParamGroups) -> dict[str, tuple[str, ...]]:
    return {group.name: group.parameters for group in groups.plan.groups}


def options(groups: ParamGroups, name: str) -> dict[str, Any]:
    (found,) = [group for group in groups if group["name"] == name]
    return {option: value for option, value in found.items() if option not in ("params", "name")}


# --- Rules


def test_base_and_classifier_have_their_own_learning_rates() -> None:
    model = two()
    groups = param_groups(model, {"base": {"lr": 1e-2}, model["classifier"]: {"lr": 1e-3, "weight_decay": 0.5}})
    assert planned(groups) == {
        "base": ("base.0.weight", "base.0.bias", "base.1.weight", "base.1.bias"),
        "classifier": ("classifier.weight", "classifier.bias"),
    }
    assert groups[0]["params"] == list(model["base"].parameters())
    optimizer = AdamW(groups, lr=0.5, weight_decay=0.1)
    assert [(group["name"], group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [
        ("base", 1e-2, 0.1),
        ("classifier", 1e-3, 0.5),
    ]


def test_what_is_under_no_rule_is_the_rest() -> None:
    groups = param_groups(two(), {"classifier": {"lr": 1.0}}, lr=0.1, weight_decay=0.2)
    assert list(planned(groups)) == ["classifier", "rest"]
    assert options(groups, "classifier") == {"lr": 1.0, "weight_decay": 0.2}
    assert options(groups, "rest") == {"lr": 0.1, "weight_decay": 0.2}
    assert list(planned(param_groups(two()))) == ["all"]


def test_strict_wants_a_rule_for_everything_that_trains() -> None:
    model = two()
    with pytest.raises(
        DescriptionError, match=r"base\.0\.weight is under no rule, and strict=True; add a rule for it, or freeze"
    ):
        param_groups(model, {"classifier": {"lr": 1.0}}, strict=True)
    freeze(model, "base")
    assert list(planned(param_groups(model, {"classifier": {"lr": 1.0}}, strict=True))) == ["classifier", "rest"]


def test_rules_add_up_and_the_innermost_wins() -> None:
    """A bias of the base has the base's learning rate and the biases' decay."""
    rules = {"base": {"lr": 0.1, "weight_decay": 0.3}, "base.1": {"lr": 0.2}, "*.bias": {"weight_decay": 0.0}}
    groups = param_groups(two(), rules)
    assert {name: options(groups, name) for name in planned(groups)} == {
        "base": {"lr": 0.1, "weight_decay": 0.3},
        "base + base.1": {"lr": 0.2, "weight_decay": 0.3},
        "base + base.1 + *.bias": {"lr": 0.2, "weight_decay": 0.0},
        "base + *.bias": {"lr": 0.1, "weight_decay": 0.0},
        "*.bias": {"weight_decay": 0.0},
        "rest": {},
    }


def test_a_plain_name_wins_over_a_pattern_of_the_same_depth() -> None:
    groups = param_groups(two(), {"base": {"lr": 0.1}, "*s*": {"lr": 0.2}})
    assert options(groups, "base + *s*") == {"lr": 0.1}
    assert options(groups, "*s*") == {"lr": 0.2}


def test_two_equal_rules_that_disagree_are_an_error() -> None:
    said = (
        r"base\.0\.weight is under 'b\*' with lr=0\.1 and under '\*e' with lr=0\.2, and none is inside another; "
        r"add a rule for 'base\.0\.weight' itself, or narrow them\."
    )
    with pytest.raises(DescriptionError, match=said):
        param_groups(two(), {"b*": {"lr": 0.1}, "*e": {"lr": 0.2}})
    param_groups(two(), {"b*": {"lr": 0.1}, "*e": {"lr": 0.1}})


def test_a_tied_parameter_is_listed_once() -> None:
    model = Tied()
    groups = param_groups(model)
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    assert groups.plan.notes == ("tied, listed once: embed.weight = head.weight",)
    assert planned(param_groups(model, {"head": {"lr": 0.1}}))["head"] == ("embed.weight",)
    with pytest.raises(DescriptionError, match=r"embed\.weight = head\.weight is under 'embed' with lr=0\.1 and under 'head'"):
        param_groups(model, {"embed": {"lr": 0.1}, "head": {"lr": 0.2}})
    settled = param_groups(model, {"embed": {"lr": 0.1}, "head": {"lr": 0.2}, "embed.weight": {"lr": 0.3}})
    assert options(settled, "embed + head + embed.weight") == {"lr": 0.3}


def test_a_tied_parameter_counts_as_the_innermost_of_its_names() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(7, 4), "decoder": nn.ModuleDict({"out": nn.Linear(4, 7, bias=False)})})
    model.get_submodule("decoder.out").weight = model.get_parameter("embed.weight")
    groups = param_groups(model, {"decoder.out": {"lr": 0.1}, "*weight": {"lr": 0.2}})
    assert options(groups, "decoder.out + *weight") == {"lr": 0.2}


def test_frozen_parameters_wait_in_their_group_or_are_left_out() -> None:
    model = two()
    freeze(model, "base")
    groups = param_groups(model, {"base": {"lr": 0.1}})
    assert [(group.name, group.count, group.frozen) for group in groups.plan.groups] == [("base", 56, 56), ("rest", 27, 0)]
    assert groups.plan.notes == (
        "frozen, 56 numbers, in their groups, nothing moves them until they are unfrozen: "
        "base.0.weight, base.0.bias, base.1.weight, base.1.bias",
    )
    groups = param_groups(model, {"base": {"lr": 0.1}}, include_frozen=False)
    assert planned(groups) == {"rest": ("classifier.weight", "classifier.bias")}
    assert groups.plan.notes[0].startswith("frozen, 56 numbers, in no group: base.0.weight")
    freeze(model)
    with pytest.raises(
        DescriptionError, match=r"every parameter of ModuleDict is frozen; unfreeze one, or use include_frozen=True"
    ):
        param_groups(model, include_frozen=False)


# --- No decay


@pytest.mark.parametrize("model", [Cnn(), Tagger(), Reader(), Tied()], ids=lambda model: type(model).__name__)
def test_bias_and_norm_have_no_decay_in_one_word(model: nn.Module) -> None:
    groups = param_groups(model, no_decay=True, weight_decay=0.1)
    decayed, spared = groups
    assert (decayed["name"], decayed["weight_decay"]) == ("all", 0.1)
    assert (spared["name"], spared["weight_decay"]) == ("no decay", 0.0)
    assert all(p.ndim >= 2 for p in decayed["params"])
    assert all(p.ndim < 2 for p in spared["params"])


def test_no_decay_can_be_a_list() -> None:
    model = Tied()
    groups = param_groups(model, no_decay=["*.bias", model.head])
    assert planned(groups)["no decay"] == ("embed.weight", *(f"blocks.{i}.{j}.bias" for i in (0, 1) for j in (0, 1)), "norm.bias")
    with pytest.raises(DescriptionError, match=r"no_decay= is True for bias and norm, or a list of names, patterns and modules"):
        param_groups(model, no_decay="bias")


# --- Layers


def test_learning_rates_fall_with_the_depth() -> None:
    groups = param_groups(Tied(), lr=1.0, layer_decay=0.5)
    assert {group["name"]: group["lr"] for group in groups} == {
        "layer bottom": 0.125,
        "layer blocks.0": 0.25,
        "layer blocks.1": 0.5,
        "layer top": 1.0,
    }
    assert planned(groups)["layer bottom"] == ("start", "embed.weight")  # the tied head is the embedding
    assert planned(groups)["layer top"] == ("norm.weight", "norm.bias")


def test_the_blocks_of_a_plain_sequential_are_its_layers() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 2))
    assert {group["name"]: group["lr"] for group in param_groups(net, lr=1.0, layer_decay=0.5)} == {
        "layer 0": 0.25,
        "layer 2": 0.5,
        "layer 3": 1.0,
    }


def test_what_is_between_two_blocks_goes_with_the_lower() -> None:
    net = nn.ModuleDict(
        {
            "encoder": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
            "norm": nn.LayerNorm(2),
            "decoder": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]),
        }
    )
    assert planned(param_groups(net, lr=1.0, layer_decay=0.5))["layer encoder.1"] == (
        "encoder.1.weight",
        "encoder.1.bias",
        "norm.weight",
        "norm.bias",
    )


def test_layers_can_be_said() -> None:
    model = Tied()
    groups = param_groups(model, lr=1.0, layer_decay=0.5, layers=[("start", model.embed), "blocks.*", "norm"])
    assert {group["name"]: group["lr"] for group in groups} == {
        "layer start embed": 0.125,
        "layer blocks.0": 0.25,
        "layer blocks.1": 0.5,
        "layer norm": 1.0,
    }
    with pytest.raises(
        DescriptionError, match=r"layers= leaves out start, norm\.weight, norm\.bias; name every part of the model"
    ):
        param_groups(model, lr=1.0, layer_decay=0.5, layers=["embed", "blocks.*"])
    with pytest.raises(DescriptionError, match=r"layers= puts start into 'start' and into 'start \*'; leave one out"):
        param_groups(model, lr=1.0, layer_decay=0.5, layers=["start", ("start", "*")])


def test_a_rule_has_its_learning_rate_as_it_is_and_no_decay_splits_layers() -> None:
    groups = param_groups(Tied(1), {"start": {"lr": 0.3}, "norm": {"betas": (0.5, 0.9)}}, lr=1.0, layer_decay=0.5, no_decay=True)
    assert {group["name"]: group["lr"] for group in groups} == {
        "start": 0.3,
        "norm/layer top/no decay": 1.0,
        "rest/layer bottom": 0.25,
        "rest/layer blocks.0": 0.5,
        "rest/layer blocks.0/no decay": 0.5,
    }


# --- The plan


def test_the_plan_is_a_table() -> None:
    model = two()
    freeze(model, "classifier.bias")
    groups = param_groups(model, {"base": {"lr": 1e-2, "clip_norm": 0.5}}, weight_decay=0.1, no_decay=True)
    assert str(groups.plan) == repr(groups)
    assert repr(groups) == "\n".join(
        [
            "group          parameters  count           lr  decay  frozen  others",
            "base                    1     32         0.01    0.1          clip_norm=0.5",
            "base/no decay           3     24         0.01      0          clip_norm=0.5",
            "rest                    1     24  optimizer's    0.1",
            "rest/no decay           1      3  optimizer's      0       3",
            "frozen, 3 numbers, in their groups, nothing moves them until they are unfrozen: classifier.bias",
        ]
    )


def test_options_that_the_optimizer_does_not_know_are_noted() -> None:
    """torch takes any name: this group would train with the optimizer's own learning rate."""
    optimizer = AdamW(param_groups(two(), {"base": {"rho": 0.5, "clip_norm": 1.0}}), lr=0.1)
    assert option_notes(optimizer) == ["the group 'base' has rho=0.5, which AdamW does not know"]
    assert option_notes(SGD(two().parameters(), lr=0.1)) == []


@settings(max_examples=40, deadline=None)
@given(
    patterns=st.lists(st.sampled_from(["embed", "blocks", "blocks.0", "blocks.*.1", "*.bias", "*norm*", "head"]), unique=True),
    no_decay=st.booleans(),
    layer_decay=st.sampled_from([None, 0.8]),
    is_frozen=st.sampled_from([(), ("blocks.0",), ("*.bias",), ("embed",)]),
    include_frozen=st.booleans(),
)
def test_every_parameter_is_in_exactly_one_group(
    patterns: list[str], no_decay: bool, layer_decay: float | None, is_frozen: tuple[str, ...], include_frozen: bool
) -> None:
    model = Tied()
    if is_frozen:
        freeze(model, *is_frozen)
    groups = param_groups(
        model,
        {pattern: {"momentum": 0.5} for pattern in patterns},
        lr=0.1,
        no_decay=no_decay,
        layer_decay=layer_decay,
        include_frozen=include_frozen,
    )
    held = [p for group in groups for p in group["params"]]
    expected = [p for p in model.parameters() if include_frozen or p.requires_grad]
    assert len(held) == len(set(held)) == len(expected)
    assert set(held) == set(expected)
    assert len({group["name"] for group in groups}) == len(groups)
    assert all(group["params"] for group in groups)
    assert sum(group.count for group in groups.plan.groups) == sum(p.numel() for p in expected)
    SGD(groups, lr=1.0)


def test_one_group_is_bitwise_the_plain_optimizer() -> None:
    def train(grouped: bool) -> list[Tensor]:
        torch.manual_seed(0)
        net = Cnn()
        optimizer = AdamW(param_groups(net) if grouped else net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(4, 1, 6, 6)).square().mean().backward()
            optimizer.step()
        return list(net.parameters())

    assert all(torch.equal(p, q) for p, q in zip(train(True), train(False), strict=True))


# --- With a schedule


def test_one_cycle_keeps_the_ratios_of_the_groups() -> None:
    optimizer = SGD(param_groups(two(), {"base": {"lr": 1e-2}, "classifier": {"lr": 1e-3}}), lr=1.0, momentum=0.9)
    driver = drive(OneCycle(max_lr=0.5), optimizer, total_steps=10)
    peaks = [0.0, 0.0]
    for position in range(10):
        driver.before_update(position)
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates[1] == pytest.approx(rates[0] / 10)
        peaks = [max(pair) for pair in zip(peaks, rates, strict=True)]
    assert peaks == pytest.approx([0.5, 0.05])


def test_one_cycle_takes_one_peak_per_group() -> None:
    optimizer = SGD(param_groups(two(), {"base": {"lr": 1e-2}, "classifier": {"lr": 1e-3}}), lr=1.0, momentum=0.9)
    driver = drive(OneCycle(max_lr=[0.2, 0.6]), optimizer, total_steps=10)
    driver.before_update(2)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.2, 0.6])


def test_one_cycle_keeps_the_ratios_of_layers() -> None:
    optimizer = AdamW(param_groups(Tied(), lr=1e-3, layer_decay=0.5))
    drive(OneCycle(max_lr=0.8), optimizer, total_steps=10).before_update(2)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.2, 0.4, 0.8])


# --- Errors


@pytest.mark.parametrize(
    ("rules", "arguments", "said"),
    [
        ({"bse": {"lr": 0.1}}, {}, "'bse' matches no module and no parameter of ModuleDict; did you mean 'base'?"),
        ({"base": 0.1}, {}, "the rule 'base' is 0.1; give its options by name: {'base': {'lr': 0.01}}."),
        ({"base": {"lr": "1e-3"}}, {}, "the rule 'base' has lr='1e-3'; use a number, 0 or more."),
        ({"base": {"weight_decay": -1}}, {}, "the rule 'base' has weight_decay=-1; use a number, 0 or more."),
        ({"base": {"params": []}}, {}, "the rule 'base' sets 'params', which comes from the rule itself; leave it out."),
        ({"relu": {"lr": 0.1}}, {}, "the rule 'relu' stands for a module without parameters; leave it out."),
        (None, {"lr": math.nan}, "param_groups() has lr=nan; use a number, 0 or more."),
        (None, {"layer_decay": 0.8}, "layer_decay=0.8 needs lr=, the learning rate of the top layer."),
        (
            None,
            {"layer_decay": 1.5, "lr": 1.0},
            "layer_decay=1.5 is no factor from one layer to the one below; use one in (0, 1]",
        ),
        (None, {"layers": ["base"]}, "layers= is of no use without layer_decay=; pass layer_decay=0.8, or leave it out."),
    ],
)
def test_what_does_not_make_sense_is_said(rules: Any, arguments: Any, said: str) -> None:
    model = two()
    model["relu"] = nn.ReLU()
    with pytest.raises(DescriptionError, match=re.escape(said)):
        param_groups(model, rules, **arguments)


def test_models_that_cannot_be_grouped_are_said() -> None:
    with pytest.raises(
        DescriptionError, match=r"layer_decay= finds no layers in Tagger, which has no ModuleList and no Sequential"
    ):
        param_groups(Tagger(), lr=1.0, layer_decay=0.5)
    with pytest.raises(DescriptionError, match=r"ReLU has no parameters, so there is nothing to put into groups"):
        param_groups(nn.ReLU())
    with pytest.raises(DescriptionError, match=r"model is a list; pass a torch\.nn\.Module"):
        param_groups([])  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match=r"weight has no shape yet; run one batch through the model before param_groups"):
        param_groups(nn.LazyLinear(3))
    model = two()
    with pytest.raises(DescriptionError, match=r"a rule for the model itself is what lr= and weight_decay= are for; name a part"):
        param_groups(model, {model: {"lr": 0.1}})


@pytest.mark.parametrize(
    ("option", "meant"),
    [("learning_rate", "lr"), ("LR", "lr"), ("wd", "weight_decay"), ("decay", "weight_decay"), ("epsilon", "eps")],
)
def test_options_that_torch_calls_otherwise(option: str, meant: str) -> None:
    with pytest.raises(
        DescriptionError, match=f"the rule 'weight' has {option}=1, which no optimizer of torch knows; use {meant}="
    ):
        param_groups(nn.Linear(2, 2), {"weight": {option: 1}}, lr=0.1)
    param_groups(nn.Linear(2, 2), {"weight": {"rho": 1}}, lr=0.1)  # may be an option of somebody's optimizer
