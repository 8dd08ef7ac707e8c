"""A batch of validation data goes through model, loss and metrics before the first update, and leaves no trace."""

import copy
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer
from instep.errors import InstepError, ObjectiveError
from instep.loop.first_batch import can_be_tried

N = 24
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % 3


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))


def trainer(model: nn.Module | None = None, **options: Any) -> Trainer:
    model = net() if model is None else model
    options = {"loss": F.cross_entropy, "train": (X, Y), "batch_size": 8, "epochs": 2, "progress": False, **options}
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **options)


def said_before_the_first_update(tmp_path: Path, **options: Any) -> str:
    run = trainer(folder=tmp_path / "run", **options)
    before = copy.deepcopy(run.model.state_dict())
    with pytest.raises(ObjectiveError) as caught:
        run.fit()
    assert run.step == 0
    assert all(torch.equal(value, before[name]) for name, value in run.model.state_dict().items())
    assert not (tmp_path / "run").exists()  # so that the mended script finds a free folder
    return str(caught.value)


def test_wrong_widths_labels_and_metrics(tmp_path: Path) -> None:
    assert "valid: layer '0', Linear" in said_before_the_first_update(tmp_path, valid=(torch.randn(N, 5), Y))
    assert "valid: cross_entropy takes labels as int64" in said_before_the_first_update(tmp_path, valid=(X, Y.float()))
    sets = {"near": (X, Y), "far": (X, Y[:, None])}
    assert "takes one label a sample" in said_before_the_first_update(tmp_path, valid=sets)
    assert "valid: mae cannot compare" in said_before_the_first_update(tmp_path, valid=(X, Y), metrics="mae")

    def off(output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs()

    assert "valid: metric off failed on an output of" in said_before_the_first_update(
        tmp_path, valid=(X, Y), metrics={"off": off}
    )


def test_test_data_is_tried_too(tmp_path: Path) -> None:
    wrong = (torch.randn(N, 5), Y)
    assert "test: layer '0', Linear" in said_before_the_first_update(tmp_path, test=wrong)
    assert "test['far']: layer '0'" in said_before_the_first_update(tmp_path, valid=(X, Y), test={"far": wrong})
    trainer(test=(X, Y), num_workers=1, epochs=1).fit()


def test_a_share_of_the_training_data_is_named_as_the_set_that_it_is(tmp_path: Path) -> None:
    text = said_before_the_first_update(tmp_path, valid=0.25, metrics={"m": lambda output, target: output})
    assert text.startswith("valid: metric m gave shape (")
    run = trainer(valid=0.25, metrics={"m": lambda output, target: output})
    with pytest.raises(ObjectiveError, match="valid: metric m gave shape"):
        run.evaluate()


def test_labels_out_of_range_that_only_the_validation_data_has(tmp_path: Path) -> None:
    labels = Y.clone()
    labels[1] = 5
    assert "sample 1 of valid: label 5 is none of the 3 classes" in said_before_the_first_update(tmp_path, valid=(X, labels))


class Counting(nn.Module):
    """Notices every call that is not undone."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = net()
        self.calls = 0
        self.seen: list[int] = []
        self.last: deque[float] = deque(maxlen=3)
        self.state = torch.zeros(3)
        self.register_buffer("count", torch.zeros(()))
        self.cache: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(len(x))
        self.last.append(float(len(x)))
        self.state += 1.0
        self.count += 1.0
        self.cache = x
        self.new = torch.rand(1)  # an attribute that was not there
        scores: Tensor = self.body(x) * (1 + 0.01 * self.calls + 0.001 * self.state.mean() + torch.rand(()))
        return scores


def traces(model: Counting) -> tuple[Any, ...]:
    cache = None if model.cache is None else model.cache.clone()
    return (
        model.calls,
        list(model.seen),
        list(model.last),
        model.state.tolist(),
        float(model.count),
        cache,
        hasattr(model, "new"),
    )


@pytest.mark.filterwarnings("ignore:.*grew while the model was looked at")
def test_it_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit the run without it, for a model that counts its calls in every way."""
    weights, left = [], []
    for looked in (True, False):
        if not looked:
            monkeypatch.setattr("instep.loop.evaluator.Evaluator.try_first_batches", lambda self: None)
        model = Counting()
        torch.manual_seed(7)
        run = trainer(model, valid={"a": (X, Y), "b": (X[:5], Y[:5])}, metrics="accuracy")
        for update in run.updates():
            if update.step == 0:
                left.append((traces(model), torch.rand(1).item()))
        weights.append((copy.deepcopy(model.state_dict()), traces(model)[:2]))
    assert left[0][0][:5] == left[1][0][:5]
    assert left[0][1] == left[1][1]
    assert all(torch.equal(weights[0][0][name], weights[1][0][name]) for name in weights[0][0])
    assert weights[0][1] == weights[1][1]


def test_the_batch_is_a_small_one() -> None:
    sizes = []
    model = net()
    model.register_forward_pre_hook(lambda module, inputs: sizes.append((module.training, len(inputs[0]))))
    next(trainer(model, valid=(X, Y)).updates())
    assert sizes == [(False, 2), (True, 8)]


class Filled(nn.Linear):
    """Cannot be evaluated before it was trained: a memory that training fills."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.memory: list[Tensor] = []

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            self.memory.append(input.detach().mean(0))
        return super().forward(input - torch.stack(self.memory).mean(0))


class Narrow(nn.Linear):
    """In eval mode before the first update its input has another width than the layer."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.layer = nn.Linear(4, 4)
        self.ready = False

    def forward(self, input: Tensor) -> Tensor:
        self.ready = self.ready or self.training
        return super().forward(self.layer(input if self.ready else input[:, :3]))


@pytest.mark.parametrize("model", [Filled(), Narrow()])
def test_a_model_that_can_only_be_evaluated_after_training_trains(model: nn.Module) -> None:
    run = trainer(model, valid=(X, Y))
    run.fit()
    assert run.step == 6


class Pairs(nn.Linear):
    """Takes whole batches of four or more."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.view(-1, 4, 4)).view(-1, 3)


def test_what_fails_on_a_small_batch_alone_is_no_mistake() -> None:
    run = trainer(Pairs(4, 3), valid=(X, Y))
    run.fit()
    assert run.step == 6


class Mine(Exception):
    pass


def test_what_a_model_raises_on_purpose_is_left_to_the_evaluation() -> None:
    class Refusing(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            if not self.training:
                raise Mine("not here")
            return super().forward(input)

    run = trainer(Refusing(4, 3), valid=(X, Y))
    with pytest.raises(Mine, match="not here"):
        run.fit()
    assert run.step == 3


def no_key(output: Tensor, target: Tensor) -> Tensor:
    return {"other": output}["scores"]


def divided(output: Tensor, target: Tensor) -> float:
    return 1 / (len(output) - len(target))


def asserted(output: Tensor, target: Tensor) -> Tensor:
    assert output.ndim == 3
    return output


def raised(output: Tensor, target: Tensor) -> Tensor:
    raise Mine("not here")


FAILURES = [(no_key, "KeyError: 'scores'"), (divided, "ZeroDivisionError: "), (asserted, "AssertionError"), (raised, "Mine: not")]


@pytest.mark.parametrize(("metric", "words"), FAILURES)
def test_whatever_a_metric_raises_is_said(tmp_path: Path, metric: Callable[..., Any], words: str) -> None:
    text = said_before_the_first_update(tmp_path, valid=(X, Y), metrics={"mine": metric})
    assert text.startswith("valid: metric mine failed on an output of float32 (8, 3) and a target of int64 (8,): " + words)
    assert "test_first_batch.py:" in text
    assert f"in {metric.__name__}" in text


def test_a_metric_that_fails_in_its_first_call_alone_is_told() -> None:
    calls = []

    def metric(output: Tensor, target: Tensor) -> float:
        calls.append(len(output))
        return [0.0][len(calls) == 1]

    with pytest.warns(UserWarning, match="metric mine failed .*list index out of range.*The same call went well"):
        trainer(valid=(X, Y), metrics={"mine": metric}, epochs=1).fit()


def test_a_resumed_run_is_not_looked_at_again(tmp_path: Path) -> None:
    calls = []

    def run() -> Trainer:
        model = net()
        model.register_forward_pre_hook(lambda module, inputs: calls.append(module.training))
        return trainer(model, valid=(X, Y), folder=tmp_path / "run", checkpoint_every=1)

    first = run().updates()
    next(first)
    first.close()
    calls.clear()
    next(run().updates())
    assert calls == [True]


def test_streams_are_not_read(tmp_path: Path) -> None:
    class Once(torch.utils.data.IterableDataset[Any]):
        def __init__(self) -> None:
            self.read = 0

        def __len__(self) -> int:
            return N

        def __iter__(self) -> Iterator[Any]:
            for pair in zip(X, Y, strict=True):
                self.read += 1
                yield pair

    data = Once()
    next(trainer(valid=data).updates())
    assert data.read == 0


def test_an_objective_of_the_users_own_is_not_called_in_addition() -> None:
    calls = []

    def objective(model: nn.Module, batch: Any) -> Tensor:
        calls.append(model.training)
        return F.cross_entropy(model(batch[0]), batch[1])

    next(trainer(loss=None, objective=objective, valid=(X, Y)).updates())
    assert calls == [True]


def test_data_that_cannot_be_loaded_is_left_to_the_evaluation() -> None:
    class Late(torch.utils.data.Dataset[Any]):
        ready = False

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            if not self.ready:
                raise OSError("not yet")
            return X[index], int(Y[index])

    late = Late()
    run = trainer(valid=late)
    for _ in run.updates():
        late.ready = True
    assert run.step == 6
    late.ready = False
    with pytest.raises(InstepError, match="not yet"):
        run.evaluate()


@pytest.mark.parametrize("make", [lambda: torch.zeros(3, 3).to_sparse(), lambda: torch.full((1,), torch.nan).expand(3)])
def test_a_model_whose_buffers_cannot_be_put_back_is_not_tried(make: Callable[[], Tensor]) -> None:
    model = net()
    model.register_buffer("odd", make())
    run = trainer(model, valid=(X, Y))
    run.fit()
    assert run.step == 6


def test_lazy_layers_are_not_tried() -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.Linear(8, 3))
    assert not can_be_tried(model)
    assert can_be_tried(net())
