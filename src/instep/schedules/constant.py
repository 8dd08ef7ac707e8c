"""A schedule that changes nothing."""

from dataclasses import dataclass

from instep.schedules.schedule import Curve, Schedule


@dataclass(frozen=True)
class Constant(Schedule):
    """The optimizer's own learning rate, throughout; nothing is written at all. The same as `schedule=None`.

    >>> Constant().curve(total=100, base=0.1)(99)
    0.1
    """

    def curve(self, total: int, base: float) -> Curve:
        """The base, at every position."""
        return lambda position: base
