"""drive: whatever was passed as `schedule=`, made ready to write its values into the optimizer's groups.

Everything is checked here, before the first update. The shapes are in the other files; torch's schedulers in `scheduler`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from instep.errors import DescriptionError
from instep.schedules.constant import Constant
from instep.schedules.function import FromFunction
from instep.schedules.plateau import Plateau, PlateauDrive
from instep.schedules.schedule import Curve, Schedule, starting_lr
from instep.schedules.scheduler import PerEpoch, build_per_epoch, build_scheduler, named, required_parameters
from instep.text import plural

AnySchedule = Schedule | Plateau | PerEpoch | Callable[[int], float] | Callable[[Optimizer, int], LRScheduler] | None
"""What `schedule=` may be: a type, for annotations."""

EXAMPLES = (
    "use a function of position (schedule=OneCycle(max_lr=0.1), schedule=lambda position: 0.1 / (1 + position)), "
    "or one that builds a scheduler (schedule=lambda optimizer, total_steps: CosineAnnealingLR(optimizer, total_steps))"
)


class Drive(Protocol):
    """What a training loop calls, also one of your own.

        driver = drive(OneCycle(max_lr=0.1), optimizer, total_steps=1000)
        for position, (x, y) in enumerate(batches):
            driver.before_update(position)
            …
            optimizer.step()
            driver.after_update()

    Each does nothing where the schedule has nothing to do there, so all may be called with any schedule.

    >>> import torch
    >>> from instep.schedules import Step
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> driver: Drive = drive(Step(every=2, factor=0.5), optimizer, total_steps=4)
    >>> driver.needs_monitor
    False
    """

    notes: tuple[str, ...]  # what the plan of the run should say
    needs_monitor: bool  # `after_evaluation` must be called
    monitor_mode: Literal["min", "max"] | None  # which way the monitored value is taken to improve; None where none is needed
    momentum: float | None  # that of the last update, where the schedule moves it

    def before_update(self, position: int) -> None:
        """`position` counts the updates made so far, skipped ones left out."""

    def after_update(self) -> None:
        """Only where the optimizer really stepped."""

    def after_epoch(self) -> None:
        """At the end of each epoch."""

    def after_evaluation(self, monitored: float) -> None:
        """After each evaluation, with the value that the run monitors."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to hold: nothing for functions of position."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts the schedule where it was when `state` was saved."""


def drive(schedule: AnySchedule, optimizer: Optimizer, *, total_steps: int, epochs: int | None = None) -> Drive:
    """The drive of a schedule on an optimizer, for a run of `total_steps` updates; `epochs` is for `per_epoch` alone.

    >>> import torch
    >>> from instep.schedules import Step
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> driver = drive(Step(every=2, factor=0.5), optimizer, total_steps=4)
    >>> driver.before_update(2)
    >>> optimizer.param_groups[0]["lr"]
    0.05
    """
    if not isinstance(optimizer, Optimizer):
        raise DescriptionError(f"optimizer is a {type(optimizer).__name__}; pass a torch.optim.Optimizer.")
    if not isinstance(total_steps, int) or isinstance(total_steps, bool) or total_steps < 1:
        raise DescriptionError(f"total_steps={total_steps!r} is not a number of updates; use a whole number from 1 on.")
    if schedule is None or isinstance(schedule, Constant):
        return StillDrive()
    if isinstance(schedule, Schedule):
        return PositionDrive(schedule, optimizer, total_steps)
    if isinstance(schedule, Plateau):
        return PlateauDrive(schedule, optimizer)
    if isinstance(schedule, PerEpoch):
        return build_per_epoch(schedule, optimizer, epochs)
    _check_callable(schedule)
    parameters = required_parameters(schedule)
    if parameters == 1:
        return PositionDrive(FromFunction(schedule), optimizer, total_steps)  # type: ignore[arg-type]  # told apart by the count
    if parameters == 2:
        return build_scheduler(schedule, optimizer, total_steps)
    raise DescriptionError(
        f"schedule= is {named(schedule)} with {'unknown' if parameters is None else parameters} parameters; take one, "
        "(position), to give the learning rate, or two, (optimizer, total_steps), to build one of torch's schedulers."
    )


def _check_callable(schedule: object) -> None:
    if isinstance(schedule, LRScheduler):
        name = type(schedule).__name__
        raise DescriptionError(
            f"schedule= is a {name} that is built already; pass the function that builds it, so that it gets the run's optimizer "
            f"and length: schedule=lambda optimizer, total_steps: {name}(optimizer, …)."
        )
    if isinstance(schedule, type) and issubclass(schedule, LRScheduler):
        name = schedule.__name__
        raise DescriptionError(
            f"schedule= is the class {name}; pass a function that builds one: "
            f"schedule=lambda optimizer, total_steps: {name}(optimizer, …)."
        )
    if isinstance(schedule, type) and issubclass(schedule, Schedule | Plateau):
        raise DescriptionError(f"schedule= is the class {schedule.__name__}; call it: schedule={schedule.__name__}(…).")
    if not callable(schedule) or isinstance(schedule, type):
        raise DescriptionError(f"schedule= is {named(schedule)}, which is no schedule; {EXAMPLES}.")


class StillDrive:
    """Keeps the optimizer's values as they are."""

    notes: tuple[str, ...] = ()
    needs_monitor = False
    monitor_mode: Literal["min", "max"] | None = None
    momentum: float | None = None

    def before_update(self, position: int) -> None:
        """Nothing."""

    def after_update(self) -> None:
        """Nothing."""

    def after_epoch(self) -> None:
        """Nothing."""

    def after_evaluation(self, monitored: float) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Empty: there is no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises where there is one: another schedule wrote it."""
        if state:
            raise DescriptionError(
                "there is the state of one of torch's schedulers to go on from, and schedule= is none of those; "
                "use the schedule that the run was begun with, or start a new run."
            )


class PositionDrive(StillDrive):
    """Writes a function of position into the groups before each update.

    The learning rate that a group starts from is kept in it under torch's own name, `initial_lr`: so it goes with the optimizer
    into a checkpoint, and a group that joined later has it again on resume.
    """

    def __init__(
        self, schedule: Schedule, optimizer: Optimizer, total_steps: int, *, begin: int = 0, groups_then: int | None = None
    ) -> None:
        groups = optimizer.param_groups[:groups_then]  # the others joined after the schedule had begun
        starts = [starting_lr(group) for group in groups]
        bases = schedule.bases(starts)
        self._schedule, self._total, self._begin = schedule, total_steps, begin
        self._curve_of: dict[float, Curve] = {}  # groups with the same base share a curve
        self._curves = [self._curve(base) for base in bases]
        self._momentum = schedule.momentum_curve(total_steps)
        self._largest = max(zip(starts, bases, strict=True))  # a group that joins later has its base in the ratio of this one's
        self.notes = tuple(schedule.notes(groups, total_steps))
        self._optimizer = optimizer
        for group, start in zip(groups, starts, strict=True):
            group["initial_lr"] = start

    def before_update(self, position: int) -> None:
        """Writes the values of the update at `position`; the schedule's first is that at `begin`."""
        position -= self._begin
        groups = self._optimizer.param_groups  # a new list after each optimizer.load_state_dict
        if len(groups) != len(self._curves):
            self._take_in(groups)
        computed = None
        for group, curve in zip(groups, self._curves, strict=True):
            if curve is not computed:
                lr, computed = curve(position), curve
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)  # a captured graph reads this very tensor
            else:
                group["lr"] = lr
        if self._momentum is not None:
            momentum = self.momentum = self._momentum(position)
            for group in groups:
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                elif "momentum" in group:
                    group["momentum"] = momentum

    def _take_in(self, groups: list[dict[str, Any]]) -> None:
        if len(groups) < len(self._curves):
            raise DescriptionError(
                f"the optimizer had {plural(len(self._curves), 'parameter group')} and has {len(groups)} now, and it is not "
                "clear which is gone; freeze a group instead of removing it."
            )
        start_of_largest, base_of_largest = self._largest
        for group in groups[len(self._curves) :]:
            start = group["initial_lr"] = starting_lr(group)
            ratio = start / start_of_largest if start_of_largest else 1.0
            self._curves.append(self._curve(base_of_largest * ratio))

    def _curve(self, base: float) -> Curve:
        if base not in self._curve_of:
            self._curve_of[base] = self._schedule.curve(self._total, base)
        return self._curve_of[base]
