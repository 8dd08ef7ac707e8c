"""docs/learn: each page runs, prints what it shows, has a figure of its own experiment, and names mistakes the doctor knows."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from blocks import blocks

ROOT = Path(__file__).parent.parent
LEARN = ROOT / "docs" / "learn"
PAGES = sorted(page for page in LEARN.glob("*.md") if page.stem != "index")
# Their curves depend on how torch draws a mask, or on where a range test ends: of these figures the words are compared.
LOOSE = {"modes", "one-cycle", "cycles"}
PIXELS = 3.0


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "lessons.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_lesson_runs_and_its_figure_shows_it(page: Path, tool: dict[str, Any]) -> None:
    (code,) = blocks(page)
    assert any(shown for _, shown in code.pieces)
    drawn = tool["figure"](page.stem, code.check())
    kept = (LEARN / "figures" / f"{page.stem}.svg").read_text(encoding="utf-8")
    assert words(drawn) == words(kept), f"python tools/lessons.py {page.stem} draws it again"
    if page.stem not in LOOSE:
        assert points(drawn) == pytest.approx(points(kept), abs=PIXELS)


def words(svg: str) -> list[str]:
    """Titles, names and labels; not the numbers at the axes."""
    return [text for text in re.findall(r"<text[^>]*>([^<]+)</text>", svg) if not re.fullmatch(r"[-\d.,e+]+", text)]


def points(svg: str) -> list[float]:
    return [float(number) for line in re.findall(r'points="([^"]+)"', svg) for number in re.split("[ ,]", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_lesson_is_short_and_says_what_it_is_for(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.match(r"# [^\n]+\n\nAfter this page you ", text)
    assert re.search(rf"!\[[^\]]{{40,}}\]\(figures/{page.stem}\.svg\)", text)
    assert re.search(r"- The doctor finds .*\]\(\.\./doctor\.md#", text)
    assert len(text.split("\n")) < 140
    assert f"({page.name})" in (LEARN / "index.md").read_text(encoding="utf-8")


def test_every_mistake_is_in_the_catalogue() -> None:
    catalogue = set(re.findall(r"^#### (\S+)$", (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (name, anchor)
        for page in PAGES
        for name, anchor in re.findall(r"\[([\w-]+)\]\(\.\./doctor\.md#([\w-]+)\)", page.read_text(encoding="utf-8"))
    }
    assert all(name == anchor for name, anchor in named)
    assert {name for name, _ in named} <= catalogue
    assert len(named) > 40


def test_the_figures_are_small_and_can_be_read_in_the_dark() -> None:
    figures = sorted((LEARN / "figures").iterdir())
    assert [figure.stem for figure in figures] == [page.stem for page in PAGES]
    for figure in figures:
        text = figure.read_text(encoding="utf-8")
        assert len(text) < 20_000
        assert "prefers-color-scheme:dark" in text
        assert "<script" not in text
