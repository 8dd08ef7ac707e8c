"""A schedule as a line of text, and as a plot."""

import sys
from types import ModuleType
from typing import Any

import pytest

from instep import schedules
from instep.errors import DescriptionError, InstepError
from instep.schedules import WSD, Constant, Exponential, Linear, OneCycle, Schedule, Step, WarmRestarts, WarmupCosine, sparkline
from instep.schedules.drawing import blocks

EVERY = [
    (OneCycle(0.1), "▁▂▆███▆▅▃▂▁▁"),
    (OneCycle([0.1, 0.2], anneal="linear"), "▁▃▆██▇▆▅▄▃▂▁"),
    (Constant(), "████████████"),
    (WarmupCosine(0.2), "▁▄███▇▅▄▃▂▁▁"),
    (Linear(), "██▇▆▆▅▄▃▃▂▁▁"),
    (WSD(0.2, 0.2), "▁▄████████▄▁"),
    (Step(0.25, factor=0.5), "███▅▅▅▃▃▃▂▂▂"),
    (Exponential(half_life=0.2), "█▆▅▄▃▂▂▁▁▁▁▁"),
    (WarmRestarts(0.25), "█▆▂█▅▁█▄▁▇▃▁"),
]


@pytest.mark.parametrize(("schedule", "line"), EVERY, ids=[type(schedule).__name__ for schedule, _ in EVERY])
def test_sparkline(schedule: Schedule, line: str) -> None:
    assert sparkline(schedule, 1000, width=12) == line


def test_sparkline_of_a_function() -> None:
    assert sparkline(lambda position: position, 8, width=8) == "▁▂▃▄▅▆▇█"
    assert sparkline(lambda position: 0.0, 8) == "▁" * 8


def test_sparkline_is_no_wider_than_the_run() -> None:
    assert len(sparkline(OneCycle(0.1), 1_000_000)) == 40
    assert len(sparkline(OneCycle(0.1), 7)) == 7
    assert sparkline(OneCycle(0.1), 1) == "█"
    assert sparkline(OneCycle(0.1), 100, width=1) == "█"


def test_sparkline_refuses() -> None:
    with pytest.raises(DescriptionError, match="total=0 updates in width=40 characters cannot be drawn; use 1 or more of each"):
        sparkline(Linear(), 0)
    with pytest.raises(DescriptionError, match="total=9 updates in width=0 characters"):
        sparkline(Linear(), 9, width=0)
    with pytest.raises(DescriptionError, match="warmup=10 leaves nothing of the run of 5"):
        sparkline(WarmupCosine(10), 5)


def test_blocks_by_hand() -> None:
    assert blocks([0, 1 / 8 - 1e-9, 1 / 8, 0.5, 1]) == "▁▁▂▅█"


def test_plot_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        InstepError, match="needs matplotlib, which is not installed; type `pip install matplotlib`, or see the shape"
    ):
        OneCycle(0.1).plot()


class Axes:
    """Keeps what is drawn."""

    def plot(self, x: Any, y: Any) -> None:
        self.points = list(zip(x, y, strict=True))

    def set(self, **labels: str) -> None:
        self.labels = labels


def test_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = ModuleType("matplotlib.pyplot")
    pyplot.subplots = lambda: (None, Axes())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    axes = Linear().plot(total=4)
    assert axes.points == [(0, 1.0), (1, 0.75), (2, 0.5), (3, 0.25)]
    assert axes.labels == {"title": "Linear", "xlabel": "update", "ylabel": "lr"}
    assert Linear().plot(total=4, base=0.1).points[2] == (2, 0.05)
    assert OneCycle([0.1, 0.3], pct_start=0.5).plot(total=20).points[9] == (9, 0.3)


def test_the_room_offers_what_it_says() -> None:
    for name in schedules.__all__:
        assert getattr(schedules, name) is not None
    assert callable(schedules.drive)
    import instep.schedules.drive  # noqa: F401  # the module of the same name does not take its place

    assert callable(schedules.drive)
