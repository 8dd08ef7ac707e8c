"""Parallel coordinates as SVG: an upright axis for each number, and a line through all of them for each thing that has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from instep.drawing.axis import Axis, labels
from instep.drawing.chart import COLOURS

HEIGHT, WIDTH, CLOSEST = 260, 880, 120  # of all axes together, and from one to the next at least
LEFT, RIGHT, TOP, BOTTOM = 70, 60, 34, 16
GOOD, BAD = COLOURS[1], COLOURS[7]  # of the best line, and of those that are not drawn to the last axis
HALO = 'fill="currentColor" stroke="Canvas" stroke-width="3" paint-order="stroke"'  # so that lines do not cross the letters
LOW_COLOUR, HIGH_COLOUR = (42, 122, 184), (168, 186, 204)  # from the better to the worse ones


@dataclass(frozen=True)
class Scale:
    """One axis: from its lowest to its highest number, or (`names`) one place for each name."""

    title: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    names: tuple[str, ...] = ()

    def share(self, value: float | str) -> float:
        if self.names:
            return (self.names.index(str(value)) + 0.5) / len(self.names)
        return Axis(self.low, self.high, self.log).share(float(value))

    def ticks(self) -> list[tuple[float, str]]:
        """Where on the axis, from 0 to 1, and what to write there."""
        if self.names:
            return [(self.share(name), name) for name in self.names]
        if not self.low < self.high:
            return [(0.5, f"{self.low:g}")]
        axis = Axis(self.low, self.high, self.log)
        ticks = axis.ticks()
        return [(axis.share(tick), label) for tick, label in zip(ticks, labels(ticks), strict=True)]


@dataclass(frozen=True)
class Path:
    """One line: a value for each axis, None where it has none; how good it is, from 0 (best) to 1, or None for unknown."""

    name: str
    values: Sequence[float | str | None]
    rank: float | None = None
    is_best: bool = False


def draw_parallel(title: str, scales: Sequence[Scale], paths: Sequence[Path]) -> str:
    """The picture. The best line is drawn last, over the others; each has its name as a tooltip."""
    gap = max(CLOSEST, WIDTH // max(1, len(scales) - 1))
    width, height = LEFT + gap * max(1, len(scales) - 1) + RIGHT, TOP + HEIGHT + BOTTOM
    ordered = sorted(paths, key=lambda path: (path.is_best, -(path.rank if path.rank is not None else 2.0)))
    parts = [_path(path, scales, gap) for path in ordered]
    parts += [_axis(scale, LEFT + gap * place) for place, scale in enumerate(scales)]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'{opening} font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _axis(scale: Scale, x: int) -> str:
    parts = [
        f'<path d="M{x} {TOP}V{TOP + HEIGHT}" stroke="currentColor" opacity="0.7"/>',
        f'<text x="{x}" y="{TOP - 16}" text-anchor="middle" fill="currentColor" font-weight="bold">{escape(scale.title)}</text>',
    ]
    for share, label in scale.ticks():
        y = _y(share)
        parts.append(f'<path d="M{x - 4} {y:.1f}H{x}" stroke="currentColor" opacity="0.7"/>')
        parts.append(f'<text x="{x - 7}" y="{y + 4:.1f}" text-anchor="end" {HALO}>{escape(label)}</text>')
    return "".join(parts)


def _path(path: Path, scales: Sequence[Scale], gap: int) -> str:
    points = [
        f"{LEFT + gap * axis},{_y(scale.share(value)):.1f}"
        for axis, (scale, value) in enumerate(zip(scales, path.values, strict=True))
        if value is not None
    ]
    if path.is_best:
        look = f'stroke="{GOOD}" stroke-width="3"'
    elif path.rank is None:
        look = f'stroke="{BAD}" stroke-width="1" stroke-dasharray="3 3" opacity="0.6"'
    else:
        look = f'stroke="{_between(path.rank)}" stroke-width="1.6" opacity="{0.9 - 0.4 * path.rank:.2f}"'
    # A wide line that is not seen, so that a pointer finds it.
    line = f'<polyline points="{" ".join(points)}" fill="none"'
    return f'<g class="path"><title>{escape(path.name)}</title>{line} {look}/>{line} stroke="transparent" stroke-width="9"/></g>'


def _between(share: float) -> str:
    mixed = [round(low + (high - low) * share) for low, high in zip(LOW_COLOUR, HIGH_COLOUR, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _y(share: float) -> float:
    return TOP + HEIGHT * (1 - share)
