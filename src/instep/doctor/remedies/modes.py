"""Remedies of modes: a module is in another mode while it is called, and as it was afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from instep.doctor.curves import wrap
from instep.doctor.remedies import Fix


def evaluate(fix: Fix) -> None:
    """Calls at the line of the finding run in eval mode; not those that are trained on, which a helper may make there too."""
    graph = fix.evidence.get("with_graph")
    _call_in_mode(fix, False, lambda module: module.training and (graph is None or torch.is_grad_enabled() == graph))


def train(fix: Fix) -> None:
    """Calls with gradient at the line of the finding run in train mode."""
    _call_in_mode(fix, True, lambda module: torch.is_grad_enabled() and not module.training)


def _call_in_mode(fix: Fix, mode: bool, is_wrong: Callable[[nn.Module], bool]) -> None:
    depth = [0]

    def around(original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        depth[0] += 1
        try:
            if depth[0] > 1 or not is_wrong(module) or not fix.is_here():
                return original(module, *args, **kwargs)
            fix.count += 1
            with _in_mode(list(module.modules()), mode):
                return original(module, *args, **kwargs)
        finally:
            depth[0] -= 1

    wrap(nn.Module, "__call__", around)


@contextmanager
def _in_mode(modules: list[nn.Module], mode: bool) -> Iterator[None]:
    before = [module.training for module in modules]
    for module in modules:
        module.training = mode
    try:
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training


def follow(fix: Fix) -> None:
    """Dropout inside a module in eval mode drops nothing."""
    called: list[nn.Module] = []

    def around_call(original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        called.append(module)
        try:
            return original(module, *args, **kwargs)
        finally:
            called.pop()

    def around_dropout(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if called and not called[0].training and _is_active(args, kwargs):
            fix.count += 1
            args, kwargs = args[:2], {**kwargs, "training": False}
        return original(*args, **kwargs)

    wrap(nn.Module, "__call__", around_call)
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        wrap(functional, name, around_dropout)


def _is_active(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return bool(args[2]) if len(args) > 2 else bool(kwargs.get("training", True))


def freeze_batchnorm(fix: Fix) -> None:
    """BatchNorm whose weights are all frozen is called in eval mode."""

    def around(original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        own = list(module.parameters(recurse=False)) if isinstance(module, _BatchNorm) and module.training else []
        if not own or any(parameter.requires_grad for parameter in own):
            return original(module, *args, **kwargs)
        fix.count += 1
        with _in_mode([module], False):
            return original(module, *args, **kwargs)

    wrap(nn.Module, "__call__", around)


def switch_batch_first(fix: Fix) -> None:
    """Layers of that kind and that setting get the other one, while they are called."""

    def around(original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        wrong = bool(fix.evidence["batch_first"])
        if type(module).__name__ != fix.evidence["layer"] or getattr(module, "batch_first", None) is not wrong:
            return original(module, *args, **kwargs)
        fix.count += 1
        setattr(module, "batch_first", not wrong)  # noqa: B010  # which few modules have
        try:
            return original(module, *args, **kwargs)
        finally:
            setattr(module, "batch_first", wrong)  # noqa: B010

    wrap(nn.Module, "__call__", around)
