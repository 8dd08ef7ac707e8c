"""What was seen of a run beside its history: the range tests that were made for it, and what the doctor found.

Nothing of it decides anything: a file that is missing or damaged is as if nothing had been seen. Reading needs no torch.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

RANGE_TESTS, FINDINGS = "range_tests.jsonl", "findings.json"


def add_range_test(run: Path, test: Mapping[str, Any]) -> None:
    """Keep a range test that was made for a run; `test` says at which step."""
    with open(run / RANGE_TESTS, "ab") as file:
        file.write(json.dumps(test, allow_nan=False).encode() + b"\n")


def read_range_tests(run: Path) -> list[dict[str, Any]]:
    """The range tests of a run, of each step the last: a run that was cut off makes the same test again."""
    found: dict[int, dict[str, Any]] = {}
    with suppress(OSError), open(run / RANGE_TESTS, "rb") as file:
        for line in file:
            with suppress(ValueError):
                test = json.loads(line)
                if _is_range_test(test):
                    found[test["step"]] = test
    return [found[step] for step in sorted(found)]


def keep_findings(run: Path, steps: int, findings: list[dict[str, Any]]) -> None:
    """Keep what the doctor found in `steps` updates, beside what it found before the run was resumed."""
    from instep.checkpoint.durable import replace_file  # brings torch

    before = read_findings(run) or {"steps": 0, "findings": []}
    both = {(one["id"], one["where"]): one for one in (*before["findings"], *findings)}
    said = {"steps": before["steps"] + steps, "findings": list(both.values())}
    replace_file(run / FINDINGS, (json.dumps(said, indent=2, default=str) + "\n").encode())


def read_findings(run: Path) -> dict[str, Any] | None:
    """What the doctor said of a run, `{"steps": how many it watched, "findings": […]}`; None where it did not watch."""
    with suppress(OSError, ValueError):
        found = json.loads((run / FINDINGS).read_bytes())
        if isinstance(found, dict) and isinstance(found.get("steps"), int) and isinstance(found.get("findings"), list):
            return {"steps": found["steps"], "findings": [_finding(one) for one in found["findings"] if isinstance(one, dict)]}
    return None


def _is_range_test(test: Any) -> bool:
    if not isinstance(test, dict) or not isinstance(test.get("step"), int) or not isinstance(test.get("reason"), str):
        return False
    columns = [test.get(name) for name in ("lrs", "losses", "smoothed")]
    return all(isinstance(column, list) and len(column) == len(columns[0] or []) for column in columns)


def _finding(said: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: str(said.get(name) or "") for name in ("id", "severity", "message", "fix")}
    return {**said, **texts, "where": None if said.get("where") is None else str(said["where"])}
