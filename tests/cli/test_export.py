"""`instep export`: a model that runs without the code that it was trained with."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cli.recorded import trained
from cli.said import BUILD, Instep
from programs import Programs

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.drop, self.b = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.norm(self.a(x)))))

"""
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
STRANGER = """
import sys, json
import numpy as np, torch
assert not any(name in sys.modules for name in ("my", "instep"))
files = {"instep.json": ""}
model = torch.export.load("model.pt2", extra_files=files).module()
for size in (1, 4, 9):
    np.save(f"p{size}.npy", model(torch.from_numpy(np.load("x.npy"))[:size]).detach().numpy())
print(json.loads(files["instep.json"])["step"])
"""

pytestmark = [pytest.mark.usefixtures("build_file"), pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")]


def written(forward: str = "") -> None:
    text = BUILD.replace("\n\ndef build", NET + "\n\ndef build").replace("nn.Linear(4, 3)\n    return", "Net()\n    return")
    text = text.replace("batch_size=8", "batch_size=8, drop_last=True")
    Path("my.py").write_text(text.replace("return self.b(", forward + "return self.b(") if forward else text)


def test_it_runs_in_a_process_that_does_not_know_the_class(instep: Instep, folder: Path, programs: Programs) -> None:
    written()
    run = trained(instep)
    x = np.linspace(-1, 1, 36, dtype=np.float32).reshape(9, 4)
    stranger = folder / "stranger"
    stranger.mkdir()
    np.save(stranger / "x.npy", x)
    said = instep("export", str(run), "-o", str(stranger / "model.pt2"), "--which", "2")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"wrote {stranger}/model.pt2: runs/my at step 2; run it with torch.export.load(")
    assert sorted(os.listdir(stranger)) == ["model.pt2", "x.npy"]

    assert instep("predict", str(run), str(stranger / "x.npy"), "-o", "p.npy", "--which", "2").code == 0
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = programs.run(["-W", "ignore", "-c", STRANGER], cwd=stranger, env=environment)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    for size in (1, 4, 9):
        np.testing.assert_allclose(np.load(stranger / f"p{size}.npy"), np.load("p.npy")[:size], rtol=1e-5, atol=1e-6)


def test_it_is_written_into_the_run_where_nothing_else_is_said(instep: Instep) -> None:
    run = trained(instep)
    assert instep("export", str(run)).out.startswith("wrote runs/my/model.pt2: runs/my at step ")
    program = torch.export.load(run / "model.pt2")
    assert program.module()(torch.ones(6, 4)).shape == (6, 3)


WORDS = """
import torch
from torch import nn
from instep import Trainer, data

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, ids):
        FORWARD
        return self.head(self.embedding(ids).mean(1))

def build(epochs: int = 1):
    rows = [SAMPLE for i in range(24)]
    model = Words()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = data.source(rows, collate_fn=data.pad(give=None)SOURCE)
    return Trainer(model, OBJECTIVE, optimizer=optimizer, train=train, batch_size=8, epochs=epochs)
"""
PAIR, LOSS = "(torch.randint(1, 9, (3 + i % 7,)), i % 2)", "loss=nn.functional.cross_entropy"
NAMED = "{'ids': torch.randint(1, 9, (3 + i % 7,)), 'label': i % 2}"


def words(forward: str, sample: str, source: str = "", objective: str = LOSS) -> None:
    said = {"FORWARD": forward, "SAMPLE": sample, "SOURCE": source, "OBJECTIVE": objective}
    text = WORDS
    for name, value in said.items():
        text = text.replace(name, value)
    Path("my.py").write_text(text)


def test_lengths_that_differ_in_the_data_are_free(instep: Instep) -> None:
    words("pass", PAIR)
    run = trained(instep)
    assert "takes only" not in instep("export", str(run)).out
    files = {"instep.json": ""}
    model = torch.export.load(run / "model.pt2", extra_files=files).module()
    assert [model(torch.ones(2, length, dtype=torch.int64)).shape for length in (2, 5, 20)] == [(2, 2)] * 3
    assert json.loads(files["instep.json"])["inputs"] == {"0": ["any", "any"]}


