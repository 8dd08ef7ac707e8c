"""torch's optimizers without torch.compile's machinery, `torch._dynamo`, where nothing is compiled.

torch imports it when the first optimizer is made, and in every `step()`, only so that a compiled function leaves these methods
alone: 1,000 modules, nearly half of the time from the start of a process to its first update, and 90 MB. A process that has not
imported it compiles nothing, so there is nothing to be left alone by. From the first call after it is imported, torch's own code
runs; that first one may itself be traced.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim import optimizer as torch_optimizer

_DYNAMO = "torch._dynamo"
_METHODS = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
_CACHE = "__dynamo_disable"  # where torch keeps the method that torch.compile leaves alone; asked for in every call


def _code(decorate: Any) -> Any:
    """Of the function that this decorator of torch's returns; None where this torch has no such decorator."""
    return None if decorate is None else decorate(lambda: None).__code__


_DISABLED = _code(getattr(torch, "_disable_dynamo", None))
_WITH_GRAD_MODE = _code(getattr(torch_optimizer, "_use_grad_for_differentiable", None))


def spare_dynamo() -> None:
    """Have optimizers made without an import of dynamo, for as long as nobody else imports it."""
    if _DISABLED is None or _DYNAMO in sys.modules:
        return
    for name in _METHODS:
        method = getattr(Optimizer, name)
        inner: Any = getattr(method, "__wrapped__", None)
        if getattr(method, "__code__", None) is _DISABLED and getattr(inner, _CACHE, None) is None:
            setattr(inner, _CACHE, _until_dynamo(method, inner))


def _until_dynamo(method: Callable[..., object], inner: Callable[..., object]) -> Callable[..., object]:
    def call(*args: Any, **kwargs: Any) -> object:
        if _DYNAMO not in sys.modules:
            return inner(*args, **kwargs)
        setattr(inner, _CACHE, None)  # and torch puts its own there; a `del` cannot be traced
        return method(*args, **kwargs)

    return call


def without_dynamo(step: Any) -> Callable[..., object]:
    """The same step of a class of torch's, where its decorator would import dynamo; else the step as it is."""
    if _DYNAMO in sys.modules or _WITH_GRAD_MODE is None or getattr(step, "__code__", None) is not _WITH_GRAD_MODE:
        return step  # type: ignore[no-any-return]

    @functools.wraps(step)
    def call(optimizer: Optimizer, *args: Any, **kwargs: Any) -> object:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(optimizer.defaults["differentiable"])
        try:
            return step.__wrapped__(optimizer, *args, **kwargs)
        finally:
            torch.set_grad_enabled(before)

    return call
