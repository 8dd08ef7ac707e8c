"""A range test as text: the curve in braille dots, the rules under it, and the recommendation."""

import math
from collections.abc import Mapping, Sequence

from instep.drawing.axis import Axis, decades
from instep.text import Paint, number, plain, rate, wrapped
from instep.tuning.curve import Curve
from instep.tuning.recommendation import Recommendation
from instep.tuning.scale import shown_range

WIDTH, HEIGHT = 60, 10  # of the curve, in characters
LAST_TICK = 8  # that a label may stand out at the right
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # the bits of a braille sign, row by row
CHOSEN = "▲"


def draw(
    curve: Curve, rules: Mapping[str, float | None], choice: Recommendation, *, width: int = 80, paint: Paint = plain
) -> str:
    """The curve with its axes, one line a rule, and the reason; no line is longer than `width`."""
    low, high = shown_range(curve)
    labels = {0: number(high), HEIGHT - 1: number(low)}
    margin = max(map(len, labels.values())) + 1
    across = max(20, min(WIDTH, width - margin - 2 - LAST_TICK))
    drawn = dots(curve, low, high, across)
    lines = [f"{labels.get(row, ''):>{margin}} │{paint(line.rstrip(), 'cyan')}" for row, line in enumerate(drawn)]
    indent = " " * (margin + 2)
    lines += [
        " " * (margin + 1) + "└" + "─" * across,
        indent + ticks(curve, across),
        (indent + marks(curve, rules, choice, across).replace(CHOSEN, paint(CHOSEN, "bold green"))).rstrip(),
        "",
    ]
    sentence = [paint(line, "bold") for line in wrapped(as_sentence(choice), min(width, margin + 2 + WIDTH))]
    return "\n".join([*lines, *legend(rules, choice), "", *sentence])


def as_sentence(choice: Recommendation) -> str:
    """The recommendation in a sentence."""
    if choice.suggestion is None:
        return f"no suggestion: {choice.reason}"
    return f"suggestion {rate(choice.suggestion)} (confidence {choice.confidence:.2f} of 1: {choice.basis}): {choice.reason}"


def dots(curve: Curve, low: float, high: float, width: int = WIDTH) -> list[str]:
    """The smoothed curve, two dots to a character across and four down; gaps between neighbours are filled."""
    cells = [[0] * width for _ in range(HEIGHT)]
    before: int | None = None
    for x in range(2 * width):
        y = _row(_at(curve, x / (2 * width - 1)), low, high)
        for filled in range(min(y, y if before is None else before), max(y, y if before is None else before) + 1):
            cells[filled // 4][x // 2] |= DOTS[filled % 4][x % 2]
        before = y
    return ["".join(chr(0x2800 + bits) if bits else " " for bits in line) for line in cells]


def ticks(curve: Curve, width: int = WIDTH) -> str:
    """The learning rates under the axis: the whole decades, as many as there is room for."""
    line = [" "] * (width + LAST_TICK)
    free = 0
    for power in decades(curve.lrs[0], curve.lrs[-1]):
        label, column = f"{power:g}", _column(curve, power, width)
        if column >= free and column + len(label) <= len(line):
            line[column : column + len(label)] = label
            free = column + len(label) + 2
    return "".join(line).rstrip()


def marks(curve: Curve, rules: Mapping[str, float | None], choice: Recommendation, width: int = WIDTH) -> str:
    """The rules by their first letters where they stand, the chosen one as a triangle."""
    line = [" "] * width
    for name, lr in sorted(rules.items(), key=lambda rule: rule[0] == choice.rule):  # the chosen one last, over the others
        if lr is not None and curve.lrs[0] <= lr <= curve.lrs[-1]:
            line[_column(curve, lr, width)] = CHOSEN if name == choice.rule else name[0]
    return "".join(line)


def legend(rules: Mapping[str, float | None], choice: Recommendation) -> list[str]:
    widest = max(map(len, rules))
    return [
        f"  {CHOSEN if name == choice.rule else name[0]}  {name:<{widest}}  {'-' if lr is None else rate(lr)}"
        for name, lr in rules.items()
    ]


def _at(curve: Curve, share: float) -> float:
    """The smoothed loss at a share of the way along the logarithm of the learning rate, between the points."""
    wanted = math.log(curve.lrs[0]) + share * math.log(curve.lrs[-1] / curve.lrs[0])
    return interpolated([math.log(lr) for lr in curve.lrs], curve.smoothed, wanted)


def interpolated(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """The value at `x` on straight lines between points whose `xs` grow."""
    right = next((i for i, other in enumerate(xs) if other >= x), len(xs) - 1)
    left = max(right - 1, 0)
    gap = xs[right] - xs[left]
    share = min(1.0, (x - xs[left]) / gap) if gap else 0.0
    return ys[left] + share * (ys[right] - ys[left])


def _row(loss: float, low: float, high: float) -> int:
    """The row of dots, 0 at the top."""
    return round((1 - Axis(low, high).share(loss)) * (4 * HEIGHT - 1))


def _column(curve: Curve, lr: float, width: int) -> int:
    return round(Axis(curve.lrs[0], curve.lrs[-1], log=True).share(lr) * (width - 1))
