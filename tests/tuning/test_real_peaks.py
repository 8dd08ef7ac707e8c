"""What the search measures against what a process of its own takes, for an MLP, a CNN and a small transformer."""

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam

from instep.tuning import resident
from instep.tuning.batch_size import find_batch_size
from tuning.toyrun import ToyRun

BUDGET_BYTES = 320e6  # above what a process takes that has imported torch, which depends on its build
UPDATES = 12  # a heap has its size after about ten


class Tokens(nn.Module):
    """Two transformer layers over 64 token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(128, 1000)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(self.embed(x)))
        return scores.transpose(1, 2)


def run_of(name: str, batch_size: int) -> ToyRun:
    torch.set_num_threads(1)
    model: nn.Module
    if name == "transformer":
        model, data = Tokens(), (torch.randint(1000, (1000, 64)), torch.randint(1000, (1000, 64)))
    elif name == "cnn":
        convolution = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()
        head = (
            nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )
        model, data = nn.Sequential(*convolution, *head), (torch.randn(1000, 3, 32, 32), torch.randint(10, (1000,)))
    else:
        layers = nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        model, data = nn.Sequential(*layers), (torch.randn(10_000, 784), torch.randint(10, (10_000,)))
    optimizer = Adam(model.parameters())
    return ToyRun(model, optimizer, lambda m, b: cross_entropy(m(b[0]), b[1]), data, batch_size=batch_size)


def search(name: str) -> dict[str, Any]:
    budget = (resident.resident_bytes() or 0) + BUDGET_BYTES
    found = find_batch_size(run_of(name, 1024), memory_bytes=budget, margin=0.0, paces=False)
    return {"largest": found.largest, "peak_bytes": found.peak_bytes, "budget": budget}


def train(name: str, batch_size: int) -> dict[str, Any]:
    updates = run_of(name, batch_size).rehearse(0)
    for _ in range(UPDATES):
        next(updates)
    return {"peak_bytes": resident.peak_bytes()}


def in_a_process(code: str) -> dict[str, Any]:
    """Called in a Python of its own."""
    imports = f"import json, sys; sys.path[:0] = {sys.path!r}; from tuning.test_real_peaks import search, train"
    script = f"{imports}\nprint(json.dumps({code}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what a process takes")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "cnn", "mlp"])
def test_what_is_measured_is_what_a_process_of_its_own_takes(name: str) -> None:
    found = in_a_process(f"search({name!r})")
    assert found["largest"] >= 16
    real = in_a_process(f"train({name!r}, {found['largest']})")
    assert found["peak_bytes"] <= found["budget"]
    assert found["peak_bytes"] == pytest.approx(real["peak_bytes"], rel=0.15)
