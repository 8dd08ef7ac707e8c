"""The examples for CI do what they say: their commands run, and the findings are in the form that code-review tools read."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from doctor.test_launch import doctor, script
from instep.doctor.baseline import write_baseline
from instep.doctor.finding import Finding
from programs import Programs

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "doctor"
DOCS = Path(__file__).parent.parent.parent / "docs" / "doctor.md"


def command(name: str) -> list[str]:
    """The arguments of `instep doctor` in a file."""
    (line,) = re.findall(r"(?:run|entry): instep doctor (.*)", (EXAMPLES / name).read_text(encoding="utf-8"))
    return shlex.split(line)


@pytest.mark.parametrize("name", ["workflow.yml", "pre-commit-config.yaml"])
def test_the_docs_show_the_file(name: str) -> None:
    text = "\n".join(line for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    assert f"```yaml\n{text}\n```" in DOCS.read_text(encoding="utf-8")


def test_an_old_project_begins(tmp_path: Path, programs: Programs) -> None:
    """With a baseline of one finding, whose line has moved since, a new mistake alone fails the check of the workflow."""
    path = script(tmp_path, "train.py", "work()\n")
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "no zero_grad" in text)
    write_baseline(tmp_path / ".instep-doctor.json", {"train.py": [Finding("missing-zero-grad", "seen", where=f"{path}:{line}")]})
    wrong = "nn.functional.cross_entropy(model(x).softmax(1), y)"
    path.write_text("# a comment\n" + path.read_text().replace("nn.functional.cross_entropy(model(x), y)", wrong))
    done = doctor(tmp_path, *command("workflow.yml"), programs=programs)
    assert done.returncode == 3, done.stderr
    assert "instep doctor: 1 error in 5 steps\n\nerror softmax-before-cross-entropy" in done.stderr
    assert "in the baseline already: 1 finding\n  error missing-zero-grad  train.py:" in done.stderr
    assert done.stderr.count("error missing-zero-grad") == 1  # it is not said at once, either
    check_sarif(json.loads((tmp_path / "doctor.sarif").read_text()))
    page = (tmp_path / "doctor.html").read_text()
    assert '<code>missing-zero-grad</code> <span class="tag">in the baseline</span>' in page


def check_sarif(report: dict[str, Any]) -> None:
    """What a code-review tool needs of each result."""
    assert report["version"] == "2.1.0"
    (run,) = report["runs"]
    rules = run["tool"]["driver"]["rules"]
    states = {}
    for result in run["results"]:
        states[result["ruleId"]] = result["baselineState"]
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "train.py"
        assert place["physicalLocation"]["region"]["startLine"] > 1
        assert len(result["partialFingerprints"]["instepDoctor/v1"]) == 32
    assert states == {"missing-zero-grad": "unchanged", "softmax-before-cross-entropy": "new"}


def test_the_hook_runs_the_same(tmp_path: Path) -> None:
    shared = ["--fail-on", "error", "--baseline", ".instep-doctor.json"]
    assert command("pre-commit-config.yaml") == [*shared, "train.py", "--epochs", "1"]
    assert command("workflow.yml")[:4] == shared


@pytest.mark.extras
def test_the_files_are_what_their_readers_expect() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((EXAMPLES / "workflow.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["doctor"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert workflow["permissions"]["security-events"] == "write"
    (upload,) = [step for step in steps if "upload-sarif" in step.get("uses", "")]
    assert upload["if"] == "always()"
    assert f"--sarif {upload['with']['sarif_file']} " in next(step["run"] for step in steps if "doctor" in step.get("run", ""))
    (hook,) = yaml.safe_load((EXAMPLES / "pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    assert {"id", "name", "entry", "language", "pass_filenames"} <= set(hook)
    assert hook["pass_filenames"] is False
