"""A script that was changed between two processes of a run: what it would train now is another run, and is refused by name."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from instep import Trainer
from instep.errors import ChangedRun

SCRIPT = '''
import functools
import time
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from instep import Loss, Trainer, data

torch.manual_seed(0)
X, Y = torch.randn(150, 4), torch.arange(150) % 3
SCALE = 1.0
UNUSED = 1
STARTED = time.time()
DEVICE = "cpu"
OPTIONS = {"smoothing": 0.1, "unused": 1}
KINDS = {"alpha", "beta", "gamma"}
FOLDER = "/tmp/somewhere"
WEIGHTS = torch.ones(3)


class Part(nn.Module):
    factor = 1.0

    def __init__(self, gain=1.0):
        super().__init__()
        self.gain = gain
        self.calls = 0
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))

    @property
    def half(self):
        return 0.5

    def forward(self, x):
        """Of the model."""
        self.calls += 1
        return self.inner(x) * self.gain * self.factor * self.half


def helped(value):
    return value * 1.0


def made(power):
    return lambda value: value ** power


power = made(1)
smooth = functools.partial(cross_entropy, label_smoothing=0.0)


def objective(model, batch, bonus=0.0):
    x, y = batch
    assert time.time() >= STARTED and FOLDER and "alpha" in KINDS
    x = x.to(DEVICE)
    output = model(x)
    value = smooth(output, y, weight=WEIGHTS) * SCALE + OPTIONS["smoothing"] * 0 + bonus
    return Loss(power(helped(value)), len(x), output, y)


class Jitter:
    def __init__(self, sigma):
        self.sigma = sigma

    def __call__(self, sample):
        return sample[0] + self.sigma * torch.randn(4), sample[1]


def mean_error(output, target):
    return (output.argmax(1) != target).float()


def build(folder, **options):
    model = Part()
    return Trainer(
        model, objective=objective, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train=data.source((X, Y), transform=Jitter(0.1)), valid=(X, Y), metrics={"error": mean_error},
        batch_size=50, epochs=2, folder=folder, progress=False, **options,
    )
'''


def build(folder: Path, text: str = SCRIPT, **options: Any) -> Trainer:
    """The Trainer of a script, as a process of its own would build it."""
    space: dict[str, Any] = {"__name__": "a_script_of_somebody"}
    exec(compile(text, "script.py", "exec"), space)
    made: Trainer = space["build"](folder, **options)
    return made


def stop(trainer: Trainer) -> None:
    for update in trainer.updates():
        if update.step == 3:
            break


@pytest.fixture
def run(tmp_path: Path) -> Path:
    stop(build(tmp_path / "run"))
    return tmp_path / "run"


CHANGES = {
    "a module": ("nn.Tanh()", "nn.ReLU()", r"model\.inner\.1: Tanh\(\) -> ReLU\(\)", "model"),
    "a dropout": ("Dropout(0.3)", "Dropout(0.5)", r"model\.inner\.2: Dropout\(p=0\.3.*\) -> Dropout\(p=0\.5", "model"),
    "an attribute": ("model = Part()", "model = Part(gain=2.0)", r"model\.gain: 1\.0 -> 2\.0", "model"),
    "forward": ("self.inner(x) *", "-self.inner(x) *", r"code of model: Part\.forward has another body", "model"),
    "a property": ("return 0.5", "return 0.25", r"code of model: Part\.half has another body", "model"),
    "a class attribute": ("factor = 1.0", "factor = 2.0", r"Part\.factor of model: 1\.0 -> 2\.0", "model"),
    "the objective": ("+ bonus", "- bonus", r"code of objective: objective has another body", "objective"),
    "a default": ("bonus=0.0", "bonus=1.0", r"objective\(bonus\) of objective: 0\.0 -> 1\.0", "objective"),
    "a global": ("SCALE = 1.0", "SCALE = 2.0", r"SCALE of objective: 1\.0 -> 2\.0", "objective"),
    "a tensor": ("torch.ones(3)", "torch.ones(3) / 2", r"WEIGHTS of objective: \[1\.0, 1\.0, 1\.0\] -> \[0\.5", "objective"),
    "an entry": ('"smoothing": 0.1', '"smoothing": 0.2', r"OPTIONS\['smoothing'\] of objective: 0\.1 -> 0\.2", "objective"),
    "a helper": ("return value * 1.0", "return value * 3.0", r"code of objective: helped has another body", "objective"),
    "a closure": ("made(1)", "made(2)", r"power of objective: 1 -> 2", "objective"),
    "a lambda": ("value ** power", "value ** power * 2", r"made\.<locals>\.<lambda> has another body", "objective"),
    "a partial": (
        "label_smoothing=0.0",
        "label_smoothing=0.1",
        r"smooth\(label_smoothing\) of objective: 0\.0 -> 0\.1",
        "objective",
    ),
    "a transform": ("self.sigma *", "2 * self.sigma *", r"code of train\.transform: Jitter\.__call__ has another", "transform"),
    "its number": ("Jitter(0.1)", "Jitter(0.2)", r"sigma of train\.transform: 0\.1 -> 0\.2", "transform"),
    "a metric": ("!= target", "== target", r"code of metrics\.error: mean_error has another body", "metrics"),
    "a label": ("% 3\n", "% 3\nY[77] = (Y[77] + 1) % 3\n", r"data\.train: column 1, torch\.int64\(\), has other values", "data"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changed_is_refused_by_name_and_may_be_allowed(run: Path, case: str) -> None:
    old, new, words, name = CHANGES[case]
    assert old in SCRIPT
    changed = SCRIPT.replace(old, new)
    with pytest.raises(ChangedRun, match=words) as caught:
        build(run, changed).fit()
    assert name in caught.value.names
    assert "holds a run with another description (before -> now)" in str(caught.value)
    assert build(run, changed, allow_changes=caught.value.names).fit().last is not None


SAME = {
    "nothing": ("", ""),
    "comments and docstrings": ('"""Of the model."""', '"""Of\n        another."""\n        # and why'),
    "lines": ("\nclass Part", "\n\n\n# moved down\n\nclass Part"),
    "a global that nobody reads": ("UNUSED = 1", "UNUSED = 2"),
    "an entry that nobody reads": ('"unused": 1', '"unused": 2'),
    "a path": ("/tmp/somewhere", "/tmp/elsewhere"),
    "a function that nobody calls": ("def helped", "def lonely():\n    return 1\n\n\ndef helped"),
}


@pytest.mark.parametrize("case", SAME)
def test_what_is_the_same_goes_on(run: Path, case: str) -> None:
    old, new = SAME[case]
    assert old in SCRIPT
    trainer = build(run, SCRIPT.replace(old, new, 1))
    trainer.fit()
    assert trainer.resumed_from == 4


def test_what_training_itself_changes_is_no_change(tmp_path: Path) -> None:
    """The same model object in a second Trainer, as in a notebook: its count of calls has moved meanwhile."""
    space: dict[str, Any] = {"__name__": "a_notebook"}
    text = SCRIPT.replace("def build(folder", "model = Part()\n\n\ndef build(folder").replace("    model = Part()\n", "")
    exec(compile(text, "<cell>", "exec"), space)
    stop(space["build"](tmp_path / "run"))
    assert space["model"].calls > 0
    again = space["build"](tmp_path / "run")
    again.fit()
    assert again.resumed_from == 4
    space["build"](tmp_path / "run").fit()  # nothing is left to train, and nothing moves
    assert build(tmp_path / "run", text).fit().last is not None  # in a fresh process


def test_code_of_another_python_is_not_called_changed(run: Path) -> None:
    path = run / "run.json"
    described = json.loads(path.read_text())
    described["code"]["python"] = "3.10.1"
    described["versions"]["python"] = "3.10.1"
    described["code"]["parts"]["objective"]["functions"] = {"objective": "0" * 16, "gone": "0" * 16}
    path.write_text(json.dumps(described))
    trainer = build(run)
    trainer.fit()
    assert trainer.resumed_from == 4
    described["code"]["parts"]["objective"]["values"]["SCALE"] = 7.0
    path.write_text(json.dumps(described))
    with pytest.raises(ChangedRun, match=r"SCALE of objective: 7\.0 -> 1\.0"):
        build(run).fit()


@pytest.mark.slow
def test_a_script_describes_itself_alike_in_every_process(tmp_path: Path) -> None:
    """With another hash seed, from another folder, under another name, and run as a module."""
    main = "\nif __name__ == '__main__':\n    import json, sys\n    print(json.dumps(build(None).run.describe()))\n"
    said = []
    for seed, folder, name in (("0", "here", "train"), ("7", "there/deeper", "renamed")):
        at = tmp_path / folder
        at.mkdir(parents=True)
        (at / f"{name}.py").write_text(SCRIPT + main)
        cwd = at if seed == "0" else tmp_path
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, str(at / f"{name}.py")], cwd=cwd, env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stdout)
    assert said[0] == said[1]
    assert "Part.forward" in said[0]
