"""The plan of parameter groups: which parameter goes where, with which options, and why. Names only, nothing is made.

All checking is done here; `groups` makes torch's groups from a plan.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.parameter import UninitializedParameter

from instep.errors import DescriptionError
from instep.optim.layers import LayerNames, Layers, found_layers, said_layers
from instep.optim.parts import Part, Slot, What, depth, part_of, slots_of
from instep.text import columns, listed

Options = Mapping[str, Any]
Rules = Mapping[Any, Options]  # by What: a key type does not vary, and {"a": …} would not be a Mapping[What, …]


# Names that other libraries use, and what torch's optimizers call them. Any other name may be an option of somebody's optimizer.
_MEANT = dict.fromkeys(("learning_rate", "learningrate", "learn_rate", "lr"), "lr") | dict.fromkeys(
    ("wd", "decay", "weightdecay", "l2", "l2_penalty"), "weight_decay"
) | {"epsilon": "eps", "mom": "momentum"}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """One group before it is made."""

    name: str
    parameters: tuple[str, ...]
    count: int  # of numbers in them
    frozen: int  # and how many of these are frozen
    options: Options


@dataclass(frozen=True)
class GroupPlan:
    """The groups in their order, and what is to be said about them; print it to see a table."""

    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()  # tied and frozen parameters

    def __str__(self) -> str:
        head = ["group", "parameters", "count", "lr", "decay", "frozen", "others"]
        rows = [
            [
                group.name,
                f"{len(group.parameters):,}",
                f"{group.count:,}",
                _option(group.options, "lr"),
                _option(group.options, "weight_decay"),
                f"{group.frozen:,}" if group.frozen else "",
                ", ".join(f"{name}={value}" for name, value in group.options.items() if name not in ("lr", "weight_decay")),
            ]
            for group in self.groups
        ]
        shown = [column for column in range(len(head)) if column < 5 or any(row[column] for row in rows)]
        table = columns([head[c] for c in shown], [[row[c] for c in shown] for row in rows], left=("group", "others"))
        return "\n".join([*table, *self.notes])


@dataclass(frozen=True)
class _Rule:
    index: int  # among the rules
    part: Part
    options: Options

    def rank(self, aliases: tuple[str, ...]) -> tuple[int, bool] | None:
        """How strong it is for a parameter: the further inside the stronger, a plain name before a pattern; None if it is not."""
        anchors = [anchor for alias in aliases if (anchor := self.part.anchor(alias)) is not None]
        return (max(depth(anchor) for anchor in anchors), not self.part.is_pattern) if anchors else None


@dataclass(frozen=True)
class _Wanted:
    """Everything that was asked for, checked."""

    rules: tuple[_Rule, ...]
    defaults: Options
    layers: Layers | None
    layer_decay: float
    no_decay: frozenset[str]
    strict: bool


def plan_groups(
    model: nn.Module,
    rules: Rules,
    *,
    defaults: Options,
    layer_decay: float | None,
    layers: LayerNames | None,
    no_decay: bool | Sequence[What],
    strict: bool,
    include_frozen: bool,
) -> GroupPlan:
    """The plan; the arguments are those of `param_groups`."""
    names = _names_by_parameter(model)
    names_kept = [named for named in names if include_frozen or named[0].parameter.requires_grad]
    slots = [named[0] for named in names_kept]
    if not slots:
        raise DescriptionError(f"every parameter of {type(model).__name__} is frozen; unfreeze one, or use include_frozen=True.")
    _check_options("param_groups()", defaults)
    wanted = _Wanted(
        rules=tuple(_rule(model, index, what, options) for index, (what, options) in enumerate(rules.items())),
        defaults=defaults,
        layers=_layers(model, slots, layers, layer_decay, defaults),
        layer_decay=1.0 if layer_decay is None else layer_decay,
        no_decay=_without_decay(model, names_kept, no_decay),
        strict=strict,
    )
    aliases = {named[0].name: tuple(slot.name for slot in named) for named in names}
    planned: dict[tuple[Any, ...], list[Slot]] = {}
    described: dict[tuple[Any, ...], tuple[str, Options]] = {}
    for slot in slots:
        key, name, options = _place(slot, aliases[slot.name], wanted)
        planned.setdefault(key, []).append(slot)
        described[key] = name, options
    groups = tuple(_group(*described[key], planned[key]) for key in sorted(planned))
    return GroupPlan(groups, (*_tied_notes(aliases), *_frozen_notes(names, include_frozen)))


def _place(slot: Slot, aliases: tuple[str, ...], wanted: _Wanted) -> tuple[tuple[Any, ...], str, Options]:
    """Where a parameter goes: the key of its group (groups stand in the order of their keys), the group's name, its options."""
    rules = [rule for rule in wanted.rules if rule.rank(aliases) is not None]
    if not rules and wanted.strict and slot.parameter.requires_grad:
        raise DescriptionError(f"{slot.name} is under no rule, and strict=True; add a rule for it, or freeze it.")
    options = {**wanted.defaults, **_merged(aliases, rules)}
    title = [" + ".join(rule.part.label for rule in rules) or ("rest" if wanted.rules else "")]
    layer = -1
    if wanted.layers is not None and not any("lr" in rule.options for rule in rules):
        layer = wanted.layers.index[slot.name]
        options["lr"] *= wanted.layer_decay ** wanted.layers.depth(slot.name)
        title.append(f"layer {wanted.layers.labels[layer]}")
    undecayed = slot.name in wanted.no_decay
    if undecayed:
        options["weight_decay"] = 0.0
        title.append("no decay")
    key = (tuple(rule.index for rule in rules) or (len(wanted.rules),), layer, undecayed)
    return key, "/".join(piece for piece in title if piece) or "all", options


