"""The baseline: what a project has already fails nothing, however far its lines have moved."""

import json
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from instep.cli import main
from instep.doctor.baseline import count_gone, fingerprint, read_baseline, read_runs, split_known, states, write_baseline
from instep.doctor.finding import Finding
from instep.doctor.report import render
from instep.doctor.sarif import as_sarif
from instep.doctor.settings import Settings, from_pyproject, is_ignored_in_source
from instep.errors import DescriptionError
from programs import Programs

TRAIN = """
    import sys
    import torch
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(0 if 'rest' in sys.argv else 12):
        if 'keep' in sys.argv:
            pass  # nothing is cleared
        else:
            optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,))).backward()
        optimizer.step()
    sys.exit(4 if 'fail' in sys.argv else 0)
"""
RUN = "train.py --epochs 1"
STEP, LOSS = "    optimizer.step()\n", "    loss = cross_entropy(model(x).softmax(1), y)\n"


def finding(path: Path, line: int, id: str = "missing-zero-grad") -> Finding:
    return Finding(id, "seen", where=f"{path}:{line}")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "src" / "train.py"
    path.parent.mkdir()
    path.write_text(f"for x, y in loader:\n{LOSS}{STEP}")
    return path


def rewrite(path: Path, text: str) -> None:
    import linecache

    path.write_text(text)
    linecache.clearcache()  # as a new process has it


