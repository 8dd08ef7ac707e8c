"""torch's own schedulers: how one is built, and when it is stepped.

They count for themselves, so they have state; what they make of the learning rate is theirs alone.
"""

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ChainedScheduler, LRScheduler, ReduceLROnPlateau

from instep.errors import DescriptionError
from instep.records import record_class
from instep.text import plural

When = Literal["update", "epoch", "evaluation"]


@record_class
class PerEpoch:
    """A function that builds a scheduler which counts epochs; made by `per_epoch`."""

    f: Callable[..., LRScheduler]


def per_epoch(f: Callable[[Optimizer], LRScheduler] | Callable[[Optimizer, int], LRScheduler]) -> PerEpoch:
    """One of torch's schedulers, stepped at the end of each epoch instead of after each update.

        Trainer(model, …, schedule=per_epoch(lambda optimizer, epochs: CosineAnnealingLR(optimizer, epochs)))

    `f` may also take the optimizer alone: `per_epoch(lambda optimizer: StepLR(optimizer, 30))`.

    >>> import torch
    >>> from instep.schedules import drive
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> halve = per_epoch(lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5))
    >>> driver = drive(halve, optimizer, total_steps=10, epochs=2)
    >>> optimizer.step()
    >>> driver.after_epoch()
    >>> optimizer.param_groups[0]["lr"]
    0.05
    """
    if not callable(f) or isinstance(f, type) or required_parameters(f) not in (1, 2):
        raise DescriptionError(
            f"per_epoch got {named(f)}; give it a function that builds a scheduler: "
            "per_epoch(lambda optimizer, epochs: StepLR(optimizer, 30))."
        )
    return PerEpoch(f)


class SchedulerDrive:
    """Steps one of torch's schedulers after each update that stepped the optimizer, each epoch, or each evaluation."""

    notes: tuple[str, ...] = ()
    momentum: float | None = None

    def __init__(self, scheduler: LRScheduler, when: When) -> None:
        self._scheduler = scheduler
        self._when = when
        self._groups = len(scheduler.optimizer.param_groups)
        self._moves_momentum = when == "update" and getattr(scheduler, "cycle_momentum", False) is True
        self.needs_monitor = when == "evaluation"
        self.monitor_mode: Literal["min", "max"] | None = scheduler.mode if isinstance(scheduler, ReduceLROnPlateau) else None

    def before_update(self, position: int) -> None:
        """Nothing: the scheduler has written its values when it was stepped."""

    def after_update(self) -> None:
        """Steps a scheduler that counts updates."""
        if self._when == "update":
            if self._moves_momentum:
                group = self._scheduler.optimizer.param_groups[0]
                self.momentum = float(group["betas"][0] if "betas" in group else group["momentum"])
            self._step()

    def after_epoch(self) -> None:
        """Steps a scheduler that counts epochs."""
        if self._when == "epoch":
            with warnings.catch_warnings():
                # Every update of the first epoch may have been skipped. The order is still the right one.
                warnings.filterwarnings("ignore", r"Detected call of `lr_scheduler.step\(\)` before", UserWarning)
                self._step()

    def after_evaluation(self, monitored: float) -> None:
        """Steps a ReduceLROnPlateau with the value that it watches."""
        if self._when == "evaluation":
            self._step(monitored)

    def _step(self, *monitored: float) -> None:
        try:
            self._scheduler.step(*monitored)  # type: ignore[arg-type]  # the base class calls it an epoch
        except (KeyError, ValueError, RuntimeError) as error:
            now = len(self._scheduler.optimizer.param_groups)
            if now == self._groups:
                raise
            name = type(self._scheduler).__name__
            raise DescriptionError(
                f"{name} was built for {plural(self._groups, 'parameter group')} and the optimizer has {now} now; use a schedule "
                "that is a function of position, like instep.OneCycle or those of instep.schedules: groups may join those later."
            ) from error

    def state_dict(self) -> dict[str, Any]:
        """A copy of the scheduler's own state."""
        return copy.deepcopy(self._scheduler.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts the scheduler where it was when `state` was saved."""
        if not state:
            name = type(self._scheduler).__name__
            raise DescriptionError(f"schedule= is torch's {name}, and there is no state of one to go on from; start a new run.")
        self._scheduler.load_state_dict(copy.deepcopy(dict(state)))  # some of torch's take keys out of what they are given


def build_scheduler(f: Callable[..., object], optimizer: Optimizer, total_steps: int) -> SchedulerDrive:
    """The drive of a scheduler that counts updates, or of one that waits for a plateau."""
    scheduler = _built(f(optimizer, total_steps), optimizer)
    _require_length(scheduler, total_steps, "updates", "total_steps")
    return SchedulerDrive(scheduler, "evaluation" if isinstance(scheduler, ReduceLROnPlateau) else "update")


def build_per_epoch(per_epoch: PerEpoch, optimizer: Optimizer, epochs: int | None) -> SchedulerDrive:
    """The drive of a scheduler that counts epochs."""
    if required_parameters(per_epoch.f) == 1:
        scheduler = _built(per_epoch.f(optimizer), optimizer)
    elif epochs is None:
        raise DescriptionError(
            "per_epoch(f) asks for the number of epochs, which is not known here; use epochs=, "
            "or a function of the optimizer alone: per_epoch(lambda optimizer: StepLR(optimizer, 30))."
        )
    else:
        scheduler = _built(per_epoch.f(optimizer, epochs), optimizer)
    if isinstance(scheduler, ReduceLROnPlateau):
        raise DescriptionError(
            "ReduceLROnPlateau is stepped after each evaluation, not by epochs; pass it without per_epoch: "
            "schedule=lambda optimizer, total_steps: ReduceLROnPlateau(optimizer)."
        )
    if epochs is not None:
        _require_length(scheduler, epochs, "epochs", "epochs")
    return SchedulerDrive(scheduler, "epoch")


def _built(scheduler: object, optimizer: Optimizer) -> LRScheduler:
    if not isinstance(scheduler, LRScheduler):
        raise DescriptionError(
            f"schedule= is a function of (optimizer, total_steps), and it returned {named(scheduler)}; return one of "
            "torch.optim.lr_scheduler's. A function of position is passed as it is: schedule=OneCycle(max_lr=0.1)."
        )
    if scheduler.optimizer is not optimizer:
        raise DescriptionError(
            f"schedule= built a {type(scheduler).__name__} on another optimizer, so this run's would never change; "
            "use the optimizer that the function is given: lambda optimizer, total_steps: …"
        )
    return scheduler


def _require_length(scheduler: LRScheduler, steps: int, unit: str, argument: str) -> None:
    """That a scheduler which ends, as OneCycleLR does, does not end before the run: torch raises in the middle of it."""
    for part in (scheduler, *(getattr(scheduler, "_schedulers", ()) if isinstance(scheduler, ChainedScheduler) else ())):
        ends = getattr(part, "total_steps", None)
        if isinstance(ends, int) and ends < steps:
            raise DescriptionError(
                f"{type(part).__name__} ends after {ends:,} steps, and the run has {steps:,} {unit}; build it with {argument}, "
                "which the function is given."
            )


def required_parameters(f: Callable[..., object]) -> int | None:
    """How many positional arguments `f` cannot be called without; None where Python cannot tell."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)


def named(thing: object) -> str:
    """How a message names what was passed: short values as they are, the rest by type."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    if thing is None or isinstance(thing, str | int | float):
        return repr(thing)
    return f"a {type(thing).__name__}"
