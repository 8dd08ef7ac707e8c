"""Evidence drawn: numbers of one kind as bars over the same range, everything else in words."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from instep.text import cut, listed, number

LEAST = 2  # numbers that are worth a picture
WIDE = 10_000  # of the largest to the smallest, beyond which bars show nothing


def draw_evidence(evidence: Mapping[str, Any]) -> str:
    """Counts as bars, other numbers as bars, and the rest as a list."""
    counts = {name: value for name, value in evidence.items() if _is_count(value)}
    measures = {name: value for name, value in evidence.items() if _is_measure(value)}
    drawn = {name: value for group in (counts, measures) if _can_be_compared(group) for name, value in group.items()}
    parts = [_bars(group) for group in (counts, measures) if _can_be_compared(group)]
    rest = {name: value for name, value in evidence.items() if name not in drawn and value is not None and value != ""}
    if rest:
        rows = "".join(f"<dt>{_words(name)}</dt><dd>{escape(_said(value))}</dd>" for name, value in rest.items())
        parts.append(f'<dl class="facts">{rows}</dl>')
    return "".join(parts)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_measure(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value >= 0


def _can_be_compared(group: Mapping[str, float]) -> bool:
    above = [value for value in group.values() if value > 0]
    return len(group) >= LEAST and bool(above) and max(above) <= WIDE * min(above)


def _bars(group: Mapping[str, float]) -> str:
    most = max(group.values())
    rows = "".join(
        f'<div class="row"><span class="name">{_words(name)}</span>'
        f'<span class="track"><span class="bar" style="width: {100 * value / most:.1f}%"></span></span>'
        f'<span class="value">{escape(_said(value))}</span></div>'
        for name, value in group.items()
    )
    return f'<div class="bars" role="img" aria-label="{escape(_in_words(group))}">{rows}</div>'


def _in_words(group: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_said(value)}" for name, value in group.items())


def _words(name: str) -> str:
    return escape(name.replace("_", " "))


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        return listed([cut(one) for one in value])
    return cut(value, 200)
