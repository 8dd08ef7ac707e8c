"""`instep doctor --confirm`: a second run with the fix in memory, in a copy of the folder, and what the two runs show."""

import json
import math
import os
import re
import sys
import warnings
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

import instep
from doctor.test_launch import doctor, ran
from instep.cli import main
from instep.doctor.confirm import Comparison, Pair, can_be_tried, end_of, is_clear, pair_up, verdict
from instep.doctor.curves import MOST, Curve, read_curves, wrap
from instep.doctor.finding import Finding
from instep.doctor.remedies import REMEDIES
from instep.doctor.second_run import Command, SecondRun, run_again
from instep.errors import DescriptionError
from programs import Programs

SCRIPT = """
    import os, random, sys
    import numpy as np
    import torch
    from torch import nn

    x = torch.randn(64, 4)
    y = (x[:, :2].sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(40):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(loss.item(), random.random(), np.random.rand())
    torch.save(model.state_dict(), "weights.pt")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "log.txt"), "a") as log:
        log.write("run")
    if sys.argv[1:]:
        open(sys.argv[1], "w")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(dedent(SCRIPT))
    return folder


def test_both_losses_side_by_side(project: Path, tmp_path: Path, programs: Programs) -> None:
    """With a page, a baseline and all: one run. The script has no seed, and both runs begin with the same weights."""
    options = ("--confirm", "--html", "../page.html", "--baseline", "../known.json", "--write-baseline")
    done = doctor(project, *options, "--fail-on", "error", "train.py", programs=programs)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1  # the second run says nothing
    assert (project / "log.txt").read_text() == "run"  # and writes into its copy
    said = done.stderr[done.stderr.index("running again") :]
    assert "running again with the fix in a copy of the folder, its output hidden" in said.replace("\n", " ")
    assert "  missing-zero-grad: gradients that a step has used are cleared before the" in said
    assert "next backward (39 times)" in said
    assert "training loss at train.py:13, 40 values" in said
    ((_, before, after),) = [line.split() for line in said.splitlines() if line.split()[:1] == ["1"]]
    assert before == after  # of the first step, to the last digit shown
    assert "Verdict: " in said
    known = json.loads((tmp_path / "known.json").read_text())["runs"]["train.py"]
    assert {"id": "missing-zero-grad", "file": "project/train.py", "line": "optimizer.step()", "count": 1} in known
    page = (tmp_path / "page.html").read_text()
    assert "<h2>With the fix</h2><p>Verdict: " in page
    assert '<span class="line marked"><span class="number">14</span>    optimizer.step()</span>' in page


def test_writing_into_the_folder_itself_is_refused(project: Path, tmp_path: Path) -> None:
    own = project / "elsewhere.txt"
    command = Command("train.py", (str(own),), False, project, _environment())
    found = [Finding("missing-zero-grad", "seen", where="train.py:14")]
    run = run_again(command, found, tmp_path, here=False)
    assert run.code == 1
    assert run.said[-1] == f"PermissionError: --confirm does not write to {own}, which is not in its copy of the folder"
    assert not own.exists()
    assert run.counts == {"missing-zero-grad": 39}
    assert [(curve.kind, curve.where, curve.count) for curve in run.curves] == [("training loss", "train.py:13", 40)]


SOFTMAX = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    x = torch.randn(256, 8)
    y = (x @ torch.randn(8, 5)).argmax(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5), nn.Softmax(dim=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(80):
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        right = (output.argmax(1) == y).float().mean()
    print(loss.item(), model[0].weight.sum().item())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["from elsewhere", "as a module", "in place"])
def test_a_loss_by_the_right_formula(how: str, tmp_path: Path) -> None:
    """The script as it is is measured by the loss that the fix gives it, wherever it lies and however it is started."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(dedent(SOFTMAX))
    arguments = {
        "from elsewhere": ("--confirm", str(folder / "train.py")),
        "as a module": ("--confirm", "-m", "train"),
        "in place": ("--confirm-here", "train.py"),
    }[how]
    done = doctor(tmp_path if how == "from elsewhere" else folder, *arguments)
    said = " ".join(done.stderr[done.stderr.index("running again") :].split())
    assert said.startswith("running again twice, as it is and with the fix,")
    assert ("in place: it writes its files once more" in said) == (how == "in place")
    assert "the softmax (or sigmoid) before the loss is taken out (80 times)" in said
    assert re.search(r"loss by the right formula at \S*train\.py:13, 80 values", said)
    assert re.search(r"share of right answers at \S*train\.py:16, 80 values", said)
    assert "Verdict: confirmed. With the fix the loss by the right formula ends lower" in said
    assert not list(tmp_path.rglob("*.json"))
    assert done.stdout == ran(folder, "train.py").stdout  # recording changes nothing


