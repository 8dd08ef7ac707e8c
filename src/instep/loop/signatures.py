"""Whether what a user passed can be called as it will be called: said before the first step, with both signatures."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from instep.errors import DescriptionError


def require_call(argument: str, function: Callable[..., Any], called: tuple[str, ...], advice: str) -> None:
    """That `function`, passed as `argument`, takes positional arguments `called`; nothing where Python cannot tell."""
    own = _signature(function)
    if own is None:
        return
    try:
        own.bind(*called)
    except TypeError:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise DescriptionError(
            f"{argument}= is called as {argument}({', '.join(called)}), and {name} takes {_in_words(own)}; {advice}."
        ) from None


def second_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the second parameter of a function."""
    own = _signature(function)
    names = [] if own is None else list(own.parameters)
    return names[1] if len(names) > 1 else None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function.forward if isinstance(function, nn.Module) else function)
    except (TypeError, ValueError):
        return None


def _in_words(own: inspect.Signature) -> str:
    parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in own.parameters.values()]
    return str(own.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
