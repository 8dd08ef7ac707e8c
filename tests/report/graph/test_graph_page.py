"""The page of a graph in a real browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import instep
from browser import Browser, Page
from instep.report.graph.graph import Graph
from instep.report.graph.layout import levels, place

HOSTILE = '</script><script>window.hit=1</script><img src=x onerror="window.hit=1">&amp;<!--'
Open = Callable[..., Page]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.add_module(HOSTILE.replace(".", ""), nn.Linear(4, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return self.head(y + y.detach().tanh())  # type: ignore[no-any-return]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a graph; at the end it must have said nothing and asked for nothing."""
    pages: list[Page] = []

    def open_page(graph: Graph, **how: Any) -> Page:
        pages.append(browser.open(graph.save(tmp_path / f"graph-{len(pages)}.html").as_uri(), **how))
        pages[-1].wait_for("page.svg.querySelectorAll('[data-item]').length > 0")
        return pages[-1]

    yield open_page
    for page in pages:
        assert page.complaints == []
        assert page.requests == []
        assert page.run("window.hit === undefined")
        page.close()


def graph_of_net() -> Graph:
    return instep.graph(Net(), torch.ones(2, 4))


def item(graph: Graph, label: str) -> str:
    (number,) = [number for number, group in enumerate(graph.drawing.groups) if group.label == label]
    return f"g{number}"


def shown(page: Page) -> set[str]:
    return set(page.run("[...page.svg.querySelectorAll('[data-item]')].map((one) => one.dataset.item)"))


def click(page: Page, name: str) -> None:
    box = page.run(
        f"(() => {{ const at = page.svg.querySelector('[data-item=\"{name}\"] > text').getBoundingClientRect(); "
        "return [at.x + 4, at.y + 4]; })()"
    )
    page.mouse("Moved", *box)
    page.mouse("Pressed", *box, held=True)
    page.mouse("Released", *box)


def test_a_module_closes_and_opens(opened: Open) -> None:
    graph = graph_of_net()
    page = opened(graph)
    everything = shown(page)
    assert len(everything) == len(graph.drawing.boxes) + len(graph.drawing.groups)
    body = item(graph, "body: Sequential")
    click(page, body)
    closed = shown(page)
    assert body in closed
    assert len(closed) == len(everything) - 3 - 9
    assert page.run(f"page.svg.querySelectorAll('path[data-from=\"{body}\"]').length") == 2
    assert page.run("document.getElementById('spoken').textContent") == "body: Sequential closed"
    page.run(f"page.svg.querySelector('[data-item=\"{body}\"]').focus()")
    page.press("Enter")
    assert shown(page) == everything
    page.run("document.getElementById('close-all').click()")
    assert len(shown(page)) == 4
    page.run("document.getElementById('open-all').click()")
    assert shown(page) == everything


def test_a_search_finds_and_shows(opened: Open) -> None:
    page = opened(graph_of_net())
    page.run("document.getElementById('close-all').click()")
    page.run("document.getElementById('search').focus()")
    for sign in "body relu":
        page.press(sign, text=sign)
    assert page.run("page.found.textContent") == "1 found"
    assert page.run("page.svg.querySelectorAll('.match').length") == 1
    page.press("Enter", text="\r")
    assert page.run("page.found.textContent") == "1 of 1"
    assert page.run("page.svg.querySelector('.chosen').textContent").startswith("Relu2 × 8")
    assert page.run("page.about.querySelector('h2').textContent") == "Relu"
    assert page.run("page.about.querySelector('td').textContent") == "result"


def test_keys_move_and_zoom(opened: Open) -> None:
    page = opened(graph_of_net())
    page.run("page.svg.focus()")
    before = page.run("page.view")
    page.press("ArrowRight")
    page.press("+", text="+")
    after = page.run("page.view")
    assert after["x"] > before["x"]
    assert after["width"] == pytest.approx(0.8 * before["width"])
    page.press("0", text="0")
    assert page.run("page.view") == before
    page.press("/", text="/")
    assert page.run("document.activeElement.id") == "search"


@pytest.mark.parametrize("closed", [False, True])
def test_the_browser_places_as_python_does(opened: Open, closed: bool) -> None:
    graph = graph_of_net()
    page = opened(graph)
    groups = frozenset([int(item(graph, "body: Sequential")[1:])]) if closed else frozenset()
    found = page.run(
        f"[...place(page.graph, new Set({sorted(groups)}))].map(([key, at]) => [key, at.x, at.y, at.width, at.height])"
    )
    expected = place(graph.drawing, levels(graph.drawing), groups)
    assert {key for key, *_ in found} == set(expected)
    for key, *at in found:
        one = expected[key]
        assert at == pytest.approx([one.x, one.y, one.width, one.height])


def test_the_table_says_what_is_kept(opened: Open) -> None:
    graph = graph_of_net()
    page = opened(graph)
    cells = page.run(
        "[...document.querySelectorAll('#memory tbody tr')].map((row) => [...row.children].map((c) => c.textContent))"
    )
    assert [cells[0][1], cells[0][3]] == ["Relu", "64 B"]
    assert sum(float(row[4].removesuffix(" %")) for row in cells) == pytest.approx(100, abs=1)
    page.run("document.querySelector('#memory tbody button').click()")
    assert page.run("page.svg.querySelector('.chosen').textContent").startswith("Relu")
    notes = page.run("[...document.querySelectorAll('.note')].map((note) => note.textContent)")
    assert notes[0].startswith("cut by detach in Net at test_graph_page.py:")
    assert "not reached: </script>" in notes[1]


def test_a_notebook_shows_the_page_in_a_frame(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "notebook.html"
    file.write_text(
        f"<!doctype html><meta charset=utf-8><script>page = {{}}</script>{graph_of_net()._repr_html_()}", encoding="utf-8"
    )
    page = browser.open(file.as_uri())
    assert page.complaints == []
    assert page.run("document.querySelector('iframe').srcdoc.includes('made by instep graph')")
    assert page.run("window.hit === undefined")
    page.screenshot(tmp_path / "notebook.png")
    page.close()


def test_a_difference_and_a_phone(opened: Open) -> None:
    first = instep.graph(nn.Sequential(nn.Linear(4, 4)), torch.ones(2, 4))
    second = instep.graph(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.ones(2, 4))
    page = opened(first.diff(second), width=390, height=800)
    assert page.run("[...page.svg.querySelectorAll('.second.box')].map((one) => one.querySelector('text').textContent)") == [
        "Tanh"
    ]
    assert page.run("document.documentElement.scrollWidth") <= 390


def test_a_thousand_nodes_open_within_seconds(opened: Open) -> None:
    layers = [nn.TransformerEncoderLayer(8, 2, 8, batch_first=True) for _ in range(14)]
    graph = instep.graph(nn.Sequential(*layers), torch.ones(2, 3, 8))
    assert len(graph.drawing.boxes) > 1_000
    page = opened(graph)
    assert len(shown(page)) < 100
    took_ms = page.run("(() => { const began = performance.now(); page.setClosed([]); return performance.now() - began; })()")
    assert len(shown(page)) > 1_000
    assert took_ms < 4_000
