"""Schedule: the values of an update, from its position alone.

Owns what every schedule is asked for. Each shape has a file of its own; `drive` writes the values into the groups.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from instep.errors import DescriptionError, InstepError

Curve = Callable[[int], float]  # position -> value
Group = Mapping[str, Any]  # the options of one parameter group


class Schedule(ABC):
    """A learning rate that is a function of position.

    A position counts the updates that were made before this one, skipped ones left out; `total` is the number of updates of the
    whole run. There is no state: nothing to save, nothing to forget on resume.

    A schedule of your own needs one method, and is best a frozen dataclass where it has options:

        class Halved(Schedule):
            def curve(self, total: int, base: float) -> Curve:
                return lambda position: base if position < total // 2 else base / 2
    """

    @abstractmethod
    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position in a run of `total` updates; raises where this schedule does not fit into that.

        `base` is what `bases` made of the group's starting learning rate: that rate itself, unless a schedule says otherwise. The
        curve is pure, and called before every update.
        """

    def momentum_curve(self, total: int) -> Curve | None:
        """The momentum (or first beta) by position; None where the optimizer's own is left alone."""
        return None

    def bases(self, starts: Sequence[float]) -> Sequence[float]:
        """The base of each group, from the learning rates that the groups were made with."""
        if not any(starts):
            name = type(self).__name__
            raise DescriptionError(f"{name} multiplies the optimizer's lr, which is 0; give the optimizer an lr above 0.")
        return list(starts)

    @property
    def default_base(self) -> float:
        """The base to draw with where there is no optimizer: 1, so that a curve shows shares of the starting rate."""
        return 1.0

    def notes(self, groups: Sequence[Group], total: int) -> list[str]:
        """What the plan of a run should say about this schedule on these groups, as they are before the first update."""
        rates = [(index, starting_lr(group), float(group["lr"])) for index, group in enumerate(groups)]
        return [
            f"group {index} of the optimizer was under a schedule before and starts from its initial_lr={start:g} again, not "
            f"from lr={lr:g}; delete initial_lr from the group to start from that."
            for index, start, lr in rates
            if start != lr
        ]

    def plot(self, total: int = 1000, base: float | None = None) -> Any:
        """Draws the learning rate over a run of `total` updates with matplotlib; returns the axes.

        `base` is the learning rate that the optimizer is made with; without it the curve shows shares of that. (OneCycle has its
        peak from `max_lr`, and `base` is another one.)
        """
        curve = self.curve(total, self.default_base if base is None else base)
        try:
            pyplot = importlib.import_module("matplotlib.pyplot")
        except ModuleNotFoundError as error:
            raise InstepError(
                "schedule.plot() needs matplotlib, which is not installed; type `pip install matplotlib`, or see the shape "
                "without it: print(instep.schedules.sparkline(schedule, total))."
            ) from error
        axes = pyplot.subplots()[1]
        axes.plot(range(total), [curve(position) for position in range(total)])
        axes.set(title=type(self).__name__, xlabel="update", ylabel="lr")
        return axes


def starting_lr(group: Group) -> float:
    """The learning rate that a group was made with: under torch's own name for it where a schedule has written another since."""
    return float(group.get("initial_lr", group["lr"]))
