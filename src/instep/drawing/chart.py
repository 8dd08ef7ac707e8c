"""Chart: what a picture shows, apart from how it is drawn. Who has something to show makes one; `svg` and `figure` draw it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from instep.drawing.axis import Axis
from instep.text import number

# Each is at least three times as bright, or as dark, as a white and as a black page.
COLOURS = ("#2a7ab8", "#d1603d", "#3d9a50", "#8a5cb8", "#a8841f", "#c2578f", "#2f9c9c", "#808890")
AIR = 0.05  # of what is shown, beside the lowest and the highest value

Value = float | None


@dataclass(frozen=True)
class Line:
    """A curve. Where a value is None or not finite, it has a gap."""

    name: str  # "" leaves it out of the legend
    xs: Sequence[float]
    ys: Sequence[Value]
    colour: int = 0  # its place in COLOURS
    is_thin: bool = False  # a curve as it was, behind a smoothed one
    has_dots: bool = False  # few values, each of which counts


@dataclass(frozen=True)
class Mark:
    """Something to be seen: a point, a line up from the axis (`y` is None), or words in the legend alone (`x` is None)."""

    name: str
    x: float | None
    y: float | None = None
    colour: int = 0
    is_bold: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over one axis, and what to look at in them."""

    title: str  # what is drawn: the label of the upright axis
    x: str  # the label of the other one
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    log_x: bool = False
    log_y: bool = False
    shown: tuple[float, float] | None = None  # the lowest and the highest value in the picture; None for all
    shown_x: tuple[float, float] | None = None  # from where to where; None for all
    caption: str = ""  # a sentence

    @property
    def x_axis(self) -> Axis:
        return Axis.over(self.shown_x or [x for line in self.lines for x in line.xs], log=self.log_x)

    @property
    def y_axis(self) -> Axis:
        if self.shown is not None:
            return Axis(*self.shown, log=self.log_y)
        values = [y for line in self.lines for y in self.drawn(line) if not math.isnan(y)]
        return Axis.over(values, log=self.log_y, air=AIR)

    def drawn(self, line: Line) -> list[float]:
        """The values of a line, nan where there is nothing to draw."""
        return [y if y is not None and self._has_place(y) else math.nan for y in line.ys]

    def _has_place(self, y: float) -> bool:
        return math.isfinite(y) and (y > 0 or not self.log_y)

    def placed(self, mark: Mark) -> Mark:
        """The mark; where it lies beside the picture, only its words."""
        axis = self.x_axis
        is_inside = mark.x is not None and axis.low <= mark.x <= axis.high and (mark.y is None or self._has_place(mark.y))
        return mark if is_inside else replace(mark, x=None)

    def labelled(self, label: str) -> "Chart":
        """The same with a label before each name."""
        if not label:
            return self
        lines = tuple(replace(line, name=f"{label}: {line.name}") for line in self.lines)
        return replace(self, lines=lines, marks=tuple(replace(mark, name=f"{label}: {mark.name}") for mark in self.marks))

    @property
    def in_words(self) -> str:
        """What is drawn, for who cannot see it."""
        drawn = [(line.name, [y for y in self.drawn(line) if not math.isnan(y)]) for line in self.lines if line.name]
        said = [f"{name} from {number(ys[0])} to {number(ys[-1])}" for name, ys in drawn if ys]
        return f"{self.title} by {self.x}: {', '.join([*said, *(mark.name for mark in self.marks)])}"
