"""sparkline: the shape of a schedule in one line of text."""

from collections.abc import Callable, Sequence

from instep.errors import DescriptionError
from instep.schedules.function import FromFunction
from instep.schedules.schedule import Schedule
from instep.text import BARS


def sparkline(schedule: Schedule | Callable[[int], float], total: int, width: int = 40) -> str:
    """The learning rates of a run of `total` updates, drawn from 0 to the highest, in at most `width` characters.

        sparkline(OneCycle(max_lr=0.1), 1000, width=12)   # ▁▂▆███▆▅▃▂▁▁

    The first and last characters stand for the first and last update.
    """
    if total < 1 or width < 1:
        raise DescriptionError(f"total={total} updates in width={width} characters cannot be drawn; use 1 or more of each.")
    shape = schedule if isinstance(schedule, Schedule) else FromFunction(schedule)
    curve = shape.curve(total, shape.default_base)
    columns = min(width, total)
    return blocks([curve(column * (total - 1) // max(columns - 1, 1)) for column in range(columns)])


def blocks(values: Sequence[float]) -> str:
    """Each value as a block, the highest as a full one and 0 as the thinnest."""
    highest = max(values)
    if highest <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[min(int(8 * value / highest), 7)] for value in values)
