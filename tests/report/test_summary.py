"""The words at the end of `instep train`."""

from pathlib import Path

import told
from instep.report.summary import Ending, render
from instep.run.history import History
from instep.text import coloured

CLOCK = {"clock": {"seconds": 75.0}}
ROWS = [
    {"kind": "evaluation", "step": 120, "epoch": 0, "train/loss": 0.5, "valid/loss": 0.25, **CLOCK},
    {"kind": "evaluation", "step": 240, "epoch": 1, "train/loss": 0.4, "valid/loss": 0.5, **CLOCK},
]


def end(**changes: object) -> Ending:
    return Ending(**({"plan": told.plan(), "folder": Path("runs/a")} | changes))  # type: ignore[arg-type]


def test_it_says_all_that_one_wants_to_know() -> None:
    assert render(History(ROWS), end(classifies=True)).splitlines() == [
        "finished: 2 epochs, 240 updates in 1:15",
        "",
        "  trained  MLP",
        "  best     valid/loss 0.2500 in epoch 1 (step 120)",
        "  last     train/loss 0.4000, valid/loss 0.5000",
        "  run      runs/a",
        "",
        "  instep evaluate runs/a  the numbers of each class",
        "  instep show runs/a      its curves and checkpoints here",
        "  instep report runs/a    all of it as a page for the browser",
    ]


def test_a_run_without_evaluations() -> None:
    update = {"kind": "update", "step": 3, "epoch": 0, "loss": 0.125, "lr": 0.1, "skipped": 2, **CLOCK}
    text = render(History([update]), end(), width=50)
    assert "finished: 1 epoch, 3 updates in 1:15" in text
    assert "  last     loss 0.1250\n" in text
    assert "  skipped  2 updates: no target counted, or" in text
    assert text.endswith("\n  instep show runs/a\n  instep report runs/a")  # no room for what they do
    assert render(History(), end()) == "runs/a: nothing was trained"


def test_why_it_stopped_and_where_it_was_resumed() -> None:
    text = render(History(ROWS), end(why="valid/loss has not improved for 1 evaluation", resumed_from=120), width=200)
    first = "stopped: 2 epochs, 240 updates in 1:15, resumed at step 120. valid/loss has not improved for 1 evaluation"
    assert text.splitlines()[0] == first


def test_commands_can_be_typed_as_they_stand() -> None:
    assert render(History(ROWS), end(folder=Path("my runs/a"))).splitlines()[-1].startswith("  instep report 'my runs/a'  ")


def test_of_many_numbers_the_first_of_the_evaluation() -> None:
    row = ROWS[0] | {f"valid/metric_{place}": 0.5 for place in range(9)}
    text = render(History([row]), end(), width=200)
    assert "  last     valid/loss 0.2500, valid/metric_0 0.5000, valid/metric_1" in text
    assert "valid/metric_4 0.5000, … 5 more in the history\n" in text


def test_colours_do_not_change_the_words() -> None:
    text = render(History(ROWS), end(), paint=coloured)
    assert "\x1b[1;32mfinished: 2 epochs" in text
    assert "\x1b[36minstep report runs/a\x1b[0m" in text


def test_only_a_classifier_has_numbers_of_each_class() -> None:
    text = render(History(ROWS), end())
    assert "instep evaluate runs/a  the numbers of its best weights\n" in text
    assert "class" not in text
