"""The range test on runs whose right answer is known, and how its result is shown."""

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from drawn import points, ys
from instep.data import digits
from instep.errors import DescriptionError
from instep.tuning.range_test import RangeTest, find_lr
from instep.tuning.sweep import BEFORE
from tuning.curves import TYPICAL, curve
from tuning.toyrun import ToyRun, bowl_run

# --- Where the right answer is known


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.3])
@pytest.mark.parametrize("curvatures", [(10.0,), (100.0, 1.0), (30.0, 3.0, 0.3, 0.03)])
def test_gradient_descent_in_a_bowl_diverges_above_two_over_the_curvature(curvatures: tuple[float, ...], noise: float) -> None:
    test = find_lr(bowl_run(*curvatures, noise=noise))
    limit = 2 / max(curvatures)
    assert test.suggestion is not None
    assert 0.1 * limit < test.suggestion < limit
    assert test.recommendation.rule == "before divergence"


def test_with_momentum_the_limit_is_another() -> None:
    """With momentum m gradient descent diverges above 2·(1 + m) / λ."""
    run = bowl_run(10.0, momentum=0.0)
    test = find_lr(run, momentum=0.85)
    assert test.suggestion is not None
    assert 0.1 < test.suggestion / (2 * 1.85 / 10) < 1.0
    assert test.losses != find_lr(run).losses
    assert run.optimizer.param_groups[0]["momentum"] == 0.0


def digits_run(make: Any, *, hidden: int = 128, **options: Any) -> ToyRun:
    torch.manual_seed(0)
    x, y = digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    optimizer = make(model.parameters(), **options)
    return ToyRun(model, optimizer, lambda m, batch: cross_entropy(m(batch[0]), batch[1]), (x, y), batch_size=64)


@pytest.mark.parametrize(
    ("make", "options", "low", "high"),
    [
        # Where one-cycles of 100 to 400 updates came out within 1.5 times the best validation error of a whole grid.
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.85}, 0.1, 0.6),
        (torch.optim.Adam, {"lr": 1e-3}, 0.008, 0.08),
    ],
)
def test_the_digits(make: Any, options: dict[str, Any], low: float, high: float) -> None:
    test = find_lr(digits_run(make, **options))
    assert test.suggestion is not None
    assert low < test.suggestion < high
    assert test.confidence > 0.4
    for name, lr in test.rules.items():
        assert lr is not None, name
        assert 1e-3 < lr < 1.0, name  # none of them is lost in the noise at the beginning


def test_a_model_that_was_trained_gets_a_doubtful_but_sensible_answer() -> None:
    run = digits_run(torch.optim.Adam, lr=1e-3)
    updates = run.rehearse(0)
    for group in run.optimizer.param_groups:
        group["lr"] = 0.01
    for _ in range(400):
        next(updates)
    test = find_lr(run)
    assert test.suggestion is not None
    assert 1e-4 < test.suggestion < 0.05


def test_the_same_test_gives_the_same_answer_and_the_repeats_are_on_other_batches() -> None:
    run = digits_run(torch.optim.Adam, lr=1e-3)
    run.step = 7
    first = find_lr(run, steps=40)
    again = find_lr(run, steps=40)
    assert first.to_json() == again.to_json()
    assert run.starts == [7, 7 + BEFORE + 41] * 2
    assert first.sweeps[0].losses != first.sweeps[1].losses
    run.step = 8
    assert find_lr(run, steps=40).losses != first.losses


# --- Where there is none


def test_a_frozen_model_is_flat() -> None:
    run = digits_run(torch.optim.SGD, lr=0.1)
    model = nn.Sequential(run.model, nn.Linear(10, 10))
    useless = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([useless], lr=0.1)
    flat = ToyRun(model, optimizer, lambda m, b: cross_entropy(m(b[0]), b[1]) + 0 * useless.sum(), digits(), batch_size=256)
    test = find_lr(flat)
    assert test.suggestion is None
    assert test.confidence == 0.0
    assert test.reason.startswith("flat: from lr 1e-07 to 10 the loss stays at 2.3")


def test_a_range_that_begins_too_high_diverges_at_once() -> None:
    test = find_lr(bowl_run(10.0), low=1.0, high=1e4)
    assert test.suggestion is None
    assert test.reason.startswith("it diverges at once: the loss has risen at lr 1")
    assert len(test.lrs) < 30  # it did not go on to the end


def test_noise_is_said_to_be_noise() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    data = (torch.randn(256, 4), 100 * torch.randn(256, 1) * torch.randn(256, 1) ** 4)
    run = ToyRun(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda m, b: mse_loss(m(b[0]), b[1]), data, batch_size=1)
    test = find_lr(run, high=1e-5)
    assert test.suggestion is None
    assert test.reason.startswith("noise:")


