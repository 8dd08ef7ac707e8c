"""freeze, unfreeze, frozen: parts of a model that stay put, whoever calls `train()`.

A frozen parameter takes no gradient and has none, so no optimizer decays it or moves it by an old momentum. A frozen module stays
in eval mode: its BatchNorm statistics do not move and its dropout is off.

Everything is kept in the modules themselves, so it goes along through deepcopy and pickling, and is gone with them:
a frozen module has a `train` of its own (`_Hold`) that shadows the class's, and the module that owns a frozen parameter has
a dictionary of what `requires_grad` was before. Neither shows in a state_dict, and forward runs as before (no hooks).
"""

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from instep.errors import DescriptionError, give_notice
from instep.optim.parts import Part, Slot, What, modules_of, part_of, slots_of
from instep.text import columns, listed

_WAS = "_instep_was_trainable"  # in the owner of a frozen parameter: {its attribute: requires_grad before}
_WHOLE = Part("the model", ("",), is_pattern=False)


@dataclass(frozen=True)
class Frozen:
    """What does not train in a model; print it to see a table."""

    modules: tuple[str, ...]  # the outermost that stay in eval mode; "" is the model itself
    parameters: tuple[str, ...]  # frozen by freeze()
    by_hand: tuple[str, ...]  # frozen by somebody else's requires_grad=False
    frozen_count: int  # of numbers in both
    trainable_count: int

    def __bool__(self) -> bool:
        return bool(self.modules or self.parameters or self.by_hand)

    def __str__(self) -> str:
        rows = [
            *([f"{name or 'the whole model'}", "stays in eval mode"] for name in self.modules),
            *([name, "no gradient"] for name in self.parameters if not any(_is_in(name, outer) for outer in self.modules)),
            *([name, "no gradient, set by hand"] for name in self.by_hand),
        ]
        table = columns(["frozen", "how"], rows, left=("frozen", "how")) if rows else []
        return "\n".join([*table, f"{self.frozen_count:,} numbers frozen, {self.trainable_count:,} trainable"])


def freeze(model: nn.Module, *what: What) -> Frozen:
    """Freeze parts of a model, by name, pattern or module; the whole model where none is named. Returns what is frozen now.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    >>> print(freeze(model, "0", "1"))
    frozen  how
    0       stays in eval mode
    1       stays in eval mode
    56 numbers frozen, 27 trainable
    >>> [module.training for module in model.train()]
    [False, False, True]

    A module is frozen with all that is in it. A pattern that matches parameters alone (`*.weight`) leaves the modes as they are.
    A tied parameter is frozen under all its names. Gradients still flow through a frozen part to what is below it.
    Make an optimizer anew that remembers more than each parameter's own past, like LBFGS: it steps along old directions.
    """
    modules, slots = _selected(model, what)
    was = _was_trainable(model)
    plan = [(slot, was.get(id(slot.parameter), slot.parameter.requires_grad)) for slot in slots]
    holds = [(module, _Hold(module, module.training)) for _, module in modules if not is_frozen(module)]
    for module, _ in holds:
        if module.training:
            module.eval()
    for module, hold in holds:
        module.__dict__["train"] = hold
    for slot, trainable in plan:
        slot.owner.__dict__.setdefault(_WAS, {}).setdefault(slot.attribute, trainable)
        slot.parameter.requires_grad_(False)
        slot.parameter.grad = None
    return frozen(model)


def unfreeze(model: nn.Module, *what: What) -> Frozen:
    """Undo `freeze` for parts of a model, or all of it; returns what is frozen still.

    A parameter is trainable again if it was before it was frozen. A module is in train mode again if it was before, or if
    `model.train()` was called since, unless the model around it is in eval mode.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    >>> _ = freeze(model, "0", "1")
    >>> print(unfreeze(model, "1"))
    frozen  how
    0       stays in eval mode
    40 numbers frozen, 27 trainable
    """
    modules, slots = _selected(model, what)
    by_name = dict(modules_of(model))
    modes = [(module, _mode_after(name, module, by_name)) for name, module in modules]
    released = [slot for slot in slots if slot.attribute in slot.owner.__dict__.get(_WAS, {})]
    if not released and not any(is_frozen(module) for module, _ in modes):
        _say_by_hand(slots)
    for module, _ in modes:
        if is_frozen(module):
            del module.__dict__["train"]
    for module, mode in modes:  # from the outermost inwards, so that each ends in its own mode
        if module.training != mode:
            module.train(mode)
    restored = _was_trainable(model)
    for slot in released:
        _forget(slot)
    still_frozen = _was_trainable(model)
    for slot in released:
        if id(slot.parameter) not in still_frozen:  # under another name
            slot.parameter.requires_grad_(restored[id(slot.parameter)])
    return frozen(model)