ONE_LINE = """
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x = torch.randn(160, 6); y = (x[:, 0] + x[:, 1] > 0).long(); data = TensorDataset(x, y)
    loader = DataLoader(data, batch_size=8, shuffle=True); model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1); schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    for epoch in range(8):
        for a, b in loader: optimizer.zero_grad(); F.cross_entropy(model(a), b).backward(); optimizer.step(); schedule.step()
"""
IF_ON_ONE_LINE = """
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x = torch.randn(160, 6); y = (x[:, 0] + x[:, 1] > 0).long(); data = TensorDataset(x, y)
    loader = DataLoader(data, batch_size=8, shuffle=True); model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(8):
        for i, (a, b) in enumerate(loader):
            loss = F.cross_entropy(model(a), b); loss.backward()
            if i % 4 == 3: optimizer.step(); optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "acted", "curve"),
    [
        (ONE_LINE, "the schedule is stepped in the other unit (7 times)", "training loss at train.py:12, 160 values"),
        (
            IF_ON_ONE_LINE,
            "each loss is divided by the number of backwards a step (160 times)",
            "training loss at train.py:13, 160 values",
        ),
    ],
)
def test_statements_may_share_a_line(script: str, acted: str, curve: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(dedent(script))
    said = " ".join(doctor(tmp_path, "--confirm", "train.py").stderr.split())
    assert acted in said
    assert curve in said
    assert "Verdict: none" not in said


def test_the_docs_name_what_can_be_changed() -> None:
    docs = (Path(__file__).parent.parent.parent / "docs" / "doctor.md").read_text(encoding="utf-8")
    named = docs.partition("In memory can be changed: ")[2].partition(". Others")[0]
    assert named == ", ".join(f"`{id}`" for id in REMEDIES)


def test_a_large_folder_is_not_copied(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("instep.doctor.second_run.MOST_BYTES", 100)
    monkeypatch.chdir(project)
    assert main(["doctor", "--confirm", "train.py"]) == 2
    said = capsys.readouterr().err
    assert re.search(r"in a copy of \S*project, and that is \d+ B; start it from a smaller folder, or let it run in place", said)
    assert not (project / "log.txt").exists()  # it is said before the first run


def test_the_copy_may_lie_in_the_folder_itself(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where somebody works in the folder of temporary files."""
    (project / "train.py").write_text("import pathlib, sys\nsys.exit(len(list(pathlib.Path().rglob('*.py'))))\n")
    monkeypatch.setattr("tempfile.tempdir", str(project))
    command = Command("train.py", (), False, project, _environment())
    assert run_again(command, [], project, here=False).code == 1  # one file, once


def test_a_folder_that_cannot_be_copied(project: Path) -> None:
    os.mkfifo(project / "pipe")
    command = Command("train.py", (), False, project, _environment())
    with pytest.raises(DescriptionError, match=r"could not be copied: .*pipe.* is a named pipe; .*--confirm-here"):
        run_again(command, [], project, here=False)


def test_what_has_a_remedy() -> None:
    found = [
        Finding("missing-zero-grad", "seen"),
        Finding("train-valid-overlap", "seen"),
        Finding("no-seed", "seen"),
        Finding("not-shuffled", "seen", severity="hint"),
    ]
    tried, untried = can_be_tried(found)
    assert [one.id for one in tried] == ["missing-zero-grad"]
    assert [one.id for one in untried] == ["train-valid-overlap"]


def curve(values: list[float], *, kind: str = "training loss", where: str = "a.py:3") -> Curve:
    return Curve(kind, where, list(range(len(values))), values)  # type: ignore[arg-type]