def test_lengths_that_torch_fixes_are_said(instep: Instep) -> None:
    words("ids = ids[:, : int(ids.shape[1])] if ids.shape[1] == 9 else ids", NAMED, ", target='label'")
    run = trained(instep)
    said = instep("export", str(run)).out.replace("\n", " ")
    assert ".module()(inputs); torch.export has fixed sizes that differ in the data, so it takes only inputs (any, 9)" in said


def test_a_target_among_the_inputs_is_named(instep: Instep) -> None:
    words("pass", NAMED, "", "objective=lambda model, batch: nn.functional.cross_entropy(model(batch['ids']), batch['label'])")
    said = instep("export", str(trained(instep)))
    assert said.code == 1
    assert "Traceback" not in said.err
    assert "its forward takes no 'label', which the batches hold; where that is the target, say so" in said.err


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (
            "x = x[:3] if not self.training and len(x) == 3 else x\n        ",
            "it fixes the size of the batch somewhere in forward; use -1",
        ),
        (
            "x = x + torch.rand(())\n        ",
            "the exported Net gives other outputs than the model for a batch of ",
        ),
        ("x = x * float(x.sum())\n        ", "torch.export cannot take Net: "),
    ],
    ids=["fixed", "random", "data"],
)
def test_a_model_that_cannot_be_exported_says_why(instep: Instep, forward: str, words: str) -> None:
    written(forward)
    run = trained(instep)
    said = instep("export", str(run))
    assert (said.code, said.out) == (1, "")
    assert words in said.err.splitlines()[-1]
    assert not (run / "model.pt2").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "-o model.h5",
            "does not say which format it is to have; end it in one of .pt2, .onnx, .pt, .pth, .safetensors",
        ),
        ("--to pt2 -o model.onnx", "model.onnx does not end in .pt2; say -o model.pt2\n"),
        ("--to state_dict -o model.bin", "model.bin does not end in .pt; say -o model.pt\n"),
        ("--to keras", "invalid choice 'keras'"),
    ],
)
def test_another_ending_is_refused(instep: Instep, options: str, words: str) -> None:
    said = instep("export", "runs/my", *options.split())
    assert said.code == 2
    assert said.err.startswith("instep: ")
    assert words in said.err


def test_onnx_without_its_packages_says_what_to_install(instep: Instep) -> None:
    if find_spec("onnx") is not None:
        pytest.skip("onnx is installed")
    said = instep("export", "runs/my", "--to", "onnx")
    packages = '"onnx>=1.17" "onnxruntime>=1.20" "onnxscript>=0.3"'
    words = f"instep: an export to ONNX needs onnx, which is not installed; type: pip install {packages}\n"
    assert (said.code, said.err) == (2, words)


def test_the_weights_alone(instep: Instep, folder: Path) -> None:
    """As PyTorch users load them: by torch.load with weights_only, and by safetensors."""
    written()
    run = trained(instep)
    said = instep("export", str(run), "--to", "state_dict")
    use = "load it with model.load_state_dict(torch.load('runs/my/model.pt', weights_only=True))"
    assert (said.code, said.err) == (0, "")
    assert " ".join(said.out.split()).endswith(use)
    assert instep("export", str(run), "-o", "w.safetensors").code == 0
    assert instep("export", str(run), "-o", "w.pth", "--which", "2").code == 0
    state = torch.load(run / "model.pt", weights_only=True)
    best = load_file(Path("w.safetensors"))
    assert list(state) == ["a.weight", "a.bias", *(f"norm.{name}" for name in NORM), "b.weight", "b.bias"]
    assert state.keys() == best.keys()
    assert all(torch.equal(state[name], best[name]) for name in state)
    step = next((run / "checkpoints").glob("step-00000002"))
    early, kept = torch.load("w.pth", weights_only=True), load_file(step / "model.safetensors")
    assert all(torch.equal(early[name], kept[name]) for name in early)
    assert sorted(os.listdir(folder)) == ["my.py", "runs", "w.pth", "w.safetensors"]
