"""How often, as users say it."""

import pytest

from instep.loop.interval import Interval, parse_interval


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (None, Interval()),
        (500, Interval(updates=500)),
        ("epoch", Interval(updates=7)),
        ("1 epoch", Interval(updates=7)),
        ("3 epochs", Interval(updates=21)),
        ("500 updates", Interval(updates=500)),
        ("1 minute", Interval(seconds=60.0)),
        ("0.5 minutes", Interval(seconds=30.0)),
        (" 2   epochs ", Interval(updates=14)),
    ],
)
def test_what_is_known(every: object, expected: Interval) -> None:
    assert parse_interval(every, 7) == expected


@pytest.mark.parametrize(
    "every",
    [
        0,
        -1,
        True,
        1.5,
        "",
        "epochs",
        "0 epochs",
        "-1 epochs",
        "1.5 epochs",
        "2 steps",
        "0 minutes",
        "1.2.3 minutes",
        "ten minutes",
    ],
)
def test_what_is_not(every: object) -> None:
    assert parse_interval(every, 7) is None
