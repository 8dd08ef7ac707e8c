"""sparkline: the shape of a schedule in one line of text."""

from collections.abc import Callable

from instep import text
from instep.errors import DescriptionError
from instep.schedules.function import FromFunction
from instep.schedules.schedule import Curve, Schedule


def sparkline(schedule: Schedule | Callable[[int], float], total: int, width: int = 40) -> str:
    """The learning rates of a run of `total` updates, drawn from 0 to the highest, in at most `width` characters.

        sparkline(OneCycle(max_lr=0.1), 1000, width=12)   # ▁▂▆███▆▅▃▂▁▁

    The first and last characters stand for the first and last update.

    >>> sparkline(lambda position: position, total=1000, width=8)
    '▁▂▃▄▅▆▇█'
    """
    if total < 1 or width < 1:
        raise DescriptionError(f"total={total} updates in width={width} characters cannot be drawn; use 1 or more of each.")
    shape = schedule if isinstance(schedule, Schedule) else FromFunction(schedule)
    curve = shape.curve(total, shape.default_base)
    return text.sparkline([curve(position) for position in evenly(total, width)], width, low=0.0)


def evenly(total: int, most: int) -> list[int]:
    """At most so many positions of a run, the first and the last among them."""
    count = min(total, most)
    return [place * (total - 1) // max(count - 1, 1) for place in range(count)]


def turning_rates(curve: Curve, total: int) -> list[float]:
    """The first rate of a run, the highest where it is above both ends, and the last."""
    looked = evenly(total, 1_000)
    place = max(range(len(looked)), key=lambda one: curve(looked[one]))
    near = range(looked[max(place - 1, 0)], looked[min(place + 1, len(looked) - 1)] + 1)
    first, highest, last = curve(0), max(map(curve, near)), curve(total - 1)
    return [first, highest, last] if highest > max(first, last) else [first, last]