def test_moved_lines_stay_known(script: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    assert write_baseline(known, {RUN: [finding(script, 3), finding(script, 2, "softmax-before-cross-entropy")]}) == 2
    rewrite(script, f"import torch\n\n\ndef train():\n  for x, y in loader:\n  {LOSS}      # why\n    {STEP}")
    moved = [finding(script, 8), finding(script, 6, "softmax-before-cross-entropy")]
    assert split_known(moved, known) == ([], moved)
    settings = Settings(fail_on="error", baseline=str(known))
    assert not settings.fails(moved)
    again = finding(script, 6)  # the same mistake on another line
    assert split_known([*moved, again], known) == ([again], moved)
    assert settings.fails([*moved, again])
    assert Settings.from_text(settings.text()) == settings


def test_as_many_are_known_as_there_were(script: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    write_baseline(known, {RUN: [finding(script, 3)]})
    rewrite(script, f"for x, y in loader:\n{LOSS}{STEP}for x, y in other:\n{LOSS}{STEP}")
    new, old = split_known([finding(script, 3), finding(script, 6)], known)
    assert [len(new), len(old)] == [1, 1]
    assert fingerprint(finding(script, 3)) == fingerprint(finding(script, 6)) != fingerprint(finding(script, 2))


def test_findings_without_a_line_are_known_too(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    write_baseline(known, {RUN: [Finding("no-seed", "seen")]})
    assert split_known([Finding("no-seed", "seen, with other numbers")], known)[0] == []
    assert json.loads(known.read_text()) == {
        "version": 2,
        "runs": {RUN: [{"id": "no-seed", "file": "", "line": "", "count": 1}]},
    }


def test_reports_tell_known_from_new(script: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    write_baseline(known, {RUN: [finding(script, 3)]})
    both = [finding(script, 3), finding(script, 2, "softmax-before-cross-entropy")]
    assert states(both, str(known)) == [{"known": True}, {"known": False}]
    assert states(both, None) == [{}, {}]
    results = as_sarif(both, baseline=str(known))["runs"][0]["results"]
    assert [result["baselineState"] for result in results] == ["unchanged", "new"]
    assert all(result["partialFingerprints"]["instepDoctor/v1"] for result in results)
    assert "baselineState" not in as_sarif(both)["runs"][0]["results"][0]
    said = render(both[1:], known=both[:1])
    assert said.startswith("instep doctor: 1 error\n")
    assert f"in the baseline already: 1 finding\n  error missing-zero-grad  {script}:3" in said


def test_bad_baselines_are_said_before_the_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('it ran')")
    for text, words in (
        (None, "write one with instep doctor --baseline"),
        ("{", "is no baseline of the doctor"),
        ('{"version": 1}', "is a baseline of version 1, and this Instep reads version 2; delete it"),
        ('{"version": 2, "runs": {"train.py": [{"id": "no-seed"}]}}', "is no baseline of the doctor"),
        ("[]", "is no baseline of the doctor"),
    ):
        if text is not None:
            (tmp_path / "known.json").write_text(text)
        assert main(["doctor", "--baseline", str(tmp_path / "known.json"), str(script)]) == 2
        assert words in capsys.readouterr().err
    assert main(["doctor", "--baseline", str(tmp_path / "known.json"), "--write-baseline", str(script)]) == 2
    assert "is no baseline of the doctor" in capsys.readouterr().err
    assert main(["doctor", "--baseline", str(tmp_path), str(script)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err
    assert main(["doctor", "--baseline", str(tmp_path / "no" / "known.json"), "--write-baseline", str(script)]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_runs_share_a_baseline(script: Path, tmp_path: Path) -> None:
    """Each replaces what it had, and what any has is known; as many as the run with the most."""
    known = tmp_path / "known.json"
    first, second = finding(script, 3), finding(script, 2, "softmax-before-cross-entropy")
    write_baseline(known, {RUN: [first, second]})
    write_baseline(known, {"pytest": [first, first]})
    assert [len(found) for found in split_known([first, first, first, second], known)] == [1, 3]
    assert [count_gone(known, {run: [first]}) for run in (RUN, "pytest", "other.py")] == [1, 1, 0]
    write_baseline(known, {RUN: []})
    assert read_runs(known).keys() == {"pytest"}
    assert split_known([second], known) == ([second], [])


def test_the_command_keeps_runs_apart_and_says_what_is_gone(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(dedent(TRAIN))

    def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
        return programs.run(["-m", "instep", "doctor", *arguments], cwd=tmp_path)

    known = tmp_path / ".instep-doctor.json"
    assert "wrote 1 finding of train.py keep to" in doctor("--write-baseline", "train.py", "keep").stderr
    assert "wrote 1 finding of train.py keep again to" in doctor("--write-baseline", "train.py", "keep", "again").stderr
    before = known.read_text()
    said = doctor("--write-baseline", "train.py", "fail").stderr
    assert "the baseline was not written: the script ended with exit code 4." in said
    assert "the baseline was not written: nothing was trained." in doctor("--write-baseline", "train.py", "rest").stderr
    assert known.read_text() == before
    ran = doctor("--baseline", ".instep-doctor.json", "--fail-on", "error", "train.py", "keep")
    assert (ran.returncode, "in the baseline already: 1 finding" in ran.stderr, "any more" in ran.stderr) == (0, True, False)
    said = doctor("--baseline", ".instep-doctor.json", "train.py", "keep", "again", "clear").stderr
    assert "any more" not in said  # another run: what it never had is not gone
    (tmp_path / "train.py").write_text(dedent(TRAIN).replace("'keep' in", "'lost' in"))
    ignoring = ("--baseline", ".instep-doctor.json", "--ignore", "graph-kept", "train.py", "keep")
    assert "any more" not in doctor(*ignoring).stderr  # which did not look for all
    said = doctor("--baseline", ".instep-doctor.json", "./train.py", "keep").stderr
    assert "1 finding of the baseline is not found any more; writing it again takes it out." in said
    doctor("--write-baseline", "train.py", "keep")
    assert read_runs(known).keys() == {"train.py keep again"}


def test_pyproject_names_a_baseline(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.instep.doctor]\nbaseline = "known.json"\n')
    (tmp_path / "src").mkdir()
    assert from_pyproject(tmp_path / "src") == {"baseline": str(tmp_path / "known.json")}
    with pytest.raises(DescriptionError, match=r"there is no baseline .*known\.json"):
        read_baseline(tmp_path / "known.json")


def test_a_comment_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    lines = [
        "opt.step()  # instep: ignore[missing-zero-grad] cleared by the wrapper",
        "# instep: ignore[missing-zero-grad] the next line is fine",
        "opt.step()",
        "loss = f(",
        "    x,  # instep: ignore[missing-zero-grad]",
        "    y,",
        ")",
        "opt.step()",
        "def g():  # instep: ignore",
        "    opt.step()",
        "opt.step()  # instep: ignore[missing-zerograd]",
    ]
    path.write_text("\n".join(lines))
    ignored = [line for line in range(1, len(lines) + 1) if is_ignored_in_source(finding(path, line))]
    assert ignored == [1, 2, 3, 4, 5, 6, 7, 9]
    assert not is_ignored_in_source(finding(path, 1, "no-seed"))
    assert is_ignored_in_source(finding(path, 11)) is False  # and it is said once
    assert capsys.readouterr().err == (
        f"instep doctor: {path}:11: the comment ignores 'missing-zerograd', which the doctor does not know; "
        "did you mean missing-zero-grad?\n"
    )
