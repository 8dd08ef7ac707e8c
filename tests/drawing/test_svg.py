"""The picture has the numbers that it was given, and hides none of them."""

import math
import re
from xml.etree import ElementTree as ET

import pytest

from instep.drawing.chart import COLOURS, Chart, Line, Mark
from instep.drawing.svg import HEIGHT, LEFT, RIGHT, TOP, WIDTH, draw

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart: Chart) -> ET.Element:
    return ET.fromstring(draw(chart))


def points(chart: Chart) -> list[list[tuple[float, float]]]:
    """The curves as they are drawn, back in the numbers of the axes."""
    across, up = chart.x_axis, chart.y_axis
    return [
        [
            (across.low + (x - LEFT) / WIDTH * (across.high - across.low), up.high - (y - TOP) / HEIGHT * (up.high - up.low))
            for x, y in (map(float, pair.split(",")) for pair in line.attrib["points"].split())
        ]
        for line in parsed(chart).iter(f"{SVG}polyline")
    ]


def test_the_points_are_those_of_the_curve() -> None:
    losses = [2.0, 1.0, 0.5, 0.75]
    (drawn,) = points(Chart("Loss", "step", (Line("loss", [10, 20, 30, 40], losses),)))
    assert [x for x, _ in drawn] == pytest.approx([10, 20, 30, 40], abs=0.05)
    assert [y for _, y in drawn] == pytest.approx(losses, abs=0.01)


def test_a_long_curve_keeps_its_spike() -> None:
    values: list[float | None] = [1.0] * 100_000
    values[77_777] = 50.0
    text = draw(Chart("Loss", "step", (Line("loss", range(100_000), values),)))
    assert len(text) < 12_000
    (drawn,) = points(Chart("Loss", "step", (Line("loss", range(100_000), values),)))
    assert max(y for _, y in drawn) == pytest.approx(50.0, abs=0.3)


def test_gaps_are_left_open_and_a_point_alone_is_a_dot() -> None:
    chart = Chart("Loss", "step", (Line("loss", range(7), [1.0, 2.0, None, math.nan, 3.0, math.inf, 4.0]),))
    assert len(points(chart)) == 1
    assert len(list(parsed(chart).iter(f"{SVG}circle"))) == 2
    assert "nan" not in draw(chart)
    assert "inf" not in draw(chart)


def test_a_logarithmic_axis_has_no_place_for_0() -> None:
    chart = Chart("Loss", "step", (Line("loss", range(4), [0.0, 1.0, 10.0, 100.0]),), log_y=True)
    (line,) = parsed(chart).iter(f"{SVG}polyline")
    ys = [float(pair.split(",")[1]) for pair in line.attrib["points"].split()]
    assert len(ys) == 3
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2)


def test_evaluations_have_dots_and_marks_a_ring() -> None:
    line = Line("valid/loss", [1, 2, 3], [3.0, 1.0, 2.0], has_dots=True)
    picture = parsed(Chart("Loss", "step", (line,), (Mark("best", 2, 1.0),)))
    circles = list(picture.iter(f"{SVG}circle"))
    assert len(circles) == 3 + 2
    ring = next(circle for circle in circles if circle.attrib["r"] == "6")
    assert float(ring.attrib["cx"]) == LEFT + WIDTH / 2


def test_all_is_named_under_the_field() -> None:
    names = [f"a rather long name of a curve, number {place}" for place in range(6)]
    chart = Chart("Loss", "step", tuple(Line(name, [0, 1], [0.0, 1.0], place) for place, name in enumerate(names)))
    picture = parsed(chart)
    texts = {text.text: text for text in picture.iter(f"{SVG}text")}
    assert {*names, "Loss", "step"} <= set(texts)
    assert all(float(texts[name].attrib["y"]) > TOP + HEIGHT + 34 for name in names)
    assert all(float(texts[name].attrib["y"]) < float(picture.attrib["height"]) for name in names)
    assert len({(texts[name].attrib["x"], texts[name].attrib["y"]) for name in names}) == 6
    assert int(picture.attrib["width"]) == LEFT + WIDTH + RIGHT


def test_names_cannot_leave_their_place() -> None:
    text = draw(Chart('<script>"', "step", (Line('"><script>', [0, 1], [0.0, 1.0]),)))
    ET.fromstring(text)
    assert "<script" not in text


def test_it_is_said_in_words_too() -> None:
    chart = Chart("Loss", "step", (Line("loss", [0, 1], [2.0, 0.5]),), (Mark("best at step 1", 1, 0.5),))
    assert parsed(chart).attrib["aria-label"] == "Loss by step: loss from 2.000 to 0.5000, best at step 1"


@pytest.mark.parametrize("page", ["#ffffff", "#111111", "#1e1e1e"])
def test_each_colour_can_be_told_from_a_light_and_a_dark_page(page: str) -> None:
    contrasts = {colour: contrast(colour, page) for colour in COLOURS}
    assert min(contrasts.values()) >= 3, contrasts


def contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines define it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part, 16) / 255 for part in re.findall("..", colour.removeprefix("#"))]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
