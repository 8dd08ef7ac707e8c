"""Charts drawn by matplotlib, where it is installed: a figure to show, or one of your axes to draw on."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instep.drawing.chart import COLOURS, Chart, Line, Mark
from instep.errors import DescriptionError, InstepError
from instep.extras import install_command
from instep.text import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, ROW = 7.5, 2.6, 0.19  # of one chart and of a line of words beside it, in inches
LEGEND_COLUMNS = 2
CAPTION = 95  # characters a line
MOST_DOTS = 60
ENDINGS = (".png", ".svg", ".pdf")


def plot(charts: Sequence[Chart], what: str, *, ax: Axes | None = None) -> Figure:
    """A figure of pyplot with the charts under each other, or that of `ax`, on which the only one is drawn.

    A notebook shows the figures of pyplot after each cell, and once more the one that is the cell's value. So pyplot forgets
    the figure where it draws into notebooks, and the value is shown.
    """
    if ax is not None:
        (chart,) = charts
        draw_on(ax, chart)
        return ax.figure  # type: ignore[return-value]  # a part of a figure, where the user made one
    pyplot = _need("matplotlib.pyplot", what)
    figure: Figure = pyplot.figure(**_look(charts))
    fill(figure, charts)
    if "inline" in pyplot.get_backend().lower():
        pyplot.close(figure)
    return figure


def save(charts: Sequence[Chart], path: Path, what: str) -> Path:
    """Writes a picture in the format that the name ends in. Needs no display."""
    if path.suffix.lower() not in ENDINGS:
        raise DescriptionError(f"{path} ends in {path.suffix or 'nothing'}; use .png, .svg or .pdf.")
    figure: Figure = _need("matplotlib.figure", what).Figure(**_look(charts))
    fill(figure, charts)
    figure.savefig(path, dpi=150)
    return path


def fill(figure: Figure, charts: Sequence[Chart]) -> None:
    """One chart under the other, over the same axis where they are about the same."""
    axes: Any = figure.subplots(len(charts), 1, squeeze=False, sharex=len({chart.x for chart in charts}) == 1)
    for each, chart in zip(axes[:, 0], charts, strict=True):
        draw_on(each, chart)
        each.label_outer(remove_inner_ticks=False)


def draw_on(axes: Axes, chart: Chart) -> None:
    """The chart on one of matplotlib's axes, with a legend above it, where it hides nothing.

    On axes that have curves already, it takes the colours after theirs.
    """
    taken = len(axes.lines)
    for line in chart.lines:
        _draw_line(axes, chart, line, COLOURS[(taken + line.colour) % len(COLOURS)])
    for mark in chart.marks:
        _draw_mark(axes, chart.placed(mark), COLOURS[(taken + mark.colour) % len(COLOURS)])
    scales = {True: "log", False: "linear"}
    axes.set(xlabel=_plain(chart.x), ylabel=_plain(chart.title), xscale=scales[chart.log_x], yscale=scales[chart.log_y])
    if chart.shown is not None and chart.shown[0] < chart.shown[1]:
        axes.set_ylim(*chart.shown)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=LEGEND_COLUMNS, frameon=False, fontsize="small", borderaxespad=0.2
        )
    if chart.caption:
        axes.annotate(
            _plain("\n".join(wrapped(chart.caption, CAPTION))), (0.0, 0.0), (0, -42), xycoords="axes fraction",
            textcoords="offset points", va="top", fontsize="small",
        )  # fmt: skip


def _draw_line(axes: Axes, chart: Chart, line: Line, colour: str) -> None:
    axes.plot(
        list(line.xs),
        chart.drawn(line),
        color=colour,
        linewidth=0.8 if line.is_thin else 1.8,
        alpha=0.5 if line.is_thin else 1.0,
        marker="o" if len(line.ys) == 1 or (line.has_dots and len(line.ys) <= MOST_DOTS) else "",
        markersize=4,
        label=_plain(line.name) or "_nolegend_",
    )


def _draw_mark(axes: Axes, mark: Mark, colour: str) -> None:
    if mark.x is None:
        axes.plot([], [], color=colour, linestyle="--", label=_plain(mark.name))
    elif mark.y is None:
        style, width = ("-", 2.0) if mark.is_bold else ("--", 1.2)
        axes.axvline(mark.x, color=colour, linestyle=style, linewidth=width, label=_plain(mark.name))
    else:
        axes.plot([mark.x], [mark.y], marker="o", markersize=11, markerfacecolor="none", markeredgewidth=2, color=colour,
                  linestyle="none", label=_plain(mark.name))  # fmt: skip


def _look(charts: Sequence[Chart]) -> dict[str, Any]:
    """A size at which the curves have the same room, whatever is said beside them."""
    words = sum(len(wrapped(chart.caption, CAPTION)) + _legend_rows(chart) for chart in charts)
    return {"figsize": (WIDTH, HEIGHT * len(charts) + ROW * words), "layout": "constrained"}


def _legend_rows(chart: Chart) -> int:
    return -(-len([*filter(None, (line.name for line in chart.lines)), *chart.marks]) // LEGEND_COLUMNS)


def _plain(text: str) -> str:
    """Text that stays as it is: dollars would begin a formula, and a name that begins with _ is left out of a legend."""
    return f"{' ' * text.startswith('_')}{text}".replace("$", r"\$")


def _need(module: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise InstepError(f"{what} needs matplotlib, which is not installed; type: {install_command('plots')}") from None
