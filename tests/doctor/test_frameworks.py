"""Frameworks: mistakes that one can still make inside them are named, at the user's line, and nothing is said of right scripts.

Each script runs twice, watched and alone: what it prints and how it ends stays the same.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from doctor.casebook import Examination
from doctor.pairs import complaints, pairs

pytestmark = pytest.mark.extras
MODULES = {
    "lightning": ["lightning"],
    "accelerate": ["accelerate"],
    "transformers": ["transformers.trainer", "transformers.models.bert.modeling_bert"],
    "ignite": ["ignite.engine", "ignite.metrics"],
    "keras": ["keras"],
}


@pytest.fixture(autouse=True)
def keras_on_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("framework", MODULES)
def test_mistakes_inside_a_framework(framework: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    cases = [(pair, pair.write(tmp_path, kind)) for pair in pairs(framework) for kind in ("wrong", "right")]
    assert len(cases) == 16
    assert len({pair.id for pair, _ in cases}) == 8
    jobs = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    with Examination(jobs=jobs, modules=MODULES[framework]) as examination:
        for watched in (True, False):
            examination.send([script for _, script in cases], watched=watched)
        wrong = [
            line
            for pair, script in cases
            for line in complaints(pair, script, examination.answer(script), examination.answer(script, watched=False))
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["lightning/kept", "keras/zero_grad"])
def test_the_command_comes_before_the_framework(name: str, tmp_path: Path) -> None:
    """In earnest torch is watched first, and the framework imported later."""
    framework = name.partition("/")[0]
    pytest.importorskip(framework)
    pair = next(pair for pair in pairs(framework) if pair.name == name)
    script = pair.write(tmp_path, "wrong")
    command = [sys.executable, "-m", "instep", "doctor", "--json", "found.json", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    findings = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["findings"]
    loud = [(finding["id"], finding["where"]) for finding in findings if finding["severity"] != "hint"]
    assert loud == [(pair.id, f"{script.name}:{pair.found}")]
