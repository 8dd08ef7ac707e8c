"""What matplotlib draws of a chart."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from drawn import points
from instep.drawing.chart import Chart, Line, Mark
from instep.drawing.figure import plot, save
from instep.errors import DescriptionError, InstepError

LOSS = Chart("Loss", "step", (Line("loss", [1, 2, 3], [3.0, None, 1.0]),), (Mark("best", 3, 1.0, 1),))
RATE = Chart("Learning rate", "step", (Line("", [1, 2, 3], [0.1, 0.2, 0.1]),), log_y=True)


@pytest.fixture(autouse=True)
def drawn_nowhere() -> Iterator[None]:
    before = mpl.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def test_the_numbers_are_those_of_the_chart() -> None:
    figure = plot([LOSS, RATE], "it")
    loss, rate = figure.axes
    first, gap, last = points(loss.lines[0])
    assert (first, last) == ((1, 3.0), (3, 1.0))
    assert math.isnan(gap[1])
    assert points(loss.lines[1]) == [(3, 1.0)]
    assert (loss.get_ylabel(), loss.get_yscale()) == ("Loss", "linear")
    assert (rate.get_ylabel(), rate.get_yscale(), rate.get_xlabel()) == ("Learning rate", "log", "step")
    assert plt.fignum_exists(figure.number)  # so that pyplot.show() shows it


def test_the_legend_stands_beside_the_curves() -> None:
    figure = plot([LOSS, RATE], "it")
    figure.canvas.draw()
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["loss", "best"]
    assert legend.get_window_extent().y0 >= figure.axes[0].get_window_extent().y1 - 1
    assert legend.get_window_extent().y1 <= figure.bbox.y1
    assert figure.axes[1].get_legend() is None


def test_on_axes_of_ones_own() -> None:
    figure, axes = plt.subplots(1, 2)
    assert plot([LOSS], "it", ax=axes[1]) is figure
    assert not axes[0].lines
    assert len(axes[1].lines) == 2
    assert len(plt.get_fignums()) == 1


def test_a_mark_beside_the_picture_is_in_the_legend_alone() -> None:
    chart = Chart("Loss", "lr", (Line("loss", [0.1, 1.0], [1.0, 2.0]),), (Mark("far", 99.0), Mark("none", None)), log_x=True)
    axes = plot([chart], "it").axes[0]
    assert axes.get_xlim()[1] < 2
    assert axes.get_legend_handles_labels()[1] == ["loss", "far", "none"]


def test_a_notebook_shows_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the value of a cell; a figure that pyplot knows would be shown at its end again."""
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    figure = plot([LOSS], "it")
    assert not plt.get_fignums()
    assert isinstance(figure, Figure)


@pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_saved(ending: str, start: bytes, tmp_path: Path) -> None:
    path = save([LOSS, RATE], tmp_path / f"picture{ending}", "it")
    assert path.read_bytes().startswith(start)
    assert not plt.get_fignums()


def test_saved_under_a_name_that_says_no_format(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"picture.jpeg ends in .jpeg; use .png, .svg or .pdf."):
        save([LOSS], tmp_path / "picture.jpeg", "it")
    with pytest.raises(DescriptionError, match=r"picture ends in nothing; use"):
        save([LOSS], tmp_path / "picture", "it")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    words = r'history.plot\(\) needs matplotlib, which is not installed; type: pip install "matplotlib>=3.8"'
    with pytest.raises(InstepError, match=words):
        plot([LOSS], "history.plot()")
    with pytest.raises(InstepError, match="needs matplotlib"):
        save([LOSS], tmp_path / "a.png", "it")


def test_what_matplotlib_itself_lacks_is_not_called_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("matplotlib", "kiwisolver")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kiwisolver", None)
    with pytest.raises(ModuleNotFoundError, match="kiwisolver"):
        plot([LOSS], "it")
