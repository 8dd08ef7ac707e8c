"""A range test as a picture: SVG written by hand, for files and notebooks."""

import html as html_text
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from instep.errors import DescriptionError
from instep.text import number, rate
from instep.tuning.curve import Curve
from instep.tuning.recommendation import Recommendation
from instep.tuning.scale import round_ticks, shown_range

WIDTH, HEIGHT = 560, 240  # of the field that is drawn in
LEFT, TOP, BOTTOM = 56, 12, 34  # beside it
LINE = 18  # of text
AIR = 0.05  # of what is shown
CURVE = "#2a7ab8"
COLOURS = ("#d1603d", "#3d9a50", "#8a5cb8", "#b8962a")  # of the rules, in their order


class Field:
    """Where a learning rate and a loss lie in the picture."""

    def __init__(self, curve: Curve) -> None:
        self.low, self.high = padded_range(curve)
        self.first, self.last = curve.lrs[0], curve.lrs[-1]

    def x(self, lr: float) -> float:
        whole = math.log(self.last / self.first) or 1.0
        return LEFT + WIDTH * math.log(lr / self.first) / whole

    def y(self, loss: float) -> float:
        kept = min(max(loss, self.low), self.high)
        return TOP + HEIGHT * (self.high - kept) / ((self.high - self.low) or 1.0)

    def line(self, lrs: Sequence[float], losses: Sequence[float]) -> str:
        return " ".join(f"{self.x(lr):.1f},{self.y(loss):.1f}" for lr, loss in zip(lrs, losses, strict=True))


def svg(
    curve: Curve,
    sweeps: Sequence[Curve],
    rules: Mapping[str, float | None],
    choice: Recommendation,
    *,
    background: str = "none",
) -> str:
    """The sweeps thin, their smoothed mean bold, a line for each rule, and a legend that names them."""
    field = Field(curve)
    parts = [_axes(field)]
    for sweep in sweeps:
        points = field.line(sweep.lrs, sweep.capped)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{CURVE}" stroke-width="0.7" opacity="0.45"/>')
    points = field.line(curve.lrs, curve.smoothed)
    parts.append(f'<polyline points="{points}" fill="none" stroke="{CURVE}" stroke-width="2.2"/>')
    parts += [_rule(field, index, name, lr, choice) for index, (name, lr) in enumerate(rules.items())]
    width, height = LEFT + WIDTH + 16, TOP + HEIGHT + BOTTOM + LINE * (len(rules) + 1)
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    look = f'font-family="sans-serif" font-size="12" style="max-width: 100%; background: {background}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="loss by learning rate" {look}>'
    return f"{opening}{''.join(parts)}</svg>"


def html(picture: str, sentence: str) -> str:
    """The picture and a sentence under it, as a notebook shows it."""
    return f"<div>{picture}<p>{html_text.escape(sentence)}</p></div>"


def save(path: Path, *, svg: Callable[[], str], text: Callable[[], str]) -> Path:
    """Writes the picture, or the numbers, in the format that the name ends in; only what is needed is made."""
    ending = path.suffix.lower()
    if ending not in (".svg", ".json"):
        raise DescriptionError(f"{path} ends in {ending or 'nothing'}; use .svg or .json.")
    path.write_text(svg() if ending == ".svg" else text() + "\n", encoding="utf-8")
    return path


def padded_range(curve: Curve) -> tuple[float, float]:
    """What is shown, with a little air under the lowest point."""
    low, high = shown_range(curve)
    return low - AIR * (high - low), high


def _axes(field: Field) -> str:
    parts = [
        f'<path d="M{LEFT} {TOP}V{TOP + HEIGHT}H{LEFT + WIDTH}" fill="none" stroke="currentColor" opacity="0.6"/>',
    ]
    for loss in round_ticks(field.low, field.high):
        parts.append(_text(LEFT - 6, field.y(loss) + 4, number(loss), anchor="end"))
    for decade in range(math.ceil(math.log10(field.first) - 1e-9), math.floor(math.log10(field.last) + 1e-9) + 1):
        parts.append(_text(field.x(10.0**decade), TOP + HEIGHT + 16, f"{10.0**decade:g}", anchor="middle"))
    return "".join(parts)


def _rule(field: Field, index: int, name: str, lr: float | None, choice: Recommendation) -> str:
    """A line in the field, where it lies inside, and one in the legend."""
    colour, chosen = COLOURS[index], name == choice.rule
    y = TOP + HEIGHT + BOTTOM + LINE * (index + 1)
    label = f"{name}: {'does not apply' if lr is None else rate(lr)}{' (suggested)' if chosen else ''}"
    parts = [f'<rect x="{LEFT}" y="{y - 9}" width="14" height="4" fill="{colour}"/>', _text(LEFT + 22, y, label, bold=chosen)]
    if lr is not None and field.first <= lr <= field.last:
        x = f"{field.x(lr):.1f}"
        dashes = "" if chosen else ' stroke-dasharray="4 3"'
        parts.append(f'<path d="M{x} {TOP}V{TOP + HEIGHT}" stroke="{colour}" stroke-width="{2.2 if chosen else 1.2}"{dashes}/>')
    return "".join(parts)


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{weight}>{html_text.escape(text)}</text>'
