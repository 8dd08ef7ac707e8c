"""Range tests and findings in a run folder."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import instep
from instep import Trainer
from instep.run.observed import FINDINGS, RANGE_TESTS, add_range_test, keep_findings, read_findings, read_range_tests


def a_test(step: int, **changes: Any) -> dict[str, Any]:
    return {"step": step, "reason": "…", "lrs": [0.1], "losses": [1.0], "smoothed": [1.0], "suggestion": 0.1} | changes


def finding(name: str, where: str | None = "a.py:1") -> dict[str, Any]:
    return {"id": name, "severity": "error", "message": "so", "where": where, "fix": "else"}


def test_of_each_step_the_last_range_test_counts(tmp_path: Path) -> None:
    for test in (a_test(5), a_test(0), a_test(5, suggestion=0.2)):
        add_range_test(tmp_path, test)
    assert [(test["step"], test["suggestion"]) for test in read_range_tests(tmp_path)] == [(0, 0.1), (5, 0.2)]


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "3", '{"step": 0}', json.dumps(a_test(0, losses=[1.0, 2.0])), json.dumps(a_test(0, lrs=1))]
)
def test_what_is_no_range_test_is_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / RANGE_TESTS).write_text(f"{line}\n{json.dumps(a_test(7))}\n{line}")
    assert [test["step"] for test in read_range_tests(tmp_path)] == [7]


def test_findings_of_all_processes_of_a_run_are_kept(tmp_path: Path) -> None:
    assert read_findings(tmp_path) is None
    keep_findings(tmp_path, 10, [finding("a"), finding("b")])
    keep_findings(tmp_path, 5, [finding("b"), finding("b", "a.py:2")])
    found = read_findings(tmp_path)
    assert found is not None
    assert found["steps"] == 15
    assert [(one["id"], one["where"]) for one in found["findings"]] == [("a", "a.py:1"), ("b", "a.py:1"), ("b", "a.py:2")]


@pytest.mark.parametrize("text", ["", "[]", '{"steps": "x", "findings": []}', '{"steps": 1, "findings": 3}'])
def test_damaged_findings_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FINDINGS).write_text(text)
    assert read_findings(tmp_path) is None


def trainer(folder: Path | None, **options: Any) -> Trainer:
    x = torch.linspace(-1, 1, 64).view(32, 2)
    model = nn.Linear(2, 1)
    return Trainer(
        model,
        loss=nn.functional.mse_loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        train=(x, x.sum(1, keepdim=True)),
        valid=0.25,
        max_steps=4,
        batch_size=8,
        folder=folder,
        progress=False,
        **options,
    )


def test_the_doctor_of_a_run_writes_what_it_found(tmp_path: Path) -> None:
    trainer(tmp_path / "run", doctor=True).fit()
    assert read_findings(tmp_path / "run") == {"steps": 4, "findings": []}
    trainer(tmp_path / "quiet").fit()
    assert read_findings(tmp_path / "quiet") is None
    trainer(None, doctor=True).fit()


def test_who_watches_already_keeps_the_findings(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run", doctor=True)
    with instep.watch(aloud=False):
        made.fit()
    assert read_findings(tmp_path / "run") is None


def test_cycles_keep_their_range_tests(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    cycles = made.fit_cycles(max_cycles=2, steps=20, repeats=1).cycles
    kept = read_range_tests(tmp_path / "run")
    assert [(test["step"], test["suggestion"]) for test in kept][: len(cycles)] == [(one.start, one.max_lr) for one in cycles]


def test_a_range_test_waits_for_the_folder(tmp_path: Path) -> None:
    made = trainer(tmp_path / "run")
    made.run.keep_range_test(made.find_lr(steps=20, repeats=1).to_record())
    assert not (tmp_path / "run").exists()
    made.fit()
    assert [test["step"] for test in read_range_tests(tmp_path / "run")] == [0]
