"""Some lines of a long history."""

import json
import math
from pathlib import Path

from instep.run.history import HistoryFile


def test_extremes_evaluations_and_ends_stay(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    for step in range(1, 10_001):
        loss = {5_432: 1e6, 6_000: -1e6, 7_000: math.nan, 8_000: None}.get(step, math.sin(step))
        rows.append({"kind": "update", "step": step, "epoch": 0, "loss": loss, "lr": 0.1})
        if step % 1_000 == 0:
            rows.append({"kind": "evaluation", "step": step, "epoch": 0, "valid/loss": 1.0})
    file = HistoryFile(tmp_path / "history.jsonl")
    file.path.write_text("")
    for row in rows:
        file.append(row)
    found = HistoryFile.read(file.path, about=900).rows
    assert len(found) < 1_000
    assert [row["step"] for row in found] == sorted(row["step"] for row in found)
    assert {1, 5_432, 6_000, 7_000, 8_000, 10_000} <= {row["step"] for row in found if row["kind"] == "update"}
    assert [row["step"] for row in found if row["kind"] == "evaluation"] == list(range(1_000, 10_001, 1_000))
    assert HistoryFile.read(file.path, about=20_000).rows[:5] == HistoryFile.read(file.path).rows[:5]
    assert len(HistoryFile.read(file.path, about=20_000).rows) == len(rows)


def test_of_many_evaluations_some_stay(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(
        "".join(json.dumps({"kind": "evaluation", "step": step, "epoch": 0, "valid/loss": 1.0}) + "\n" for step in range(5_000))
    )
    found = HistoryFile.read(path, about=400).rows
    assert len(found) < 200
    assert (found[0]["step"], found[-1]["step"]) == (0, 4_999)


def test_a_torn_end_is_said_of_some_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(
        "".join(json.dumps({"kind": "update", "step": step, "epoch": 0, "loss": 1.0, "lr": 0.1}) + "\n" for step in range(100))
        + "{"
    )
    found = HistoryFile.read(path, about=30)
    assert found.problem == "the last line is torn and left out"
    assert found.rows[-1]["step"] <= 99
