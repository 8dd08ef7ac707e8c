"""A chart as SVG written by hand: no script, no style sheet, and the page's own colour for text, light or dark."""

import math
from collections.abc import Iterator
from html import escape

from instep.drawing.axis import Axis, labels
from instep.drawing.chart import COLOURS, Chart, Line, Mark
from instep.drawing.thinning import thinned

WIDTH, HEIGHT = 520, 190  # of the field that is drawn in
LEFT, RIGHT, TOP, BOTTOM = 60, 24, 28, 40  # beside it
ROW, LETTER = 18, 6.8  # of text, in pixels
MOST_DOTS = 60
DOT = 2.6


def draw(chart: Chart, *, background: str = "none") -> str:
    """The picture: axes, curves, marks, and a legend under them that names all."""
    x_axis, y_axis = chart.x_axis, chart.y_axis
    legend, rows = _legend(chart)
    parts = [_frame(chart, x_axis, y_axis)]
    parts += [_line(chart, line, x_axis, y_axis) for line in chart.lines]
    parts += [_mark(chart.placed(mark), x_axis, y_axis) for mark in chart.marks]
    width, height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM + ROW * rows
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    look = f'font-family="sans-serif" font-size="12" style="max-width: 100%; height: auto; background: {background}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="{escape(chart.in_words)}" {look}>'
    return f"{opening}{''.join(parts)}{legend}</svg>"


def _frame(chart: Chart, x_axis: Axis, y_axis: Axis) -> str:
    bottom = TOP + HEIGHT
    parts = [_text(LEFT, TOP - 12, chart.title, bold=True), _text(LEFT + WIDTH / 2, bottom + 34, chart.x, anchor="middle")]
    across, up = x_axis.ticks(), y_axis.ticks()
    for tick, label in zip(up, labels(up), strict=True):
        y = _y(y_axis, tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDTH}" stroke="currentColor" opacity="0.12"/>')
        parts.append(_text(LEFT - 7, y + 4, label, anchor="end"))
    for tick, label in zip(across, labels(across), strict=True):
        parts.append(_text(_x(x_axis, tick), bottom + 17, label, anchor="middle"))
    parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{LEFT + WIDTH}" fill="none" stroke="currentColor" opacity="0.6"/>')
    return "".join(parts)


def _line(chart: Chart, line: Line, x_axis: Axis, y_axis: Axis) -> str:
    values = chart.drawn(line)
    kept = thinned(values, WIDTH)
    colour, look = (
        COLOURS[line.colour % len(COLOURS)],
        'stroke-width="0.8" opacity="0.5"' if line.is_thin else 'stroke-width="1.8"',
    )
    parts = []
    for stretch in _stretches(values, kept):
        points = [f"{_x(x_axis, line.xs[place]):.1f},{_y(y_axis, values[place]):.1f}" for place in stretch]
        if len(points) > 1:
            parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" {look}/>')
        if len(points) == 1 or (line.has_dots and len(kept) <= MOST_DOTS):
            parts += [_dot(x, y, colour) for x, _, y in (point.partition(",") for point in points)]
    return "".join(parts)


def _stretches(values: list[float], kept: list[int]) -> Iterator[list[int]]:
    """The places between the gaps."""
    stretch: list[int] = []
    for place in kept:
        if math.isnan(values[place]):
            if stretch:
                yield stretch
            stretch = []
        else:
            stretch.append(place)
    if stretch:
        yield stretch


def _mark(mark: Mark, x_axis: Axis, y_axis: Axis) -> str:
    if mark.x is None:
        return ""
    x, colour = f"{_x(x_axis, mark.x):.1f}", COLOURS[mark.colour % len(COLOURS)]
    if mark.y is not None:
        y = f"{_y(y_axis, mark.y):.1f}"
        return f'<circle cx="{x}" cy="{y}" r="6" fill="none" stroke="{colour}" stroke-width="2"/>{_dot(x, y, colour)}'
    look = 'stroke-width="2.2"' if mark.is_bold else 'stroke-width="1.2" stroke-dasharray="4 3"'
    return f'<path d="M{x} {TOP}V{TOP + HEIGHT}" stroke="{colour}" {look}/>'


def _legend(chart: Chart) -> tuple[str, int]:
    """A sample of colour and a name for each curve and mark, in as many rows as they take."""
    named = [(line.name, line.colour, False, 1.5 if line.is_thin else 4) for line in chart.lines if line.name]
    named += [(mark.name, mark.colour, mark.is_bold, 4) for mark in chart.marks]
    parts, x, row = [], 0.0, 0
    for name, colour, bold, thick in named:
        wide = 38 + LETTER * len(name)
        if x and x + wide > WIDTH:
            x, row = 0.0, row + 1
        left, y = LEFT + x, TOP + HEIGHT + BOTTOM + ROW * row + 12
        look = f'width="14" height="{thick}" fill="{COLOURS[colour % len(COLOURS)]}"'
        parts.append(f'<rect x="{left:.1f}" y="{y - 4 - thick / 2:g}" {look}/>')
        parts.append(_text(left + 20, y, name, bold=bold))
        x += wide
    return "".join(parts), row + 1 if named else 0


def _dot(x: str, y: str, colour: str) -> str:
    return f'<circle cx="{x}" cy="{y}" r="{DOT}" fill="{colour}"/>'


def _x(axis: Axis, value: float) -> float:
    return LEFT + WIDTH * axis.share(value)


def _y(axis: Axis, value: float) -> float:
    return TOP + HEIGHT * (1 - axis.share(value))


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{weight}>{escape(text)}</text>'