def frozen(model: nn.Module) -> Frozen:
    """What is frozen in a model, and how many numbers train; parameters frozen by hand are listed apart.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    >>> bool(frozen(model)), frozen(model).trainable_count
    (False, 67)
    """
    held = dict.fromkeys(name for name, module in modules_of(model) if is_frozen(module))
    was = _was_trainable(model)
    slots = {id(slot.parameter): slot for slot in reversed(slots_of(model))}  # each parameter once, under its first name
    still = [slot for slot in reversed(slots.values()) if not slot.parameter.requires_grad]
    frozen_count = sum(slot.parameter.numel() for slot in still)
    return Frozen(
        modules=tuple(name for name in held if not any(_is_in(name, outer) for outer in held if outer != name)),
        parameters=tuple(slot.name for slot in still if id(slot.parameter) in was),
        by_hand=tuple(slot.name for slot in still if id(slot.parameter) not in was),
        frozen_count=frozen_count,
        trainable_count=sum(slot.parameter.numel() for slot in slots.values()) - frozen_count,
    )


def frozen_wishes(model: nn.Module) -> Callable[[], None]:
    """A way back to the modes that frozen modules will have once they are unfrozen; what `train()` tells them since is lost."""
    holds = [hold for module in model.modules() if isinstance(hold := module.__dict__.get("train"), _Hold)]
    wishes = [hold.wants for hold in holds]

    def put_back() -> None:
        for hold, wants in zip(holds, wishes, strict=True):
            hold.wants = wants

    return put_back


def is_frozen(module: nn.Module) -> bool:
    """Whether this very module is held in eval mode by freeze()."""
    return isinstance(module.__dict__.get("train"), _Hold)


class _Hold:
    """The `train` of a frozen module: it stays in eval mode, and what is in it and not frozen goes along."""

    def __init__(self, module: nn.Module, wants: bool) -> None:
        self._module = weakref.ref(module)  # a module that held itself would be freed late
        self.wants = wants  # whether it trained before, or was told to since

    def __call__(self, mode: bool = True) -> nn.Module:
        module = self._held()
        self.wants = self.wants or mode
        module.training = False
        for child in module.children():
            child.train(mode)
        return module

    def _held(self) -> nn.Module:
        module = self._module()
        if module is None:
            raise ReferenceError("the frozen module that this train() belongs to is gone.")
        return module

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Hold":
        return _Hold(copy.deepcopy(self._held(), memo), self.wants)

    def __getstate__(self) -> dict[str, Any]:
        return {"module": self._held(), "wants": self.wants}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._module = weakref.ref(state["module"])
        self.wants = state["wants"]


def _selected(model: nn.Module, what: tuple[What, ...]) -> tuple[list[tuple[str, nn.Module]], list[Slot]]:
    """The modules and the parameters that `what` stands for."""
    if not isinstance(model, nn.Module):
        raise DescriptionError(f"model is a {type(model).__name__}; pass a torch.nn.Module.")
    parts = [part_of(model, one) for one in what] or [_WHOLE]
    modules = [(name, module) for name, module in modules_of(model) if any(part.anchor(name) is not None for part in parts)]
    return modules, [slot for slot in slots_of(model) if any(part.anchor(slot.name) is not None for part in parts)]


def _mode_after(name: str, module: nn.Module, by_name: dict[str, nn.Module]) -> bool:
    hold = module.__dict__.get("train")
    if not isinstance(hold, _Hold):
        return module.training
    while name:
        name = name.rpartition(".")[0]
        if not is_frozen(by_name[name]):
            return hold.wants and by_name[name].training
    return hold.wants


def _was_trainable(model: nn.Module) -> dict[int, bool]:
    """What `requires_grad` was before, for every frozen parameter, by its identity."""
    slots = slots_of(model)
    return {
        id(slot.parameter): slot.owner.__dict__[_WAS][slot.attribute]
        for slot in slots
        if slot.attribute in slot.owner.__dict__.get(_WAS, {})
    }


def _forget(slot: Slot) -> None:
    was = slot.owner.__dict__.get(_WAS, {})
    was.pop(slot.attribute, None)  # a module that is used twice has been here before
    if not was:
        slot.owner.__dict__.pop(_WAS, None)


def _say_by_hand(slots: list[Slot]) -> None:
    by_hand = [slot.name for slot in slots if not slot.parameter.requires_grad]
    if by_hand:
        give_notice(
            f"unfreeze() found nothing that freeze() froze; {listed(by_hand, most=4)} had requires_grad=False set by hand, and "
            "keep it. Use requires_grad_(True) for these."
        )


def _is_in(name: str, outer: str) -> bool:
    return not outer or name == outer or name.startswith(f"{outer}.")
