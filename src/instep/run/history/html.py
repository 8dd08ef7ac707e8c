"""A history as a piece of HTML, as notebooks show it."""

from typing import Any

from instep.drawing.html import block, paragraph, pictures, table
from instep.run.history.charts import charts
from instep.run.history.lines import NO_COLUMNS
from instep.run.history.record import History

SHOWN_EVALUATIONS = 12


def draw(history: History) -> str:
    """The curves, then the last evaluations as a table, the best one bold."""
    drawn = [chart for chart in charts(history) if any(len(line.xs) > 1 for line in chart.lines)]
    return block(pictures(drawn), _table(history), paragraph(repr(history)))


def _table(history: History) -> str:
    shown = history.evaluations[-SHOWN_EVALUATIONS:]
    if not shown:
        return ""
    names = [name for name in dict.fromkeys(name for row in shown for name in row) if name not in NO_COLUMNS]
    rows = [[_cell(row.get(name)) for name in names] for row in shown]
    return table(names, rows, bold=[place for place, row in enumerate(shown) if row is history.best])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
