"""Bars as SVG: a name, a bar and a number for each of a few shares."""

from collections.abc import Mapping
from html import escape

from instep.drawing.chart import COLOURS

ROW, NAME, WIDTH, NUMBER = 26, 150, 360, 60


def draw_bars(title: str, shares: Mapping[str, float]) -> str:
    """The picture; shares are of 1 and the bars of the largest."""
    most = max(shares.values(), default=1.0) or 1.0
    width, height = NAME + WIDTH + NUMBER, ROW * len(shares) + 8
    rows = "".join(_bar(place, name, share, most) for place, (name, share) in enumerate(shares.items()))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'{opening} font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">{rows}</svg>'


def _bar(place: int, name: str, share: float, most: float) -> str:
    y, length = ROW * place + 6, max(1.0, WIDTH * share / most)
    return (
        f'<text x="{NAME - 8}" y="{y + 14}" text-anchor="end" fill="currentColor">{escape(name)}</text>'
        f'<rect x="{NAME}" y="{y}" width="{length:.1f}" height="18" rx="2" fill="{COLOURS[0]}"/>'
        f'<text x="{NAME + length + 8:.1f}" y="{y + 14}" fill="currentColor">{share:.0%}</text>'
    )
