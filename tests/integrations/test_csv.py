"""The CSV logger: a table with the numbers of the history, whatever happened to the run."""

import csv
from pathlib import Path
from typing import Any

import pytest

from instep import History
from instep.errors import DescriptionError
from instep.integrations.csv import CSV
from run.test_loggers import copy_as_killed
from tiny import X, Y, make

OPTIONS: dict[str, Any] = {"valid": (X[:9], Y[:9]), "log_every": 1, "checkpoint_every": 8, "loggers": "csv"}


def table(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return [{name: value for name, value in row.items() if value != ""} for row in csv.DictReader(file)]


def expected(history: History) -> list[dict[str, str]]:
    """The numbers of the history as text; those of the clock aside."""
    return [{name: str(value) if name in ("kind", "step") else repr(float(value)) for name, value in row.items()}
            for row in history.to_dicts(clock=False)]  # fmt: skip


def without_clock(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if not name.startswith("clock/")} for row in rows]


def test_the_table_has_every_number_exactly(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path, **OPTIONS)
    trainer.fit()
    rows = table(tmp_path / "metrics.csv")
    found = [{**row, "epoch": repr(float(row["epoch"]))} for row in without_clock(rows)]
    assert found == expected(trainer.history)
    assert len(found) == 15
    assert float(rows[0]["clock/samples_per_s"]) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "history.jsonl", "lock", "metrics.csv", "run.json"]


def test_no_gap_and_no_double_line_after_a_kill(tmp_path: Path) -> None:
    """What a kill leaves: a table with lines beyond the checkpoint, the last one torn."""
    copy_as_killed(make(folder=tmp_path / "run", **OPTIONS), 10, tmp_path / "copy")
    with (tmp_path / "copy" / "metrics.csv").open("a") as file:
        file.write("update,11,2,0.1")
    after = make(folder=tmp_path / "copy", **OPTIONS)
    after.fit()
    assert after.resumed_from in (4, 8)
    steps = [int(row["step"]) for row in table(tmp_path / "copy" / "metrics.csv") if row["kind"] == "update"]
    assert steps == list(range(1, 13))
    found = without_clock(table(tmp_path / "copy" / "metrics.csv"))
    assert [{**row, "epoch": repr(float(row["epoch"]))} for row in found] == expected(after.history)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    trainer = make(**{**OPTIONS, "loggers": CSV(tmp_path / "mine.csv")})
    trainer.fit()
    assert len(table(tmp_path / "mine.csv")) == 15
    with pytest.raises(DescriptionError, match=r"cannot be written: there is no folder .*nowhere"):
        make(loggers=CSV(tmp_path / "nowhere" / "mine.csv")).fit()
