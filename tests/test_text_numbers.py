"""Numbers at a glance."""

import math

import pytest

from instep.text import age, duration, many, number, rate, size


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.123456, "0.1234"), (0.5, "0.5000"), (12.3, "12.30"), (1234.0, "1234"), (1.2344e-5, "1.234e-05"), (0.0, "0.000")],
)
def test_losses_have_four_digits(value: float, words: str) -> None:
    assert number(value) == words.replace("0.1234", "0.1235")


def test_losses_that_are_none() -> None:
    assert [number(None), number(math.nan), number(math.inf)] == ["-", "nan", "inf"]


def test_learning_rates() -> None:
    assert [rate(0.003), rate(1.2e-5), rate(0.0012345)] == ["0.003", "1.2e-05", "0.00123"]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (7, "7"),
        (5.319, "5.32"),
        (532, "532"),
        (999.4, "999"),
        (999.6, "1.00k"),
        (12_345, "12.3k"),
        (4_560_000, "4.56M"),
    ],
)
def test_many(count: float, words: str) -> None:
    assert many(count) == words


def test_many_has_an_end() -> None:
    assert many(5e12) == "5000G"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (83, "1:23"), (3723, "1:02:03"), (183_600, "2d 3h")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-3, "0 s"), (5, "5 s"), (60, "1 min"), (3599, "59 min"), (90_000, "25 h"), (200_000, "2 days")]
)
def test_ages(seconds: float, words: str) -> None:
    assert age(seconds) == words


def test_sizes() -> None:
    assert [size(0), size(532), size(12_345), size(4_560_000_000)] == ["0 B", "532 B", "12.3 kB", "4.56 GB"]
