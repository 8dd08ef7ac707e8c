"""Remedies of schedules: when a scheduler steps, and what it is told."""

import weakref
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from instep.doctor.curves import wrap
from instep.doctor.remedies import Fix

PER_UPDATE = 0.7  # steps of a scheduler for each of its optimizer's, from which on it counts as stepped with every update
Step = Callable[[], Any]


def change_unit(fix: Fix) -> None:
    """A schedule that was stepped with every update is stepped once a pass over the data, and the other way round."""
    if fix.evidence["scheduler_steps"] >= PER_UPDATE * fix.evidence["optimizer_steps"]:
        _step_each_pass(fix)
    else:
        _step_each_update(fix)


def _step_each_pass(fix: Fix) -> None:
    """When a loader begins anew during whose last pass the scheduler was stepped."""
    reading: list[int] = [0]  # the loader that began last
    waiting: dict[int, tuple[int, Step]] = {}  # by scheduler: the loader, and the step

    def around_step(original: Callable[..., Any], scheduler: LRScheduler, *args: Any, **kwargs: Any) -> Any:
        if not fix.is_here():
            return original(scheduler, *args, **kwargs)
        waiting[id(scheduler)] = reading[0], lambda: original(scheduler, *args, **kwargs)
        return None

    def around_iter(original: Callable[..., Any], loader: Any, *args: Any, **kwargs: Any) -> Any:
        for key, (wanted, step) in list(waiting.items()):
            if wanted == id(loader):
                del waiting[key]
                step()
                fix.count += 1
        reading[0] = id(loader)
        return original(loader, *args, **kwargs)

    _wrap_steps(around_step)
    wrap(DataLoader, "__iter__", around_iter)


def _step_each_update(fix: Fix) -> None:
    made: list[tuple[weakref.ref[Any], Step]] = []  # the optimizer and the step of each scheduler of that kind

    def around_init(original: Callable[..., Any], scheduler: LRScheduler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        result = original(scheduler, optimizer, *args, **kwargs)
        if type(scheduler).__name__ == fix.evidence["scheduler"]:
            made.append((weakref.ref(optimizer), lambda: _own(type(scheduler), unwrapped)(scheduler)))
        return result

    def around_step(original: Callable[..., Any], scheduler: LRScheduler, *args: Any, **kwargs: Any) -> Any:
        return None if fix.is_here() else original(scheduler, *args, **kwargs)

    def after_step(optimizer: Optimizer, *_: Any) -> None:
        for owner, step in made:
            if owner() is optimizer:
                step()
                fix.count += 1

    unwrapped: dict[type, Callable[..., Any]] = {kind: kind.step for kind in _kinds()}
    wrap(LRScheduler, "__init__", around_init)
    _wrap_steps(around_step)
    register_optimizer_step_post_hook(after_step)


def _own(kind: type, steps: dict[type, Callable[..., Any]]) -> Callable[..., Any]:
    """The `step` that a kind of scheduler had before it was wrapped."""
    return next(steps[each] for each in kind.__mro__ if each in steps)


def wait_for_optimizer(fix: Fix) -> None:
    """Steps of a scheduler whose optimizer has made none are left out; what a scheduler does when it is made is not one."""
    stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
    register_optimizer_step_post_hook(lambda optimizer, *_: stepped.add(optimizer))

    def around(original: Callable[..., Any], scheduler: LRScheduler, *args: Any, **kwargs: Any) -> Any:
        if scheduler._is_initial or not fix.is_here() or scheduler.optimizer in stepped:
            return original(scheduler, *args, **kwargs)
        fix.count += 1
        return None

    _wrap_steps(around)


def divide_by_rate(fix: Fix) -> None:
    """What the functions of LambdaLR give is divided by the learning rate that it will be multiplied with."""

    def around(
        original: Callable[..., Any], scheduler: Any, optimizer: Optimizer, lr_lambda: Any, *args: Any, **kwargs: Any
    ) -> Any:
        rates = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        given = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * len(rates)
        fix.count += 1
        return original(scheduler, optimizer, [_divided(f, rate) for f, rate in zip(given, rates, strict=True)], *args, **kwargs)

    wrap(LambdaLR, "__init__", around)


def _divided(function: Callable[[int], float], rate: float) -> Callable[[int], float]:
    return lambda epoch: function(epoch) / rate


def turn_round(fix: Fix) -> None:
    """ReduceLROnPlateau of the mode that was found gets the other one."""

    def around(original: Callable[..., Any], scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(scheduler, *args, **kwargs)
        if scheduler.mode == fix.evidence["mode"]:
            fix.count += 1
            scheduler.mode = "max" if scheduler.mode == "min" else "min"
            scheduler._init_is_better(scheduler.mode, scheduler.threshold, scheduler.threshold_mode)
            scheduler._reset()
        return result

    wrap(ReduceLROnPlateau, "__init__", around)


def _wrap_steps(around: Callable[..., Any]) -> None:
    for kind in _kinds():
        wrap(kind, "step", around)


def _kinds() -> list[type[LRScheduler]]:
    """The schedulers that have a `step` of their own."""
    found, pending = [], [LRScheduler]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if "step" in vars(kind) and kind is not ReduceLROnPlateau:
            found.append(kind)
    return found
