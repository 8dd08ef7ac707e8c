"""Which operation made a value that is not finite: forward and backward, what was given, and what it came from."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import instep
from instep import Replay, Trainer


class Made(nn.Module):
    """A layer with a function of the test's behind it."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.then = Then(function)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.then(self.layer(x))
        return out


class Then(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def logarithm(x: Tensor) -> Tensor:
    return x.relu().log()  # of 0


def overflow(x: Tensor) -> Tensor:
    large = (x * 1e4).exp()
    return large / large


def root(x: Tensor) -> Tensor:
    return (x * 0).sqrt() * x.sum()  # finite, with a derivative that is not


def masked(x: Tensor) -> Tensor:
    return x.masked_fill(torch.ones_like(x, dtype=torch.bool), -math.inf).softmax(1)


def finite(x: Tensor) -> Tensor:
    hidden = x.masked_fill(torch.tensor([True, False, False]), -math.inf).softmax(1)
    return hidden + torch.empty_like(x).fill_(1.0)


def replay_of(folder: Path, function: Callable[[Tensor], Tensor], *, x: Tensor | None = None, **options: Any) -> Replay:
    """The first update of a run of the function, replayed with anomaly."""
    torch.manual_seed(0)
    data = torch.randn(8, 4) if x is None else x
    model = Made(function)

    def build() -> Trainer:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        arguments: dict[str, Any] = {"on_nonfinite": "skip", "max_steps": 1, "batch_size": 8, "progress": False} | options
        loss = lambda out, y: out.square().mean()  # noqa: E731
        return Trainer(model, loss=loss, optimizer=optimizer, train=(data, torch.zeros(8)), **arguments)

    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = build()
    made.run.set_folder(folder / "run")
    try:
        made.fit()
    except instep.errors.InstepError:
        assert options
    for checkpoint in (folder / "run").glob("checkpoints/step-*"):
        checkpoint.rename(folder / checkpoint.name)  # so that it begins at the start
    model.load_state_dict(before)
    return instep.replay(folder / "run", build, step=0, anomaly=True)


pytestmark = pytest.mark.filterwarnings("ignore::instep.errors.Notice")


def test_an_operation_of_the_forward_is_named_with_the_line(tmp_path: Path) -> None:
    found = replay_of(tmp_path, logarithm)
    operation = found.operation
    assert operation is not None
    assert operation.line is not None
    assert (operation.name, operation.made, operation.phase, operation.module) == ("log", "inf", "forward", "then (Then)")
    assert operation.line.code == "return x.relu().log()  # of 0"
    assert operation.line.file.endswith("test_replay_operation.py")
    assert "log in the forward of then (Then) made inf of float32 (8, 3) 0 to " in str(operation)


def test_a_nan_is_followed_back_to_the_inf_that_it_was_made_of(tmp_path: Path) -> None:
    operation = replay_of(tmp_path, overflow).operation
    assert operation is not None
    assert [(one.name, one.made) for one in operation.chain()] == [("exp", "inf"), ("div", "nan")]
    assert [one.line.code for one in operation.chain() if one.line] == ["large = (x * 1e4).exp()", "return large / large"]


def test_an_operation_of_the_backward_is_named_with_the_line_of_its_forward(tmp_path: Path) -> None:
    found = replay_of(tmp_path, root, clip_norm=math.inf, on_nonfinite="stop")
    assert math.isfinite(found.loss)
    assert found.last.error is not None
    assert "the loss is finite, its gradients are not" in found.last.error
    assert "gradient of layer.weight: 12 of 12" in found.last.nonfinite
    operation = found.operation
    assert operation is not None
    first, *_ = operation.chain()
    assert first.line is not None
    assert (first.name, first.made, first.phase, first.module) == ("SqrtBackward0 (div)", "nan", "backward", "then (Then)")
    assert first.line.code == "return (x * 0).sqrt() * x.sum()  # finite, with a derivative that is not"


def test_a_mask_is_to_blame_where_it_leaves_nothing(tmp_path: Path) -> None:
    operation = replay_of(tmp_path, masked).operation
    assert operation is not None
    names = [(one.name, one.made) for one in operation.chain()]
    assert names == [("masked_fill", "inf"), ("_softmax", "nan")]


def test_a_mask_that_does_what_it_is_for_is_no_finding(tmp_path: Path) -> None:
    found = replay_of(tmp_path, finite)
    assert found.operation is None
    assert found.last.nonfinite == ()
    assert "where it comes from" not in str(found)


def test_a_batch_and_its_sample_are_named(tmp_path: Path) -> None:
    x = torch.randn(8, 4)
    x[5, 2] = math.nan
    found = replay_of(tmp_path, torch.relu, x=x, update_cycle=2)
    assert found.operation is not None
    assert str(found.operation) == "column 0 of the batch holds nan"
    assert found.last.nonfinite[0] == "Sample 5 of train: feature 2 of column 0 is nan."
    assert found.update is not None
    assert found.update.skipped
    assert found.checked.verdict == "bitwise"
