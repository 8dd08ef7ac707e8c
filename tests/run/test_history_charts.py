"""Which columns of a history are drawn where, by matplotlib and in notebooks alike."""

import re
from typing import Any

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import told
from drawn import points
from instep.drawing.svg import draw
from instep.errors import DescriptionError
from instep.records import Evaluation
from instep.run.history import History
from instep.run.history.charts import MOST_METRICS, charts


@pytest.fixture
def history() -> History:
    history = History(monitor="valid/loss")
    for step in range(10, 61, 10):
        history.add_update(told.logged(step, 6.0 / step, extra={"norm": float(step)}))
        if step % 20 == 0:
            history.add_evaluation(told.evaluation(step, loss=abs(step - 40) + 1.0, accuracy=step / 100), seconds=1.0)
    return history


def drawn(figure: Figure) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """The curves by their axes and names, marks left out."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        lines = {str(line.get_label()): points(line) for line in axes.lines}
        found[axes.get_ylabel()] = lines
    return found


def test_losses_metrics_and_the_learning_rate(history: History) -> None:
    figure = history.plot()
    found = drawn(figure)
    assert list(found) == ["Loss", "accuracy", "Learning rate"]
    assert found["Loss"]["loss"] == history.curve("loss")
    assert found["Loss"]["valid/loss"] == [(20, 21.0), (40, 1.0), (60, 21.0)]
    assert found["Loss"]["best valid/loss 1.000 at step 40"] == [(40, 1.0)]
    assert found["accuracy"] == {"valid/accuracy": [(20, 0.2), (40, 0.4), (60, 0.6)]}
    assert found["Learning rate"] == {"lr": history.curve("lr")}
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "step"]  # they share it
    plt.close(figure)


def test_columns_by_name_share_a_chart_where_they_belong_together(history: History) -> None:
    figure = history.plot("norm", "valid/loss", "loss", "samples_per_s", log=True)
    found = drawn(figure)
    assert {title: list(lines) for title, lines in found.items()} == {
        "norm": ["norm"],
        "Loss": ["valid/loss", "loss", "best valid/loss 1.000 at step 40"],
        "Samples per second": ["samples_per_s"],
    }
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    plt.close(figure)


def test_log_is_for_the_losses_where_nobody_names_columns(history: History) -> None:
    assert [chart.log_y for chart in charts(history, log=True)] == [True, False, False]


def test_on_axes_of_ones_own_all_is_one_chart(history: History) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert history.plot(ax=left) is figure
    history.plot("lr", "norm", ax=right)
    assert list(drawn(figure)) == ["Loss", "Learning rate, norm"]
    assert len(drawn(figure)["Learning rate, norm"]) == 2


def test_several_runs_on_one_ax_can_be_told_apart(history: History) -> None:
    axes = Figure().subplots()
    for label in ("a", "b"):
        history.plot("valid/loss", ax=axes, label=label)
    curve, mark, other, other_mark = axes.lines
    assert [line.get_label() for line in (curve, other)] == ["a: valid/loss", "b: valid/loss"]
    assert other_mark.get_label() == "b: best valid/loss 1.000 at step 40"
    assert curve.get_color() == mark.get_color() != other.get_color() == other_mark.get_color()


def test_names_stay_as_they_are() -> None:
    """Also those that matplotlib would take for a formula, or leave out of the legend."""
    history = History()
    for step in (1, 2):
        history.add_update(told.logged(step, extra={r"cost $\fra": 1.0, "_own": 2.0}))
    figure = Figure()
    axes = figure.subplots()
    history.plot(r"cost $\fra", "_own", ax=axes)
    figure.canvas.draw()
    assert axes.get_legend_handles_labels()[1] == [r"cost \$\fra", " _own"]


def test_a_best_value_that_has_no_place_on_a_logarithmic_axis() -> None:
    history = History()
    for step, loss in ((1, 2.0), (2, 0.0)):
        history.add_evaluation(Evaluation({"valid/loss": loss}, step), seconds=0.0)
    history.plot(ax=Figure().subplots(), log=True)
    (chart,) = charts(history, log=True)
    assert "best valid/loss 0.000 at step 2</text>" in draw(chart)


def test_the_loss_of_the_first_objective_can_be_asked_for() -> None:
    history = History()
    for step in (1, 2):
        history.add_update(told.logged(step, 1.0, extra={"loss/g": 1.0, "loss/d": 2.0}))
    assert [line.name for line in charts(history)[0].lines] == ["loss/g", "loss/d"]
    assert [line.name for line in charts(history, ["loss"])[0].lines] == ["loss"]


def test_of_many_metrics_the_first_few() -> None:
    history = History()
    for step in (1, 2):
        history.add_evaluation(Evaluation({f"valid/m{place}x": 1.0 for place in range(9)}, step), seconds=0.0)
    assert len(charts(history)) == MOST_METRICS


@pytest.mark.parametrize("name", ["valid/los", "step"])
def test_a_name_that_is_none(history: History, name: str) -> None:
    words = (
        f"the history has no column {name!r} to draw; it has: loss, valid/loss, valid/accuracy, lr, norm, samples_per_s, waiting."
    )
    with pytest.raises(DescriptionError, match=re.escape(words)):
        history.plot("loss", name)


def test_nothing_to_draw() -> None:
    with pytest.raises(DescriptionError, match="the history has nothing to draw yet; train first"):
        History().plot()
    with pytest.raises(DescriptionError, match="nothing to draw yet"):
        History().plot(ax=Figure().subplots())


def test_a_notebook_has_the_same_pictures_without_matplotlib(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    text = history._repr_html_()
    assert re.findall(r'aria-label="([^"]*)"', text) == [
        "Loss by step: loss from 0.6000 to 0.1000, valid/loss from 21.00 to 21.00, best valid/loss 1.000 at step 40",
        "accuracy by step: valid/accuracy from 0.2000 to 0.6000",
        "Learning rate by step: lr from 0.003000 to 0.003000",
    ]
