"""The flag `requires_grad`, and names that are taken for it."""

import difflib

from torch import nn

FLAG = "requires_grad"


def is_typo(name: str) -> bool:
    """Whether a name is nearly that of the flag."""
    return name != FLAG and difflib.SequenceMatcher(None, name.lower(), FLAG).ratio() >= 0.85


def has_own_flag(module: nn.Module, name: str) -> bool:
    """Whether the class itself has a flag of that name: set by `__init__`, or an attribute of the class."""
    kinds = type(module).__mro__
    if any(isinstance(vars(kind).get(name), bool) for kind in kinds):
        return True
    return any(name in getattr(getattr(kind, "__init__", None), "__code__", _NOTHING).co_names for kind in kinds)


_NOTHING = (lambda: None).__code__