def _merged(aliases: tuple[str, ...], rules: Sequence[_Rule]) -> dict[str, Any]:
    """The options of all rules; for each option the strongest rule counts, and equally strong ones must agree."""
    merged: dict[str, Any] = {}
    for option in dict.fromkeys(option for rule in rules for option in rule.options):
        saying = sorted((rule for rule in rules if option in rule.options), key=lambda rule: rule.rank(aliases) or ())
        merged[option] = saying[-1].options[option]
        rivals = [rule for rule in saying if rule.rank(aliases) == saying[-1].rank(aliases)]
        if any(rule.options[option] != merged[option] for rule in rivals):
            said = " and under ".join(f"{rule.part.label!r} with {option}={rule.options[option]}" for rule in rivals)
            raise DescriptionError(
                f"{' = '.join(aliases)} is under {said}, and none is inside another; add a rule for {aliases[0]!r} itself, "
                "or narrow them."
            )
    return merged


def _group(name: str, options: Options, slots: Sequence[Slot]) -> Group:
    frozen = sum(slot.parameter.numel() for slot in slots if not slot.parameter.requires_grad)
    return Group(name, tuple(slot.name for slot in slots), sum(slot.parameter.numel() for slot in slots), frozen, options)


def _names_by_parameter(model: nn.Module) -> list[list[Slot]]:
    """Every parameter once, with all its names."""
    if not isinstance(model, nn.Module):
        raise DescriptionError(f"model is a {type(model).__name__}; pass a torch.nn.Module.")
    found: dict[int, list[Slot]] = {}
    for slot in slots_of(model):
        if isinstance(slot.parameter, UninitializedParameter):
            raise DescriptionError(f"{slot.name} has no shape yet; run one batch through the model before param_groups(model).")
        found.setdefault(id(slot.parameter), []).append(slot)
    if not found:
        raise DescriptionError(f"{type(model).__name__} has no parameters, so there is nothing to put into groups.")
    return list(found.values())


def _rule(model: nn.Module, index: int, what: What, options: Options) -> _Rule:
    part = part_of(model, what)
    if "" in part.names:
        raise DescriptionError("a rule for the model itself is what lr= and weight_decay= are for; name a part of it.")
    if all(part.anchor(slot.name) is None for slot in slots_of(model)):
        raise DescriptionError(f"the rule {part.label!r} stands for a module without parameters; leave it out.")
    if not isinstance(options, Mapping):
        raise DescriptionError(
            f"the rule {part.label!r} is {options!r}; give its options by name: {{{part.label!r}: {{'lr': 0.01}}}}."
        )
    _check_options(f"the rule {part.label!r}", options)
    return _Rule(index, part, options)


def _check_options(where: str, options: Options) -> None:
    for option in ("params", "name"):
        if option in options:
            raise DescriptionError(f"{where} sets {option!r}, which comes from the rule itself; leave it out.")
    for option in options:
        meant = _MEANT.get(option.lower().replace("-", "_")) if isinstance(option, str) else None
        if meant is not None and meant != option:
            raise DescriptionError(f"{where} has {option}={options[option]!r}, which no optimizer of torch knows; use {meant}=.")
    for option in ("lr", "weight_decay"):
        value = options.get(option, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise DescriptionError(f"{where} has {option}={value!r}; use a number, 0 or more.")


def _layers(
    model: nn.Module, slots: Sequence[Slot], layers: LayerNames | None, layer_decay: float | None, defaults: Options
) -> Layers | None:
    if layer_decay is None:
        if layers is not None:
            raise DescriptionError("layers= is of no use without layer_decay=; pass layer_decay=0.8, or leave it out.")
        return None
    if not 0 < layer_decay <= 1:
        raise DescriptionError(
            f"layer_decay={layer_decay} is no factor from one layer to the one below; use one in (0, 1], like 0.8."
        )
    if "lr" not in defaults:
        raise DescriptionError(f"layer_decay={layer_decay} needs lr=, the learning rate of the top layer.")
    return found_layers(model, slots) if layers is None else said_layers(model, slots, layers)


def _without_decay(model: nn.Module, names: Sequence[Sequence[Slot]], no_decay: bool | Sequence[What]) -> frozenset[str]:
    if isinstance(no_decay, bool):
        return frozenset(named[0].name for named in names if no_decay and named[0].is_bias_or_norm)
    if isinstance(no_decay, str | nn.Module):
        raise DescriptionError(
            "no_decay= is True for bias and norm, or a list of names, patterns and modules: no_decay=['embed']."
        )
    parts = [part_of(model, what) for what in no_decay]
    return frozenset(
        named[0].name for named in names if any(part.anchor(slot.name) is not None for part in parts for slot in named)
    )


def _tied_notes(aliases: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"tied, listed once: {' = '.join(names)}" for names in aliases.values() if len(names) > 1]


def _frozen_notes(names: Sequence[Sequence[Slot]], include_frozen: bool) -> list[str]:
    frozen = [named[0] for named in names if not named[0].parameter.requires_grad]
    if not frozen:
        return []
    count = sum(slot.parameter.numel() for slot in frozen)
    where = "in their groups, nothing moves them until they are unfrozen" if include_frozen else "in no group"
    return [f"frozen, {count:,} numbers, {where}: {listed([slot.name for slot in frozen], most=4)}"]


def _option(options: Options, name: str) -> str:
    return f"{options[name]:.4g}" if name in options else "optimizer's"
