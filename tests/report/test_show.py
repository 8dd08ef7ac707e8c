"""One run, shown."""

import json
from pathlib import Path

import pytest

import told
from instep.errors import DescriptionError
from instep.report.page.document import document
from instep.report.show import render
from instep.run.run_files import read_run


def parts(text: str) -> list[list[str]]:
    return [part.splitlines() for part in text.split("\n\n")]


def test_a_run_is_shown(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "digits")
    heading, description, curves, evaluations, best = parts(render(run, width=200, now_s=told.CREATED.timestamp() + 300))
    assert heading == [f"{run}: handwritten digits"]
    rows = dict(line.split(maxsplit=1) for line in description)
    assert rows.pop("created").endswith(", 5 min ago")
    assert rows.pop("size").endswith(" kB")
    assert rows == {
        "state": "finished at step 360 of 1,200",
        "epochs": "10",
        "device": "cpu, 2 threads",
        "versions": "torch=2.13.0",
        "build": "lr=0.003, hidden=[128, 64]",
        "settings": "batch_size=64, schedule=OneCycle(max_lr=0.003)",
    }
    assert curves == [
        "curve              first      last",
        "loss               1.990     1.640  █████▇▇▇▇▆▆▆▆▆▅▅▅▅▄▄▄▄▃▃▃▃▃▂▂▂▂▁▁▁▁▁",
        "lr              0.003000  0.003000  " + 36 * "▅",
        "valid/loss        0.9400    0.8200  █▅▁",
        "valid/accuracy    0.5300    0.5900  ▁▅█",
    ]
    assert evaluations == [
        "epoch  step  valid/loss  valid/accuracy",
        "    1   120      0.9400          0.5300",
        "    2   240      0.8800          0.5600",
        "    3   360      0.8200          0.5900  best",
    ]
    assert best == ["best: valid/accuracy 0.5900 at step 360"]


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ({"file": "/home/me/my.py", "function": "build", "options": []}, "/home/me/my.py"),
        ({"file": "/home/me/my.py", "function": "make"}, "/home/me/my.py:make"),
        ({"file": None, "function": "build"}, "the built-in recipe"),
    ],
)
def test_what_built_a_run_is_shown(tmp_path: Path, script: object, shown: str) -> None:
    assert f"\nscript    {shown}\n" in render(told.run_folder(tmp_path / "run", epochs=1, script=script))


def test_of_many_evaluations_the_last_are_shown(tmp_path: Path) -> None:
    text = render(told.run_folder(tmp_path / "long", epochs=14, monitor="valid/loss", monitor_mode="max"))
    assert "\n\nthe last 10 of 14 evaluations\nepoch   step  valid/loss" in text
    assert "\n    4" not in text
    assert "\n    5    600" in text
    assert text.endswith("best: valid/loss 0.9400 at step 120")


def test_it_fits_80_columns(tmp_path: Path) -> None:
    settings = {f"a_setting_with_a_name_{index}": index for index in range(20)}
    text = render(told.run_folder(tmp_path / "wide", epochs=10, settings=settings))
    assert max(len(line) for line in text.splitlines()[1:]) <= 80


def test_a_run_that_has_said_nothing(tmp_path: Path) -> None:
    text = render(told.run_folder(tmp_path / "new", state="running", epochs=0))
    assert "state     unfinished at step 0 of 1,200" in text
    assert text.endswith("\n\nnothing was logged")


def test_a_run_without_evaluations(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "blind", epochs=1)
    rows = (run / "history.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join(row for row in rows if "evaluation" not in row), encoding="utf-8")
    assert render(run).endswith("\n\nno evaluations")


def test_missing_and_damaged_files_are_a_line_each(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "bad", epochs=1)
    (run / "run.json").write_text("[]", encoding="utf-8")
    with (run / "history.jsonl").open("a", encoding="utf-8") as file:
        file.write("nonsense\n" * 2)
    first, second, third = parts(render(run, width=200))[0]
    assert first == str(run)
    assert (second, third) == (
        "note: run.json is not a JSON object",
        "note: history.jsonl: line 14 of 15 is damaged; read up to it",
    )
    (run / "run.json").unlink()
    assert "note: run.json is missing\n" in render(run)


@pytest.mark.parametrize("value", [None, [], {"a": 1}, "\x1b[31mred\nline", -1, True], ids=repr)
def test_a_description_of_another_kind_is_no_reason_to_fail(tmp_path: Path, value: object) -> None:
    run = told.run_folder(tmp_path / "odd", epochs=1)
    description = json.loads((run / "run.json").read_text(encoding="utf-8"))
    for name in description:
        (run / "run.json").write_text(json.dumps(description | {name: value}), encoding="utf-8")
        text = render(run)
        assert "\x1b" not in text
        assert "0.5300" in text


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="nowhere does not exist; `instep runs` lists the runs there are"):
        render(tmp_path / "nowhere")
    with pytest.raises(DescriptionError, match=r"is not a run: it has neither run\.json nor history\.jsonl"):
        render(tmp_path)


def test_a_run_that_stopped_says_why_here_and_in_the_report(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "run", state="stopped", settings={"patience": 2})
    why = "valid/accuracy has not improved for 2 evaluations"
    assert f"state     stopped at step 360 of 1,200: {why}\n" in render(run, width=200)
    assert document([read_run(run)])["runs"][0]["numbers"][0] == ["state", "stopped", why]
