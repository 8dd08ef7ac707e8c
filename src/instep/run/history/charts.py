"""A history as charts: which columns are drawn, and what is marked in them."""

from collections.abc import Sequence
from dataclasses import replace

from instep.drawing.chart import Chart, Line, Mark
from instep.errors import DescriptionError
from instep.run.history.curves import LOSS, OWN_CHARTS, Curve, all_curves, curves_of
from instep.run.history.record import History
from instep.text import clean, listed, number

MOST_METRICS = 4  # charts of metrics, where nobody says which


def charts(history: History, names: Sequence[str] = (), *, log: bool = False) -> list[Chart]:
    """The columns of these names, those that belong together in one chart; without names the loss, metrics, learning rate.

    With `log`, the values are drawn by their logarithms: those of the columns with these names, without names the losses.
    """
    curves = _named(history, names) if names else curves_of(history)
    by_chart: dict[str, list[Curve]] = {}
    for curve in curves:
        by_chart.setdefault(curve.chart, []).append(curve)
    if not names:
        metrics = [title for title, shown in by_chart.items() if title != LOSS and shown[0].is_evaluated]
        wanted = {LOSS, *metrics[:MOST_METRICS], OWN_CHARTS["lr"]}
        by_chart = {title: shown for title, shown in by_chart.items() if title in wanted}
    drawn = [chart(history, title, shown, log=log and (bool(names) or title == LOSS)) for title, shown in by_chart.items()]
    steps = [step for shown in by_chart.values() for curve in shown for step in (curve.steps[0], curve.steps[-1])]
    return [replace(one, shown_x=(min(steps), max(steps))) for one in drawn]


def one_chart(history: History, names: Sequence[str] = (), *, log: bool = False) -> Chart:
    """The columns of these names, without names the losses, all in one chart."""
    curves = _named(history, names) if names else [curve for curve in curves_of(history) if curve.chart == LOSS]
    titles = dict.fromkeys(curve.chart for curve in curves)
    return chart(history, ", ".join(titles) or LOSS, curves, log=log)


def chart(history: History, title: str, curves: Sequence[Curve], *, log: bool = False) -> Chart:
    """Curves over the steps, with a mark at the best evaluation where the monitored value is among them."""
    lines = [
        Line(clean(curve.name), curve.steps, curve.values, colour, has_dots=curve.is_evaluated)
        for colour, curve in enumerate(curves)
    ]
    best = history.best
    marks = [
        Mark(
            f"best {clean(curve.name)} {number(best[curve.name])} at step {best['step']:,}",
            best["step"],
            best[curve.name],
            colour,
        )
        for colour, curve in enumerate(curves)
        if best is not None and curve.name == history.monitor and curve.is_evaluated
    ]
    return Chart(clean(title), "step", tuple(lines), tuple(marks), log_y=log)


def _named(history: History, names: Sequence[str]) -> list[Curve]:
    found = {curve.name: curve for curve in all_curves(history)}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise DescriptionError(
            f"the history has no column {unknown[0]!r} to draw; it has: {listed(found, most=30) or 'nothing yet'}."
        )
    return [found[name] for name in dict.fromkeys(names)]
