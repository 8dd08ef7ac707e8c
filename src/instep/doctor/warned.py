"""Warnings of functions that are patched: they are about the line that called the patch, as they were about it before.

A function of Python's says how many frames above it the line stands: those of a patch are left out. A built-in has no frame of
its own, so Python takes the frame that calls it for the place of a warning: that of the patch.
"""

import sys
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

UNSEEN = "<instep: importlib _bootstrap>"  # a file whose frames Python leaves out when it looks for the line of a warning
_ALWAYS: Any = ("always", None, Warning, None, 0)


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function or method, with frames that are left out."""
    plain: Any = getattr(function, "__func__", function)
    plain.__code__ = plain.__code__.replace(co_filename=UNSEEN)
    return function


def is_builtin(function: Any) -> bool:
    return not isinstance(function, FunctionType)


def call_builtin(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], unseen: str) -> Any:
    """Call it for the function that called the caller of this one; `unseen` is the file of frames that are left out."""
    module: Any = warnings
    caught: list[Any] = []
    filters, show = module.filters, module._showwarnmsg
    module.filters, module._showwarnmsg = [_ALWAYS], caught.append
    try:
        return function(*args, **kwargs)
    finally:
        module.filters, module._showwarnmsg = filters, show
        for each in caught:
            _warn_again(each, unseen)


def _warn_again(warning: Any, unseen: str) -> None:
    frame: Any = sys._getframe(2)
    if warning.filename not in (unseen, __file__):  # a function of Python's that the built-in has called
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return
    while frame.f_back is not None and frame.f_code.co_filename in (unseen, __file__):
        frame = frame.f_back
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        warning.message, warning.category, frame.f_code.co_filename, frame.f_lineno, names.get("__name__"), registry
    )
