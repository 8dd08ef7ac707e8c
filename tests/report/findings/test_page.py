"""The page of findings: in a real browser, light and dark, wide and narrow; what it says of evidence, source and fix."""

from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from instep.cli.doctor_page import loss_charts, told
from instep.doctor.catalogue import CATALOGUE
from instep.doctor.curves import Curve
from instep.doctor.finding import Finding
from instep.report.findings.evidence import draw_evidence
from instep.report.findings.page import FindingsPage, mark_up, piece
from instep.report.findings.source import read_excerpt

SOURCE = "\n\nfor x, y in loader:\n    loss = f(model(x), y)  # <b>\n    loss.backward()\n    optimizer.step()\n\n"


@pytest.fixture
def page(tmp_path: Path) -> FindingsPage:
    (tmp_path / "train.py").write_text(SOURCE)
    findings = [
        Finding(
            "missing-zero-grad", "159 of 160 steps of SGD <used> old gradients.", where="train.py:6", since_step=1,
            evidence={"optimizer": "SGD", "steps": 160, "stale_steps": 159, "parameters": ["a.weight"]},
        ),
        Finding("clip-after-step", "late", where="train.py:60", fix="- clip()\n+ clip()", evidence={"limit": 0.5}),
        Finding("no-seed", "no seed", evidence={"steps": 160}),
    ]  # fmt: skip
    losses = [2.0 / (step + 1) for step in range(160)]
    curve = Curve("training loss", "train.py:5", list(range(160)), losses)
    return FindingsPage(
        script="train.py --epochs 3",
        findings=told(findings),
        steps=160,
        folder=tmp_path,
        charts=loss_charts([curve], findings),
        explanations={finding.id: CATALOGUE[finding.id].page for finding in findings},
    )


def test_what_stands_on_it(page: FindingsPage) -> None:
    text = page.text()
    assert '<span class="line marked"><span class="number">6</span>    optimizer.step()</span>' in text
    assert '<span class="number">4</span>    loss = f(model(x), y)  # &lt;b&gt;</span>' in text
    assert text.count('<pre class="source">') == 1  # the other line is not there
    assert "159 of 160 steps of SGD &lt;used&gt; old gradients." in text
    assert '<span class="gone">- clip()</span>\n<span class="new">+ clip()</span>' in text
    assert "<summary>More about missing-zero-grad</summary>" in text
    assert "batch 2: the step would use 15" in text  # the experiment is among it
    assert "missing-zero-grad from step 1" in text  # in the picture
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_evidence_is_drawn() -> None:
    drawn = draw_evidence({"optimizer": "SGD", "steps": 160, "stale_steps": 80, "share": 0.5, "names": ["a", "b"], "where": None})
    assert 'aria-label="steps 160, stale steps 80"' in drawn
    assert drawn.count('class="bar"') == 2
    assert 'style="width: 50.0%"' in drawn
    assert "<dt>share</dt><dd>0.5000</dd>" in drawn  # one number alone is no picture
    assert "<dt>names</dt><dd>a, b</dd>" in drawn
    assert "where" not in drawn
    assert 'class="bar"' not in draw_evidence({"calls": 1, "steps": 1_000_000})  # a bar that nobody sees
    assert 'class="bar"' not in draw_evidence({"calls": 0, "steps": 0})
    assert draw_evidence({}) == ""


def test_source_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    found = read_excerpt("a.py:1", tmp_path)
    assert found is not None
    assert found.numbered == [(1, "one", True)]
    for where in (None, "", "a.py", "a.py:0", "a.py:2", "b.py:1", "a.py:x"):
        assert read_excerpt(where, tmp_path) is None


def test_markdown_is_no_way_in() -> None:
    assert mark_up("a <script>x</script> `b`", inline=True) == "a &lt;script&gt;x&lt;/script&gt; <code>b</code>"


def test_a_piece_for_a_notebook(page: FindingsPage) -> None:
    findings: list[dict[str, Any]] = [{**one, "place": "line 6 of this cell: "} for one in page.findings]
    html = piece(findings, 160, page.folder)
    assert html.count("<details open") == 3
    assert "&gt;   6      optimizer.step()" in html
    assert piece([], 1, page.folder) == "<div><p>instep doctor: nothing to say in 1 step.</p></div>"


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (390, False)])
def test_in_a_browser(page: FindingsPage, tmp_path: Path, browser: Browser, width: int, dark: bool) -> None:
    path = tmp_path / "page.html"
    path.write_text(page.text())
    shown = browser.open(path.as_uri(), width=width, dark=dark)
    assert shown.run("document.documentElement.scrollWidth") <= width
    assert shown.run("document.querySelectorAll('article').length") == 3
    assert shown.run("document.querySelector('figure svg').getBoundingClientRect().height") > 100
    back, text = (shown.run(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color"))
    assert (back, text) == (("rgb(20, 23, 26)", "rgb(232, 234, 236)") if dark else ("rgb(252, 252, 251)", "rgb(29, 33, 37)"))
    assert shown.run("getComputedStyle(document.querySelector('.bar')).height") != "0px"  # the style sheet is let through
    assert shown.complaints == []
    assert shown.requests == []
    shown.close()
