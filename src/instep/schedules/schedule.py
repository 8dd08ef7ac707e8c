"""Schedule: the values of an update, from its position alone.

Owns what every schedule is asked for. Each shape has a file of its own; `drive` writes the values into the groups.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from instep.errors import DescriptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

    >>> class Halved(Schedule):
    ...     def curve(self, total, base):
    ...         return lambda position: base if position < total // 2 else base / 2
    >>> Halved().curve(total=10, base=0.1)(5)
    0.05
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

    def plot(self, total: int = 1000, base: float | None = None, *, ax: "Axes | None" = None) -> "Figure":
        """Draws the learning rate over a run of `total` updates with matplotlib, and a momentum that moves; returns the figure.

        `base` is the learning rate that the optimizer is made with; without it the curve shows shares of that. (OneCycle has its
        peak from `max_lr`, and `base` is another one.) On an `ax` of yours only the learning rate is drawn.
        """
        from instep.drawing.figure import plot
        from instep.schedules.charts import charts  # it imports this file

        drawn = charts(self, total, base)
        return plot(drawn if ax is None else drawn[:1], "schedule.plot()", ax=ax)

    def _repr_html_(self) -> str:
        from instep.schedules.charts import html

        return html(self)


def starting_lr(group: Group) -> float:
    """The learning rate that a group was made with: under torch's own name for it where a schedule has written another since."""
    return float(group.get("initial_lr", group["lr"]))
