"""`instep export --to onnx`: what onnxruntime gives is what the model gives, on batches of any size."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cli.conftest import build_file, folder, instep  # noqa: F401  # fixtures
from cli.recorded import trained
from cli.said import Instep
from cli.test_export import written
from instep.errors import CheckpointError
from instep.integrations.onnx import write_onnx
from tiny import Cnn, Reader, Tagger

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


class Named(nn.Module):
    """Takes its inputs by name, and gives two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 4), nn.Linear(5, 3)

    def forward(self, tokens: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.cat([self.embed(tokens).mean(1), size[:, None]], 1)
        return self.head(hidden), hidden


TOKENS = torch.randint(1, 11, (3, 5), generator=torch.Generator().manual_seed(0))
MODELS: dict[str, tuple[type[nn.Module], Any]] = {
    "cnn": (Cnn, (torch.randn(3, 1, 6, 6), torch.zeros(3))),
    "lstm": (Reader, (TOKENS, torch.zeros(3, 5))),
    "transformer": (Tagger, (TOKENS, torch.zeros(3, 5))),
    "named": (Named, ({"size": torch.randn(3), "tokens": TOKENS}, torch.zeros(3))),
}


def session(path: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.usefixtures("build_file")
def test_a_run_as_onnx(instep: Instep) -> None:  # noqa: F811
    written()
    run = trained(instep)
    said = instep("export", str(run), "--to", "onnx", "--which", "2")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("wrote runs/my/model.onnx: runs/my at step 2; run it with onnxruntime.InferenceSession(")
    x = np.linspace(-1, 1, 36, dtype=np.float32).reshape(9, 4)
    np.save("x.npy", x)
    assert instep("predict", str(run), "x.npy", "-o", "p.npy", "--which", "2").code == 0
    found = session(run / "model.onnx")
    for size in (1, 4, 9):
        (output,) = found.run(None, {"x": x[:size]})
        np.testing.assert_allclose(output, np.load("p.npy")[:size], rtol=1e-4, atol=1e-5)
    assert json.loads(found.get_modelmeta().custom_metadata_map["instep"])["step"] == 2
    assert sorted(path.name for path in run.iterdir()) == ["checkpoints", "history.jsonl", "lock", "model.onnx", "run.json"]


@pytest.mark.parametrize("name", MODELS)
def test_models_of_many_kinds(name: str, tmp_path: Path) -> None:
    kind, batch = MODELS[name]
    torch.manual_seed(1)
    write_onnx(tmp_path / "model.onnx", kind(), [batch], lambda _: {})
    inputs = session(tmp_path / "model.onnx").get_inputs()
    assert all(isinstance(one.shape[0], str) for one in inputs)  # any size of a batch


def test_a_model_that_gives_something_else_is_not_written(tmp_path: Path) -> None:
    class Random(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

    with pytest.raises(CheckpointError, match="the exported Random gives other outputs than the model for a batch of 1"):
        write_onnx(tmp_path / "model.onnx", Random(), [(torch.randn(3, 4), torch.zeros(3))], lambda _: {})
    assert list(tmp_path.iterdir()) == []
