"""The page in a real browser: what it shows, what it refuses, and that everybody can use it."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import told
from browser import Browser, Page
from instep.report.page.document import document
from instep.report.page.html import page as render
from instep.run.history import HistoryFile
from instep.run.observed import add_range_test, keep_findings
from instep.run.run_files import read_run

Open = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of some runs; at the end it must have said nothing and asked for nothing."""
    pages: list[Page] = []

    def open_page(*runs: Path, samples: Any = None, **how: Any) -> Page:
        file = tmp_path / f"page-{len(pages)}.html"
        file.write_text(render(document([read_run(run) for run in runs], samples)), encoding="utf-8")
        pages.append(browser.open(file.as_uri(), **how))
        pages[-1].wait_for("page.panels.length === 0 || page.panels[0].plot !== null")
        return pages[-1]

    yield open_page
    for page in pages:
        assert page.complaints == []
        assert page.requests == []
        page.close()


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")
    return found


def drawn(page: Page, title: str, place: int = 0) -> list[list[float | None]]:
    """What uPlot has of a curve."""
    script = f"""(() => {{
        const panel = page.panels.find((one) => one.spec.title === {json.dumps(title)});
        panel.draw();
        const [steps, values] = [panel.plot.data[0], panel.plot.data[{1 + 2 * place}]];
        return steps.map((step, at) => [step, values[at] ?? null]).filter(([, value]) => value !== null);
    }})()"""
    found: list[list[float | None]] = page.run(script)
    return found


def write_rows(run: Path, rows: list[dict[str, Any]]) -> Path:
    (run / "history.jsonl").unlink(missing_ok=True)
    file = HistoryFile(run / "history.jsonl")
    for row in rows:
        file.append(row)
    return run


def test_the_numbers_are_those_of_the_history(opened: Open, tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "digits")
    history = read_run(run).history
    page = opened(run)
    assert texts(page, "h1") == ["digits"]
    for title, place, name in [
        ("Loss", 0, "loss"),
        ("Loss", 1, "valid/loss"),
        ("accuracy", 0, "valid/accuracy"),
        ("Learning rate", 0, "lr"),
    ]:
        assert drawn(page, title, place) == [list(point) for point in history.curve(name)]
    rates = [[row["step"], row["clock"]["samples_per_s"]] for row in history.updates]
    assert drawn(page, "Samples per second") == rates
    best = history.best
    assert best is not None
    cards = dict(zip(texts(page, ".numbers dt"), texts(page, ".numbers dd:nth-of-type(1)"), strict=True))
    assert float(cards["best valid/accuracy"]) == best["valid/accuracy"]
    assert texts(page, "tr.marked th, tr.marked td")[:2] == [str(best["epoch"] + 1), str(best["step"])]


def test_the_table_behind_a_chart_holds_its_values(opened: Open, tmp_path: Path) -> None:
    page = opened(told.run_folder(tmp_path / "digits"))
    page.run("document.querySelector('.panel details').open = true")
    page.wait_for("document.querySelector('.panel table') !== null")
    cells = page.run(
        "[...document.querySelectorAll('.panel:first-child tbody tr')].map((row) => [...row.children].map((c) => c.textContent))"
    )
    history = read_run(tmp_path / "digits").history
    assert [[float(row[0]), float(row[1])] for row in cells if row[1]] == [list(point) for point in history.curve("loss")]


