"""The page of a sweep in a real browser, and the result that it is made of; no Optuna is needed for either."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from instep.errors import DescriptionError
from instep.integrations.sweep.record import TrialRecord
from instep.integrations.sweep.result import SweepResult, result_of
from instep.integrations.sweep.space import Choices, Range, Space

SPACE = Space({"lr": Range(1e-4, 1e-1, log=True), "kind": Choices(("a", "<b>", None))}, {})


class Kept:
    """Trials as a storage has them."""

    def __init__(self, *records: TrialRecord) -> None:
        self._records = list(records)

    def records(self) -> list[TrialRecord]:
        return self._records

    def importances(self) -> dict[str, float]:
        return {"lr": 0.75, "kind": 0.25} if self._records else {}


def result(folder: Path, *others: TrialRecord) -> SweepResult:
    records = [
        TrialRecord(0, {"lr": 1e-2, "kind": "a"}, "finished", {1: 0.5, 2: 0.4}),
        TrialRecord(1, {"lr": 1e-3, "kind": "<b>"}, "pruned", {1: 0.3}),
        TrialRecord(2, {"lr": 1e-1, "kind": None}, "diverged", {1: math.nan}, error="the loss is nan"),
        TrialRecord(3, {"lr": 1e-4, "kind": "a"}, "failed", {}, error="ValueError: <no>"),
        *others,
    ]
    return result_of(Kept(*records), SPACE, folder, "valid/loss", "min")


def test_the_best_is_a_finished_one_and_rows_without_a_number_come_last(tmp_path: Path) -> None:
    found = result(tmp_path)
    assert [row.number for row in found.rows] == [1, 0, 2, 3]
    assert found.best is not None
    assert (found.best.number, found.best.value) == (0, 0.4)
    assert found.best.folder == tmp_path / "trial-0000"
    more = result_of(Kept(TrialRecord(0, {"lr": 1e-2, "kind": "a"}, "pruned", {1: 0.5})), SPACE, tmp_path, "x", "max")
    assert more.best is not None
    assert more.best.state == "pruned"
    assert result_of(Kept(), SPACE, tmp_path, "x", "min").best is None


def test_the_text_of_a_result(tmp_path: Path) -> None:
    assert str(result(Path("s"))).splitlines() == [
        "trial      lr  kind  valid/loss  evaluations  state",
        "    1   0.001   <b>      0.3000            1  pruned",
        "    0    0.01     a      0.4000            2  finished",
        "    2     0.1  None           -            1  diverged",
        "    3  0.0001     a           -            0  failed",
        "",
        "The best valid/loss is 0.4000, with lr=0.01, kind=a: s/trial-0000.",
        "What matters for a good valid/loss, by 1 finished trial: lr 75%, kind 25%.",
    ]
    many = [TrialRecord(place, {"lr": 1e-2, "kind": "a"}, "finished", {1: 1.0 + place}) for place in range(4, 20)]
    assert "… and 8 trials more in the report" in str(result(Path("s"), *many))


def test_a_notebook_shows_text_as_text(tmp_path: Path) -> None:
    shown = result(tmp_path)._repr_html_()
    assert shown.count("<svg") == 2
    assert "<b>" not in shown
    assert "&lt;b&gt;" in shown


def test_an_empty_or_one_sided_sweep_can_be_drawn(tmp_path: Path) -> None:
    assert result_of(Kept(), SPACE, tmp_path, "valid/loss", "min")._repr_html_()
    same = [TrialRecord(place, {"lr": 1e-2, "kind": "a"}, "finished", {1: 0.5}) for place in range(2)]
    assert "0.5" in result_of(Kept(*same), SPACE, tmp_path, "valid/loss", "min")._repr_html_()


def test_the_page(browser: Browser, tmp_path: Path) -> None:
    file = result(tmp_path).save_report()
    page = browser.open(file.as_uri(), width=1200, height=1400)

    def texts(selector: str) -> list[Any]:
        found: list[Any] = page.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")
        return found

    assert texts("h1") == [tmp_path.name]
    assert texts("h2") == ["Parameters", "What matters", "Trials"]
    assert texts("dt")[:3] == ["best valid/loss", "lr", "kind"]
    assert len(texts("svg")) == 2
    assert page.run("document.querySelectorAll('svg g.path').length") == 4
    assert "trial 1: lr=0.001, kind=<b>, valid/loss 0.3000 (pruned)" in texts("svg g.path title")
    assert page.run("document.querySelectorAll('b').length") == 0
    assert texts("tbody tr.marked th") == ["0"]
    assert "ValueError: <no>" in texts("tbody td")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert page.complaints == []
    assert page.requests == []
    page.close()


def test_only_a_page_of_ours_is_replaced(tmp_path: Path) -> None:
    found = result(tmp_path)
    found.save_report()
    found.save_report()
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(DescriptionError, match=r"mine\.html exists and is not a report of Instep; name another file"):
        found.save_report(tmp_path / "mine.html")
