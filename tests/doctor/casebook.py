"""The cases: scripts in `cases/<family>/`, what their `expected.toml` says of them, and what the doctor finds."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CASES = HERE / "cases"
JOBS, TIMEOUT_S = 2, 60.0


@dataclass(frozen=True)
class Case:
    """A script, the ids that must be found in it, and the hints that may be."""

    script: Path
    expected: frozenset[str]
    hints: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.script.parent.name}/{self.script.stem}"


def cases() -> list[Case]:
    """All of them, in the order of the folders."""
    found = []
    for manifest in sorted(CASES.glob("*/expected.toml")):
        told = tomllib.loads(manifest.read_text(encoding="utf-8"))
        hints = told.get("hints", {})
        for name, ids in told.get("cases", {}).items():
            found.append(Case(manifest.parent / name, frozenset(ids), frozenset(hints.get(name, ()))))
    return found


def examine(scripts: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """What the doctor says of each script: findings, error, failures, said."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    zygote = [sys.executable, str(HERE / "zygote.py"), str(JOBS), str(TIMEOUT_S)]
    lines = "".join(json.dumps([str(script)]) + "\n" for script in scripts)
    done = subprocess.run(zygote, input=lines, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    answers = (json.loads(line) for line in done.stdout.splitlines())
    return {Path(answer["case"][0]): answer for answer in answers}


def complaints(case: Case, answer: dict[str, Any]) -> list[str]:
    """What is wrong with an answer: ids that are missing, elsewhere, or not expected; errors of the script or of the doctor."""
    wrong = []
    if answer["error"]:
        wrong.append(f"the script failed: {answer['error']}\n{answer['said']}")
    wrong += [f"the doctor failed: {failure}" for failure in answer["failures"]]
    here = {f["id"] for f in answer["findings"] if (f["where"] or "").rpartition(":")[0] == str(case.script)}
    everywhere = {f["id"]: f for f in answer["findings"]}
    for id in sorted(case.expected - here):
        wrong.append(f"{id} was found at {everywhere[id]['where']}" if id in everywhere else f"{id} was not found")
    for id, finding in everywhere.items():
        if id not in case.expected | case.hints:
            wrong.append(f"not expected: {finding['severity']} {id} at {finding['where']}: {finding['message']}")
    return wrong
