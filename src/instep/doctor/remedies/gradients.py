"""Remedies of gradients: when they are cleared, clipped, divided and used."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from instep.doctor.curves import wrap
from instep.doctor.remedies import Fix


def clear(fix: Fix) -> None:
    """Before a backward, gradients are cleared that a step has used."""

    def cleared(_: Optimizer) -> None:
        fix.count += 1

    _clear_used(cleared)


def _clear_used(then: Callable[[Optimizer], None]) -> None:
    stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
    clear_gradients = Optimizer.zero_grad  # torch's own
    register_optimizer_step_post_hook(lambda optimizer, *_: stepped.add(optimizer))

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        for optimizer in list(stepped):
            if _parameters(optimizer, with_gradient=True):
                clear_gradients(optimizer)
                then(optimizer)
        stepped.clear()
        return original(*args, **kwargs)

    wrap(Tensor, "backward", around)


def clear_later(fix: Fix) -> None:
    """`zero_grad()` at the line of the finding does nothing; what a step has used is cleared before the next backward."""

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if fix.is_here():
            fix.count += 1
            return None
        return original(*args, **kwargs)

    for kind in (Optimizer, *_subclasses(Optimizer)):
        if "zero_grad" in vars(kind):
            wrap(kind, "zero_grad", around)
    wrap(torch.nn.Module, "zero_grad", around)
    _clear_used(lambda _: None)


def step_later(fix: Fix) -> None:
    """A step at the line of the finding is made when the next backward is done."""
    waiting: list[Callable[[], Any]] = []

    def around_step(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not fix.is_here():
            return original(*args, **kwargs)
        waiting.append(lambda: original(*args, **kwargs))
        return None

    def around_backward(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        while waiting:
            waiting.pop(0)()
            fix.count += 1
        return result

    for kind in _subclasses(Optimizer):
        if "step" in vars(kind):
            wrap(kind, "step", around_step)
    wrap(Tensor, "backward", around_backward)


def clip_before_step(fix: Fix) -> None:
    """Clipping at the line of the finding only remembers what to clip; each step clips before it, what it will use."""
    wanted: dict[str, tuple[list[Tensor], Callable[[], Any]]] = {}

    def around(original: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        if not fix.is_here():
            return original(tensors, *args, **kwargs)
        wanted[original.__name__] = (tensors, lambda: original(tensors, *args, **kwargs))
        gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
        return torch.nn.utils.get_total_norm(gradients) if original.__name__ == "clip_grad_norm_" else None

    def before_step(optimizer: Optimizer, *_: Any) -> None:
        own = {id(tensor) for tensor in _parameters(optimizer)}
        for tensors, clip in list(wanted.values()):
            if any(id(tensor) in own for tensor in tensors):
                clip()
                fix.count += 1

    for name in ("clip_grad_norm_", "clip_grad_value_"):
        wrap(clip_grad, name, around)
        setattr(torch.nn.utils, name, getattr(clip_grad, name))
    register_optimizer_step_pre_hook(before_step)


def divide(fix: Fix) -> None:
    """A backward at the line of the finding begins with 1/n in place of 1."""
    share = 1.0 / float(fix.evidence["backwards_per_step"])

    def around(original: Callable[..., Any], loss: Tensor, *args: Any, **kwargs: Any) -> Any:
        if fix.is_here() and not args and kwargs.get("gradient") is None and loss.numel() == 1:
            fix.count += 1
            kwargs["gradient"] = torch.full_like(loss, share)
        return original(loss, *args, **kwargs)

    wrap(Tensor, "backward", around)


def _parameters(optimizer: Optimizer, *, with_gradient: bool = False) -> list[Tensor]:
    every: Iterable[Tensor] = (tensor for group in optimizer.param_groups for tensor in group["params"])
    return [tensor for tensor in every if not with_gradient or tensor.grad is not None]


def _subclasses(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [each for child in children for each in (child, *_subclasses(child))]
