"""A schedule as charts: the learning rate, and the momentum where it moves that."""

from contextlib import suppress

from instep.drawing.chart import Chart, Line
from instep.errors import DescriptionError
from instep.schedules.drawing import evenly
from instep.schedules.function import FromFunction
from instep.schedules.one_cycle import OneCycle
from instep.schedules.schedule import Schedule
from instep.text import plural

MOST_UPDATES = 5_000  # that are drawn; of a longer run so many, evenly
TOTALS = (1_000, 10_000, 100_000, 1_000_000)  # to try where nobody says how long a run is


def charts(schedule: Schedule, total: int, base: float | None = None) -> list[Chart]:
    """The curves over a run of `total` updates."""
    if total < 1:
        raise DescriptionError(f"total={total} updates cannot be drawn; use 1 or more.")
    is_share = base is None and not isinstance(schedule, OneCycle | FromFunction)
    title = "Learning rate (share of the optimizer's lr)" if is_share else "Learning rate"
    found = [(title, schedule.curve(total, schedule.default_base if base is None else base))]
    momentum = schedule.momentum_curve(total)
    if momentum is not None:
        found.append(("Momentum", momentum))
    positions = evenly(total, MOST_UPDATES)
    lines = [
        (title, Line("", positions, [curve(each) for each in positions], colour)) for colour, (title, curve) in enumerate(found)
    ]
    return [Chart(title, "update", (line,)) for title, line in lines]


def html(schedule: Schedule) -> str:
    """The curves over a run that is long enough, and what the schedule is."""
    from instep.drawing.html import block, paragraph, pictures

    for total in TOTALS:
        with suppress(DescriptionError):
            return block(pictures(charts(schedule, total)), paragraph(f"{schedule!r}, over {plural(total, 'update')}"))
    return block(paragraph(repr(schedule)))