def falling(end: float) -> list[float]:
    return [end + (2.0 - end) * math.exp(-step / 8) for step in range(60)]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (falling(1.5), falling(0.1), r"confirmed\. With the fix the training loss ends lower, at 0\.10\d+ in place of 1\.50"),
        (falling(0.1), falling(1.5), "ends higher, at .* That does not make the script right"),
        (falling(0.5), falling(0.5), "ends about the same, .*in so many steps the fix changes little"),
        (falling(0.5), [v + 0.3 * (-1) ** i for i, v in enumerate(falling(0.45))], "ends about the same"),  # noise
        ([1.0, math.nan, math.nan, math.nan], falling(0.1), "with the fix the training loss stays finite and ends at"),
        (falling(0.1), [1.0, math.inf, math.inf, math.inf], "with the fix the training loss does not stay finite"),
        ([2.0, 1.9], [2.0, 0.1], "ends about the same"),  # two values tell nothing
    ],
)
def test_the_verdict_says_what_the_curves_show(before: list[float], after: list[float], words: str) -> None:
    found = [Finding("missing-zero-grad", "seen")]
    run = SecondRun(0, [curve(after)], {"missing-zero-grad": 5})
    comparison = Comparison(found, [], [curve(before)], run)
    assert re.search(words, comparison.verdict), comparison.verdict
    assert comparison.render(width=80).endswith(comparison.verdict.rsplit(maxsplit=1)[-1])


def test_what_decides() -> None:
    """The evaluation, where the fix shows there; the right formula, where the loss becomes another number."""
    kinds = ("training loss", "loss by the right formula", "evaluation loss", "share of right answers")
    curves = [curve(falling(0.5), kind=kind) for kind in kinds]
    for id, first in (
        ("missing-zero-grad", "training loss"),
        ("evaluated-in-train-mode", "evaluation loss"),
        ("softmax-before-cross-entropy", "loss by the right formula"),
    ):
        comparison = Comparison([Finding(id, "seen")], [], curves, SecondRun(0, curves, {id: 1}))
        assert comparison.pairs[0].before.kind == first
    blind = Comparison([Finding("dropout-in-eval", "seen")], [], curves[:1], SecondRun(0, curves, {"dropout-in-eval": 1}))
    assert blind.verdict.startswith("Verdict: none. The fix changes the evaluation")


def test_nothing_is_claimed_where_nothing_was_seen() -> None:
    pairs = pair_up([curve(falling(0.5))], [curve(falling(0.1))])
    assert "the script does it by its own means" in verdict(
        pairs, ["missing-zero-grad"], SecondRun(0, [], {"missing-zero-grad": 0})
    )
    elsewhere = SecondRun(0, [], {"not-shuffled": 0}, elsewhere={"not-shuffled": 3})
    assert "was called 3 times, and never from the lines that the findings name" in verdict(pairs, ["not-shuffled"], elsewhere)
    assert "no loss in common" in verdict([], ["missing-zero-grad"], SecondRun(0, [], {"missing-zero-grad": 1}))
    assert "The second run failed" in verdict(pairs, ["missing-zero-grad"], SecondRun(1, [], {"missing-zero-grad": 1}))
    assert is_clear(pairs[0])
    assert not is_clear(Pair(curve([1.0] * 9), curve([1.0] * 9)))


def test_a_long_curve_becomes_a_coarser_one(tmp_path: Path) -> None:
    long = Curve("training loss", "a.py:1")
    for step in range(3 * MOST):
        long.add(step, float(step))
    assert len(long.values) <= MOST
    assert long.stride == 4
    assert long.values[:2] == [1.5, 5.5]
    assert long.steps[:2] == [0, 4]
    assert long.count == 3 * MOST
    assert end_of(curve([9.0, 1.0, 2.0, 3.0])) == 2.0
    (tmp_path / "1.curves.json").write_text(json.dumps([curve([1.0]).as_json()]))
    (tmp_path / "2.curves.json").write_text(json.dumps([long.as_json()]))
    (tmp_path / "3.curves.json").write_text("[{")  # of a process that was killed
    assert [one.count for one in read_curves(tmp_path)] == [3 * MOST]


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(instep.__file__).parent.parent)}


def test_a_warning_of_a_wrapped_function_is_about_the_line_that_called_it() -> None:
    def warn() -> None:
        warnings.warn("look here", stacklevel=2)

    owner = SimpleNamespace(warn=warn)
    wrap(owner, "warn", lambda original, *args: original(*args))
    with pytest.warns(UserWarning, match="look here") as caught:
        called_at, _ = sys._getframe().f_lineno, owner.warn()
    assert [(Path(each.filename).name, each.lineno) for each in caught] == [(Path(__file__).name, called_at)]
