"""Predictions, summarised."""

import math

import torch

from instep.report.predictions import named, render


def test_a_summary_has_the_range_and_the_first_samples() -> None:
    predictions = torch.arange(12.0).reshape(6, 2)
    assert render(predictions).splitlines() == [
        "predictions: 6 × float32 (2,), from 0.000 to 11.00, mean 5.500",
        "sample      0      1",
        "     0  0.000  1.000",
        "     1  2.000  3.000",
        "     2  4.000  5.000",
        "     3  6.000  7.000",
        "     4  8.000  9.000",
        "and 1 more",
    ]


def test_wide_and_odd_outputs() -> None:
    assert render(torch.zeros(1, 3, 4)).splitlines()[1:] == [
        "sample      0      1      2      3      4      5      6      7",
        "     0  0.000  0.000  0.000  0.000  0.000  0.000  0.000  0.000  …",
    ]
    assert render(torch.tensor([True, False])) == "predictions: 2 × bool\nsample      0\n     0   True\n     1  False"
    assert render(torch.tensor([1.0, math.nan])).splitlines()[0].endswith("mean nan; 1 are not finite")
    assert render(torch.zeros(0, 3)) == "predictions: 0 × float32 (3,)"
    assert render(["a", "b"]) == "predictions: ['a', 'b']"


def test_outputs_have_names() -> None:
    a, b = torch.zeros(2), torch.ones(2)
    assert named(a) == {"predictions": a}
    assert list(named((a, {"x": b, "y": (a, b)}))) == ["0", "1.x", "1.y.0", "1.y.1"]
