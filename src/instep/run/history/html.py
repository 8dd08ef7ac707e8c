"""A history as a piece of HTML, as notebooks show it: no script, no style sheet, the page's own colours."""

import html
import math
from collections.abc import Sequence
from typing import Any

from instep.run.history.lines import NO_COLUMNS, Row
from instep.run.history.record import History

SHOWN_EVALUATIONS = 12
WIDTH, HEIGHT = 480, 120
COLOURS = ("#2a7ab8", "#d1603d")

Points = list[tuple[int, float]]


def draw(history: History) -> str:
    """The loss as a curve, then the last evaluations as a table, the best one bold."""
    return f"<div>{_picture(history)}{_table(history)}<p>{html.escape(repr(history))}</p></div>"


def _table(history: History) -> str:
    shown = history.evaluations[-SHOWN_EVALUATIONS:]
    if not shown:
        return ""
    best = history.best
    names = [name for name in dict.fromkeys(name for row in shown for name in row) if name not in NO_COLUMNS]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(_row(row, names, best=row is best) for row in shown)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: Row, names: Sequence[str], *, best: bool) -> str:
    cells = "".join(f"<td>{html.escape(_cell(row.get(name)))}</td>" for name in names)
    return f'<tr style="font-weight: bold">{cells}</tr>' if best else f"<tr>{cells}</tr>"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _picture(history: History) -> str:
    """The loss of the updates over the steps, and the monitor's curve where that is a loss too."""
    names = ["loss", history.monitor] if history.monitor.endswith("loss") else ["loss"]
    curves = {name: _finite(history, name) for name in names if name in history.names}
    steps = [step for curve in curves.values() for step, _ in curve]
    values = [value for curve in curves.values() for _, value in curve]
    if len(values) < 2:
        return ""
    first, low, high = min(steps), min(values), max(values)
    across, up = WIDTH / ((max(steps) - first) or 1), HEIGHT / ((high - low) or 1)
    lines, legend = "", []
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        points = " ".join(f"{(step - first) * across:.1f},{(high - value) * up:.1f}" for step, value in _thinned(curve))
        lines += f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        legend.append(f'<span style="color: {colour}">{html.escape(name)}</span>')
    box = f'viewBox="-2 -2 {WIDTH + 4} {HEIGHT + 4}" width="{WIDTH}" height="{HEIGHT}"'
    drawing = f'<svg {box} role="img" aria-label="loss by step" style="max-width: 100%">{lines}</svg>'
    return f"{drawing}<p>{', '.join(legend)}: {low:.4g} to {high:.4g}</p>"


def _finite(history: History, name: str) -> Points:
    return [(step, value) for step, value in history.curve(name) if value is not None and math.isfinite(value)]


def _thinned(curve: Points) -> Points:
    """About one point a pixel, the last one always."""
    stride = math.ceil(len(curve) / WIDTH)
    return curve[::stride] + curve[-1:] if curve else curve
