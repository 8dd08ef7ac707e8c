"""What matplotlib was given to draw."""

from typing import Any

from matplotlib.lines import Line2D


def xs(line: Line2D) -> list[Any]:
    data: Any = line.get_xdata()
    return list(data)


def ys(line: Line2D) -> list[Any]:
    data: Any = line.get_ydata()
    return list(data)


def points(line: Line2D) -> list[tuple[Any, Any]]:
    return list(zip(xs(line), ys(line), strict=True))
