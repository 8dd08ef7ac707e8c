"""Names in the user's functions: what stands there while they run, and in which object a module was put away."""

import dis
import inspect
from collections.abc import Iterable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torch import nn

from instep.doctor.sites import Locator

DEBUGGING = frozenset({"set_trace", "breakpoint"})
ASKING = frozenset({"locals", "vars", "eval", "exec", "dir"}) | DEBUGGING


def local_names(frame: FrameType) -> dict[str, Any]:
    """The names of a frame. Python keeps what it is asked for with the frame, and every tensor in it alive: it is emptied again,
    and left alone where the function may have asked for it itself."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return dict(frame.f_locals)
    if not ASKING.isdisjoint(code.co_names) and _asks(code):
        return {}
    kept = frame.f_locals
    names = dict(kept)
    if type(kept) is dict:
        kept.clear()
    return names


@lru_cache(maxsize=1024)
def _asks(code: CodeType) -> bool:
    """Whether a function may ask for its own names: by Python's `eval`, not by `model.eval()`."""
    if not DEBUGGING.isdisjoint(code.co_names):
        return True
    return any(step.argval in ASKING for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


def _users_frame(locator: Locator) -> FrameType | None:
    """That of the user's innermost function."""
    return next((frame for frame in locator.frames() if locator.is_users(frame.f_code.co_filename)), None)


def holder_of(module: nn.Module, locator: Locator) -> tuple[str, str] | None:
    """(class, attribute) of the module whose method calls this one and keeps it where modules are not registered; else None.

    A method other than forward, such as a training step, is on no stack of modules: its `self` is asked.
    """
    caller = _users_frame(locator)
    holder = local_names(caller).get("self") if caller is not None else None
    if not isinstance(holder, nn.Module) or any(part is module for part in holder.modules()):
        return None
    for prefix, part in holder.named_modules():
        for name, value in vars(part).items():
            if name not in ("_parameters", "_buffers", "_modules") and any(each is module for each in held(value)):
                return type(holder).__name__, f"{prefix}.{name}" if prefix else name
    return None


def held(value: Any) -> Iterable[Any]:
    """What a plain list, tuple or dictionary holds."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, (list, tuple)) else ()


def method_owner(locator: Locator) -> nn.Module | None:
    """The module whose method the user's innermost function is; None where it is something else."""
    caller = _users_frame(locator)
    owner = local_names(caller).get("self") if caller is not None else None
    return owner if isinstance(owner, nn.Module) else None


class MethodPlace(NamedTuple):
    """A place in a method of a module, and in which module it runs."""

    code: CodeType
    offset: int  # in its bytecode: a line may have several calls
    owner: int  # id of the module


def method_place(locator: Locator) -> MethodPlace | None:
    """Where the user's innermost function stands; None where it is no method of a module."""
    caller = _users_frame(locator)
    owner = local_names(caller).get("self") if caller is not None else None
    return MethodPlace(caller.f_code, caller.f_lasti, id(owner)) if caller is not None and isinstance(owner, nn.Module) else None
