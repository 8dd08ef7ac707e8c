"""param_groups: the parameters of a model in groups with their own options, as torch's optimizers take them.

Everything is decided in `group_plan`, which can be printed; the groups are made from it. How parts of a model are named is in
`parts`, how its layers are found in `layers`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from instep.optim.parts import What, slots_of

if TYPE_CHECKING:
    from instep.optim.group_plan import GroupPlan, Rules
    from instep.optim.layers import LayerNames

# Keys of a group that no optimizer has to know: torch's own, its schedulers', and those of this library.
_KNOWN = {"params", "name", "param_names", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr"}
_OURS = {"clip_norm", "clip_value"}


class ParamGroups(list[dict[str, Any]]):
    """Groups for a torch optimizer, each with its "params", its "name" and its options; `plan` says how they came about."""

    def __init__(self, groups: Sequence[dict[str, Any]], plan: "GroupPlan") -> None:
        super().__init__(groups)
        self.plan = plan

    def __repr__(self) -> str:
        return str(self.plan)


def param_groups(
    model: nn.Module,
    rules: "Rules | None" = None,
    *,
    lr: float | None = None,
    weight_decay: float | None = None,
    layer_decay: float | None = None,
    layers: "LayerNames | None" = None,
    no_decay: bool | Sequence[What] = False,
    strict: bool = False,
    include_frozen: bool = True,
) -> ParamGroups:
    """Groups with their own options, such that every parameter is in exactly one of them.

    >>> import torch
    >>> model = nn.ModuleDict({"base": nn.Linear(4, 8), "classifier": nn.Linear(8, 3)})
    >>> groups = param_groups(model, {"base": {"lr": 0.01}, "classifier": {"lr": 0.001}}, no_decay=True)
    >>> groups
    group                parameters  count     lr        decay
    base                          1     32   0.01  optimizer's
    base/no decay                 1      8   0.01            0
    classifier                    1     24  0.001  optimizer's
    classifier/no decay           1      3  0.001            0
    >>> optimizer = torch.optim.AdamW(groups, weight_decay=0.1)

    `rules` gives options to parts of the model: names (`base` and all that is in it), patterns (`*.bias`), or modules. Where a
    parameter is under several rules it has the options of all of them; where these disagree the innermost part wins, a plain
    name before a pattern, and a tie is an error. Parameters under no rule are in the group "rest" (with `strict`: an error).

    `lr` and `weight_decay` hold where no rule says otherwise; left out, they are the optimizer's. `no_decay=True` sets the weight
    decay of bias and norm to 0, whatever else is said: parameters of fewer than two dimensions, called bias, or of a norm layer.
    A list says others instead: `no_decay=["*.bias", "embed"]`.

    `layer_decay=0.8` gives the top layer `lr`, the one below 0.8 · `lr`, and so on down; an lr from a rule is taken as it is.
    Layers are found by the order of definition (blocks of a ModuleList or Sequential, what is below and above them), or said from
    the lowest to the top: `layers=["embed", "blocks.*", ("norm", "head")]`.

    A tied parameter is listed once, under its first name. Frozen parameters are in their group too, where nothing moves them
    and from where they train once they are unfrozen; `include_frozen=False` leaves them out.
    The order of the groups is that of the rules, then the rest; in each from the lowest layer to the top.
    """
    from instep.optim.group_plan import plan_groups  # the options of other groups are looked at without it

    plan = plan_groups(
        model,
        rules or {},
        defaults={name: value for name, value in (("lr", lr), ("weight_decay", weight_decay)) if value is not None},
        layer_decay=layer_decay,
        layers=layers,
        no_decay=no_decay,
        strict=strict,
        include_frozen=include_frozen,
    )
    by_name = {slot.name: slot.parameter for slot in slots_of(model)}
    made = [
        {"params": [by_name[name] for name in group.parameters], "name": group.name, **group.options} for group in plan.groups
    ]
    return ParamGroups(made, plan)


def option_notes(optimizer: Optimizer) -> list[str]:
    """What should be said about the groups' options: torch takes any name, also one that its optimizer never looks at."""
    known = _KNOWN | _OURS | set(optimizer.defaults)
    return [
        f"the group {group.get('name', index)!r} has {option}={group[option]!r}, which {type(optimizer).__name__} does not know"
        for index, group in enumerate(optimizer.param_groups)
        for option in group
        if option not in known
    ]