def test_a_loss_that_still_falls_at_the_end_is_followed_with_half_the_confidence() -> None:
    test = find_lr(bowl_run(1.0), high=0.2)
    assert test.recommendation.rule == "steepest"
    assert test.confidence <= 0.5
    assert "a larger high= would show where it breaks" in test.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"repeats": 0}, "repeats=0 must be a whole number, 1 or more"),
        ({"low": -1}, "low=-1 "),
        ({"momentum": 2.0}, "momentum=2.0 is none to test with; use a number from 0 to below 1, such as 0.85"),
        ({"momentum": -1.0}, "momentum=-1.0 is none"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        find_lr(bowl_run(1.0), **options)


# --- How it is shown

SHOWN = RangeTest((TYPICAL, TYPICAL))


def test_the_result_has_all_its_parts() -> None:
    assert SHOWN.lrs == TYPICAL.lrs
    assert SHOWN.losses == TYPICAL.losses
    assert SHOWN.smoothed == TYPICAL.losses
    assert set(SHOWN.rules) == {"before divergence", "steepest", "valley", "minimum / 10"}
    assert SHOWN.suggestion == pytest.approx(0.1 / 1.5)


def test_repr_is_one_line() -> None:
    assert repr(SHOWN) == (
        "RangeTest(suggestion 0.067, confidence 0.37: the loss falls from 2 to 0.2 at lr 0.1 and has risen at lr 10; "
        "this is a little below lr 0.1, up to where it stays there.)"
    )
    assert repr(RangeTest((curve([2.0] * 5),))).startswith("RangeTest(suggestion none: flat: ")


def test_as_text() -> None:
    lines = str(SHOWN).splitlines()
    assert lines[0].split()[0] == "2.630"  # the level and a third of the fall
    assert lines[9].split()[0] == "0.2000"
    assert lines[11].split() == ["1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1", "10"]
    column = lines[12].index("▲")
    assert lines[11].index("0.01") < column < lines[11].index("0.1 ")  # the mark stands under its learning rate
    assert "  ▲  before divergence  0.0667" in lines
    assert "  v  valley             0.00464" in lines
    assert " ".join(lines[-4:]).startswith(
        "suggestion 0.0667 (confidence 0.37 of 1: the rules agree in part, the passes agree well): the"
    )
    assert max(map(len, lines)) <= 80
    assert "no suggestion: flat: " in str(RangeTest((curve([2.0] * 5),)))


@pytest.mark.parametrize(
    "shown",
    [
        SHOWN,
        RangeTest((curve([2.0] * 5),)),
        RangeTest((curve([math.inf]),)),
        RangeTest((curve([-3.0, -9.0, 8.0], before=(-3.0,) * 9),)),
    ],
)
def test_any_curve_can_be_drawn(shown: RangeTest) -> None:
    picture = ET.fromstring(shown.to_svg())
    assert picture.tag.endswith("svg")
    assert "nan" not in shown.to_svg()
    assert str(shown)
    ET.fromstring(shown._repr_html_())
    json.loads(shown.to_json())


def test_the_picture_has_a_line_for_each_sweep_and_each_rule() -> None:
    picture = SHOWN.to_svg()
    assert picture.count("<polyline") == 3  # two sweeps and their smoothed mean
    assert picture.count("stroke-dasharray") == 3  # the rules that are not followed
    assert "before divergence: 0.0667 (suggested)" in picture
    assert "minimum / 10: 0.01<" in picture
    assert "does not apply" in RangeTest((curve([2.0] * 5),)).to_svg()


def test_what_is_followed_in_a_notebook_is_said_under_the_picture() -> None:
    html = RangeTest((curve([2.0, 2.0, 2.0]),))._repr_html_()
    assert html.startswith("<div><svg")
    assert "<p>no suggestion: flat" in html


def test_plot_has_the_curves_and_the_reason() -> None:
    figure = Figure()
    axes = figure.subplots()
    assert SHOWN.plot(ax=axes) is figure
    *sweeps, smoothed = axes.lines[:3]
    assert points(smoothed) == list(zip(SHOWN.lrs, SHOWN.smoothed, strict=True))
    assert [ys(line) for line in sweeps] == [sweep.capped for sweep in SHOWN.sweeps]
    assert axes.get_xscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("learning rate", "Loss")
    assert "before divergence: 0.0667 (suggested)" in axes.get_legend_handles_labels()[1]
    (caption,) = axes.texts
    assert caption.get_text().startswith("suggestion 0.0667 (confidence 0.37 of 1: the rules agree ")


def test_json_has_everything() -> None:
    broken = curve([2.0, 1.0, 0.2, math.inf])
    told = json.loads(RangeTest((broken, broken)).to_json())
    assert told["lrs"] == list(broken.lrs)
    assert told["sweeps"] == [[2.0, 1.0, 0.2, None]] * 2
    assert set(told) == {"suggestion", "rule", "reason", "confidence", "rules", "lrs", "losses", "smoothed", "sweeps"}


def test_it_is_saved_by_the_ending_of_the_name(tmp_path: Path) -> None:
    svg = SHOWN.save(tmp_path / "range.svg")
    assert "background: white" in svg.read_text()
    assert json.loads(SHOWN.save(str(tmp_path / "range.json")).read_text())["suggestion"] == SHOWN.suggestion
    with pytest.raises(DescriptionError, match=r"range.gif ends in .gif; use .svg, .png, .pdf or .json"):
        SHOWN.save(tmp_path / "range.gif")
    assert SHOWN.save(tmp_path / "range.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(DescriptionError, match="range ends in nothing"):
        SHOWN.save(tmp_path / "range")
