"""A schedule as a line of text, and as a plot."""

import sys
import xml.etree.ElementTree as ET

import pytest
from matplotlib.figure import Figure

from drawn import points, ys
from instep import schedules
from instep.errors import DescriptionError, InstepError
from instep.schedules import WSD, Constant, Exponential, Linear, OneCycle, Schedule, Step, WarmRestarts, WarmupCosine, sparkline
from instep.schedules.charts import MOST_UPDATES
from instep.schedules.drawing import evenly, turning_rates
from tiny import make

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


def test_positions_by_hand() -> None:
    assert evenly(9, 5) == [0, 2, 4, 6, 8]
    assert evenly(3, 5) == [0, 1, 2]
    assert evenly(9, 1) == [0]


def test_plot_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    words = r'schedule.plot\(\) needs matplotlib, which is not installed; type: pip install "matplotlib>=3.8"'
    with pytest.raises(InstepError, match=words):
        OneCycle(0.1).plot()


def drawn(schedule: Schedule, total: int, base: float | None = None) -> list[tuple[int, float]]:
    """The points of the learning rate, on axes of one's own."""
    figure = Figure()
    axes = figure.subplots()
    assert schedule.plot(total, base, ax=axes) is figure
    assert axes.get_xlabel() == "update"
    (line,) = axes.lines
    return points(line)


def test_plot_by_hand() -> None:
    assert drawn(Linear(), 4) == [(0, 1.0), (1, 0.75), (2, 0.5), (3, 0.25)]
    assert drawn(Linear(), 4, 0.1)[2] == (2, 0.05)
    assert drawn(OneCycle([0.1, 0.3], pct_start=0.5), 20)[9] == (9, 0.3)


@pytest.mark.parametrize("schedule", [schedule for schedule, _ in EVERY], ids=lambda schedule: type(schedule).__name__)
def test_every_schedule_is_drawn_as_it_is(schedule: Schedule) -> None:
    """By matplotlib, and in a notebook without it."""
    from matplotlib import pyplot as plt

    figure = schedule.plot(200)
    rates = schedule.curve(200, schedule.default_base)
    lr = figure.axes[0]
    assert ys(lr.lines[0]) == [rates(position) for position in range(200)]
    momentum = schedule.momentum_curve(200)
    assert len(figure.axes) == (1 if momentum is None else 2)
    if momentum is not None:
        assert figure.axes[1].get_ylabel() == "Momentum"
        assert ys(figure.axes[1].lines[0]) == [momentum(position) for position in range(200)]
    assert lr.get_ylabel() == (
        "Learning rate" if isinstance(schedule, OneCycle) else "Learning rate (share of the optimizer's lr)"
    )
    plt.close(figure)
    text = schedule._repr_html_()
    pictures = list(ET.fromstring(text).iter("{http://www.w3.org/2000/svg}svg"))
    assert len(pictures) == len(figure.axes)
    assert "over 1,000 updates" in text


def test_a_long_run_is_drawn_by_some_of_its_updates() -> None:
    some = drawn(Linear(), 1_000_000)
    assert (len(some), some[0], some[-1][0]) == (MOST_UPDATES, (0, 1.0), 999_999)


def test_a_notebook_draws_a_run_that_the_schedule_fits_into() -> None:
    assert "over 10,000 updates" in WarmupCosine(2_000)._repr_html_()
    never = WarmupCosine(5_000_000)._repr_html_()
    assert never == "<div><p>WarmupCosine(warmup=5000000, final=0.0)</p></div>"


def test_plot_refuses() -> None:
    with pytest.raises(DescriptionError, match="total=0 updates cannot be drawn; use 1 or more"):
        Linear().plot(0)


def test_the_room_offers_what_it_says() -> None:
    for name in schedules.__all__:
        assert getattr(schedules, name) is not None
    assert callable(schedules.drive)
    import instep.schedules.drive  # noqa: F401  # the module of the same name does not take its place

    assert callable(schedules.drive)


def test_the_rates_at_which_a_schedule_turns() -> None:
    def peak(position: int) -> float:
        return 1.0 - abs(position - 12_345) / 100_000

    assert turning_rates(peak, 50_000) == [peak(0), 1.0, peak(49_999)]
    assert turning_rates(lambda position: 0.5**position, 3) == [1.0, 0.25]
    assert turning_rates(lambda position: 0.1, 1) == [0.1, 0.1]


def test_the_plan_shows_them() -> None:
    trainer = make(schedule=OneCycle(0.003), epochs=100)
    assert dict(trainer.run.plan_text().rows)["schedule"].endswith("█▇▇▆▅▄▄▃▂▂▁▁▁▁  0.00012 → 0.003 → 1.2e-08")
    assert dict(make(schedule=Constant()).run.plan_text().rows)["schedule"].endswith("█  0.1")