@pytest.mark.parametrize("length", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_history_is_small_and_keeps_its_spike(opened: Open, tmp_path: Path, length: int) -> None:
    run = told.run_folder(tmp_path / "long")
    lines = []
    for step in range(1, length + 1):
        loss = 1e3 if step == 5_432 else 1 / math.sqrt(step)
        clock = {
            "samples_per_s": 1e4 + step % 97 / 7,
            "waiting": 0.01 * math.sin(step),
            "seconds": step / 50,
            "memory_bytes": 10**9 + step,
        }
        row = {
            "kind": "update",
            "step": step,
            "epoch": step // 1000,
            "loss": loss,
            "lr": 0.1 / step,
            "grad_norm": 1 + math.sin(step),
        }
        lines.append(
            json.dumps({**row, "momentum": 0.9 - 1e-7 * step, "clipped": step % 3, "mine": math.cos(step), "clock": clock})
        )
    (run / "history.jsonl").write_text("\n".join(lines) + "\n")
    page = opened(run)
    assert next(tmp_path.glob("page-*.html")).stat().st_size < 2_000_000
    points = drawn(page, "Loss")
    assert len(points) < 2_100
    assert [5_432, 1e3] in points
    assert points[0] == [1, 1.0]
    assert points[-1] == [length, 1 / math.sqrt(length)]
    assert "left out" in page.run("page.panels[0]._table().textContent")


HOSTILE = '</script><script>window.hit=1</script><img src=x onerror="window.hit=1">&amp;<!--\u2028'


def test_names_from_runs_stay_text(opened: Open, tmp_path: Path) -> None:
    name = "<img src=x onerror=window.hit=1>"
    run = told.run_folder(
        tmp_path / name,
        title=HOSTILE,
        hyper_parameters={HOSTILE: HOSTILE},
        settings={HOSTILE: {"class": HOSTILE}},
        model={"class": HOSTILE, "parameters": {HOSTILE: [2, 2]}},
        data={HOSTILE: {"samples": 3, HOSTILE: HOSTILE}},
        script={"file": HOSTILE, "function": HOSTILE, "options": [HOSTILE]},
        monitor=f"valid/{HOSTILE}",
    )
    rows = [
        {"kind": "update", "step": 1, "epoch": 0, "loss": 1.0, "lr": 0.1, HOSTILE: 2.0, "constructor": 1.0, "__proto__": 2.0},
        {
            "kind": "evaluation",
            "step": 1,
            "epoch": 0,
            f"valid/{HOSTILE}": 0.5,
            "tables": {f"{HOSTILE}/confusion_matrix": [[1, 0], [0, 1]]},
        },
        {"kind": "cycle", "step": 1, "epoch": 0, "cycle": 1, "start": 0, "stop": 2, "max_lr": 0.1, "reason": HOSTILE},
    ]
    write_rows(run, rows)
    add_range_test(
        run, {"step": 0, "reason": HOSTILE, "lrs": [0.1, 1.0], "losses": [1.0, 2.0], "smoothed": [1.0, 2.0], "suggestion": None}
    )
    keep_findings(run, 1, [{"id": HOSTILE, "severity": HOSTILE, "message": HOSTILE, "where": HOSTILE, "fix": HOSTILE}])
    seen = {"samples": [{"name": HOSTILE, "loss": 1.0, "said": [HOSTILE], "text": HOSTILE, "about": HOSTILE}]}
    page = opened(run, samples={str(run): seen})
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert texts(page, "h1") == [name]
    assert HOSTILE in texts(page, ".key .name")
    assert page.run("document.scripts.length") == 3
    assert page.run("document.images.length") == 0
    assert page.run("window.hit === undefined")
    body = page.run("document.body.textContent")
    assert body.count(HOSTILE) > 15  # whatever is shown of it is shown whole


def test_scripts_that_are_not_the_pages_own_do_not_run(browser: Browser, tmp_path: Path) -> None:
    text = render(document([read_run(told.run_folder(tmp_path / "digits"))]))
    file = tmp_path / "changed.html"
    file.write_text(text.replace("<noscript>", "<script>window.hit = 1</script><img src=x onerror='window.hit=1'><noscript>"))
    page = browser.open(file.as_uri())
    assert page.run("window.hit === undefined")
    assert any("Content Security Policy" in said for said in page.complaints)
    page.close()


def test_the_keyboard_reaches_every_control(opened: Open, tmp_path: Path) -> None:
    page = opened(told.run_folder(tmp_path / "digits"))
    page.run("document.querySelector('.panel details').open = true")
    wanted = page.run("""(() => {
        const all = [...document.querySelectorAll('button:not(:disabled), input, summary, a, [tabindex="0"]')];
        all.forEach((one, number) => { one.dataset.number = number; });
        return all.filter((one) => one.checkVisibility()).map((one) => one.dataset.number);
    })()""")
    assert len(wanted) > 20
    reached = set()
    for _ in range(len(wanted) + 5):
        page.press("Tab")
        reached.add(page.run("document.activeElement.dataset.number ?? null"))
    assert set(wanted) <= reached
    unnamed = page.run("""[...document.querySelectorAll('button, input')]
        .filter((one) => !one.textContent.trim() && !one.getAttribute('aria-label') && !one.labels.length).length""")
    assert unnamed == 0


def test_a_chart_is_read_and_zoomed_by_keys(opened: Open, tmp_path: Path) -> None:
    page = opened(told.run_folder(tmp_path / "digits"))
    first, last = (read_run(tmp_path / "digits").history.curve("loss")[place] for place in (0, -1))
    page.run("document.querySelector('.plot').focus()")
    page.press("ArrowRight")
    page.wait_for("document.getElementById('spoken').textContent !== ''")
    assert page.run("document.getElementById('spoken').textContent").startswith(f"step {first[0]}: loss {first[1]:.3f}")
    page.press("+", text="+")
    zoomed = page.run("[page.panels[0].plot.scales.x.min, page.panels[0].plot.scales.x.max]")
    assert zoomed[1] - zoomed[0] < 0.8 * (last[0] - first[0])
    assert not page.run("page.zoomButton.disabled")
    assert page.run("page.panels[1].draw(), page.panels[1].plot.scales.x.max") <= last[0]
    page.press("0", text="0")
    assert page.run("[page.panels[0].plot.scales.x.min, page.panels[0].plot.scales.x.max]") == [first[0], last[0]]
    assert page.run("page.zoomButton.disabled")


def test_the_mouse_reads_and_zooms(opened: Open, tmp_path: Path) -> None:
    page = opened(told.run_folder(tmp_path / "digits"))
    box = page.run("page.panels[0].plot.over.getBoundingClientRect().toJSON()")
    left, top, width, height = (box[side] for side in ("left", "top", "width", "height"))
    points = read_run(tmp_path / "digits").history.curve("loss")
    middle = points[len(points) // 2]
    x = page.run(f"page.panels[0].plot.valToPos({middle[0]}, 'x')") + left
    page.mouse("Moved", x, top + height / 2)
    page.wait_for(f"page.panels[0].where.textContent === 'step {middle[0]}'")
    assert texts(page, ".panel:first-child .key .value")[0] == f"{middle[1]:.3f}"
    page.mouse("Pressed", left + width / 4, top + height / 2)
    page.mouse("Moved", left + width / 2, top + height / 2, held=True)
    page.mouse("Released", left + width / 2, top + height / 2)
    page.wait_for("!page.zoomButton.disabled")
    first, last = points[0][0], points[-1][0]
    expected = [first + (last - first) / 4, first + (last - first) / 2]
    zoomed = page.run("page.panels.map((panel) => (panel.draw(), [panel.plot.scales.x.min, panel.plot.scales.x.max]))")
    assert all(one == pytest.approx(expected, abs=5) for one in zoomed)
    page.run("page.zoomButton.click()")
    assert page.run("[page.panels[0].plot.scales.x.min, page.panels[0].plot.scales.x.max]") == [first, last]


def test_curves_are_switched_off_and_axes_become_logarithmic(opened: Open, tmp_path: Path) -> None:
    page = opened(told.run_folder(tmp_path / "digits"))
    page.run("document.querySelector('.key').click()")
    assert page.run("document.querySelector('.key').getAttribute('aria-pressed')") == "false"
    assert page.run("page.panels[0].plot.series[1].show") is False
    page.run("document.querySelector('.panel-head button').click()")
    assert page.run("page.panels[0].plot.scales.y.distr") == 3
    assert page.run("page.panels[0].plot.series[1].show") is False
    page.run("document.querySelector('.key').click()")
    assert page.run("page.panels[0].plot.series[1].show") is True


def test_smoothing_draws_a_second_curve_and_leaves_the_values(opened: Open, tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "noisy")
    values = [1.0, 3.0, 1.0, 3.0, 1.0]
    write_rows(
        run, [{"kind": "update", "step": step, "epoch": 0, "loss": value, "lr": 0.1} for step, value in enumerate(values, 1)]
    )
    page = opened(run)
    before = drawn(page, "Loss")
    page.run(
        "document.getElementById('smoothing').value = 30; document.getElementById('smoothing').dispatchEvent(new Event('input'))"
    )
    weight = page.run("page.smoothing")
    assert 0.5 < weight < 0.99
    smooth = page.run("page.panels[0].plot.data[2]")
    weights = [[weight ** abs(i - j) for j in range(5)] for i in range(5)]
    expected = [sum(w * v for w, v in zip(row, values, strict=True)) / sum(row) for row in weights]
    assert smooth == pytest.approx(expected)
    assert drawn(page, "Loss") == before
    assert page.run("page.panels[0].plot.series[2].show") is True


def test_what_is_not_finite_is_a_gap_with_a_cross(opened: Open, tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "broken")
    values: list[float | None] = [1.0, math.nan, 2.0, math.inf, None, 3.0]
    write_rows(
        run, [{"kind": "update", "step": step, "epoch": 0, "loss": value, "lr": 0.1} for step, value in enumerate(values, 1)]
    )
    page = opened(run)
    assert drawn(page, "Loss") == [[1, 1.0], [3, 2.0], [6, 3.0]]
    assert page.run("page.panels[0].spec.curves[0].values") == [1.0, "nan", 2.0, "inf", None, 3.0]
    assert page.run("page.panels[0].plot.data[1]") == [1.0, None, 2.0, None, None, 3.0]


def test_several_runs_lie_over_each_other(opened: Open, tmp_path: Path) -> None:
    one = told.run_folder(tmp_path / "a" / "digits", hyper_parameters={"lr": 0.003})
    other = told.run_folder(tmp_path / "b" / "digits", hyper_parameters={"lr": 0.03}, epochs=2)
    page = opened(one, other)
    names = [str(one), str(other)]
    assert texts(page, "h1") == ["2 runs"]
    assert texts(page, "section:first-child table:first-of-type thead th")[1:3] == [f" {name}" for name in names]
    rows = page.run("[...document.querySelectorAll('tbody tr')].map((row) => [...row.children].map((one) => one.textContent))")
    assert ["hyper_parameters.lr", "0.003", "0.03"] in rows
    assert ["updates", "360", "240"] in rows
    assert [f"{names[0]} · loss", f"{names[1]} · loss"] == [
        name for name in texts(page, ".panel:first-child .name") if name.endswith(" loss")
    ]
    assert drawn(page, "Loss", 1) != []
    assert page.run("new Set(page.panels[0].spec.curves.map((curve) => curve.colour)).size") == 2


def test_the_clip_line_is_drawn(opened: Open, tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "clipped", settings={"clip_norm": 2.5})
    write_rows(run, [{"kind": "update", "step": s, "epoch": 0, "loss": 1.0, "lr": 0.1, "grad_norm": 1.0 * s} for s in (1, 2, 3)])
    page = opened(run)
    assert "clip_norm 2.500" in texts(page, ".key .name")
    assert page.run("page.panels.find((one) => one.spec.title === 'Gradient norm').spec.lines[0].value") == 2.5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_and_follows_the_colours_of_the_system(opened: Open, tmp_path: Path, width: int, dark: bool) -> None:
    page = opened(told.run_folder(tmp_path / "digits"), width=width, dark=dark)
    assert page.run("document.documentElement.scrollWidth") == width
    light = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128")
    assert light is not dark
    page.run("page.darkButton.click()")
    assert page.run("page.darkButton.getAttribute('aria-pressed')") == str(not dark).lower()
    assert page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128") is dark


def test_it_prints_all_charts(opened: Open, tmp_path: Path) -> None:
    page = opened(told.run_folder(tmp_path / "digits"), dark=True)
    pdf = page.call("Page.printToPDF")["data"]
    assert len(pdf) > 20_000
    assert page.run("page.panels.every((panel) => panel.plot !== null)")
    assert page.run("isDark()")  # as before


def test_a_run_that_has_logged_nothing_says_so(opened: Open, tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "new", state="running")
    write_rows(run, [])
    (run / "history.jsonl").unlink(missing_ok=True)
    page = opened(run)
    assert "Nothing was logged yet." in texts(page, "section p")
    assert any("history.jsonl is missing" in note for note in texts(page, ".note"))


def test_a_small_matrix_is_shown_and_of_a_large_one_its_confusions(opened: Open, tmp_path: Path) -> None:
    large = [[0] * 60 for _ in range(60)]
    large[7][3], large[2][1], large[5][5] = 4, 9, 100
    run = told.run_folder(tmp_path / "classes", data={"train": {"classes": {"kind": ["new", "used"]}}})
    tables = {"valid/confusion_matrix": [[5, 1], [2, 6]], "other/confusion_matrix": large, "valid/labels": [[[1, 2], [3, 4]]]}
    write_rows(run, [{"kind": "evaluation", "step": 1, "epoch": 0, "valid/loss": 0.5, "tables": tables}])
    page = opened(run)
    assert texts(page, ".matrix td") == ["5", "1", "2", "6"]
    assert texts(page, ".matrix th") == ["", "new", "used", "new", "used"]
    assert [one for one in texts(page, "h2") if "matrix" in one] == ["Confusion matrix: valid", "Confusion matrix: other"]
    rows = page.run("[...document.querySelectorAll('tbody tr')].map((row) => [...row.children].map((one) => one.textContent))")
    assert ["2", "1", "9"] in rows
    assert ["7", "3", "4"] in rows


def test_the_doctor_range_tests_and_cycles_are_there(opened: Open, tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "full")
    add_range_test(
        run,
        {
            "step": 0,
            "reason": "because",
            "lrs": [0.1, 1.0],
            "losses": [1.0, 2.0],
            "smoothed": [1.0, 2.0],
            "suggestion": 0.3,
            "confidence": 0.5,
        },
    )
    keep_findings(
        run,
        7,
        [
            {
                "id": "missing-zero-grad",
                "severity": "error",
                "message": "gradients add up",
                "where": "a.py:3",
                "fix": "opt.zero_grad()",
            }
        ],
    )
    page = opened(run)
    said = " ".join(texts(page, "section"))
    assert "Suggested: 0.3000, confidence 0.5000: because" in said
    assert "error: missing-zero-grad" in said
    assert drawn(page, "Before the first step") == [[0.1, 1.0], [1.0, 2.0]]
