"""State of a user's own, outside of parameters and buffers: it is kept, and nobody who looks or tries something changes it."""

import functools
import os
import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Loss, Trainer
from instep.keys import for_build, seed_all
from killed import in_a_child, kill_at_random
from tiny import CLASSES, FEATURES, TASKS

pytestmark = pytest.mark.filterwarnings(
    "ignore:Centred counts as a mean over samples", "ignore:.*grew while the model was looked at"
)

X, Y = TASKS[0].draw(26, seed=0, dtype=torch.float32)


class Own(nn.Module):
    """A linear model that scales its output by what it keeps; `kind` says what that is, and it changes in every forward."""

    def __init__(self, kind: str, late: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.kind = kind
        self.late = late
        self.calls = 0
        self.history: list[Tensor] = [torch.zeros(())]
        self.recent: deque[float] = deque([1.0], maxlen=3)
        self.named: dict[str, Any] = {"sum": torch.zeros(()), "count": 0}
        self.center = torch.zeros(CLASSES)
        self.twin = self.center
        self.drawing = torch.Generator().manual_seed(3)
        self.numpy = np.random.default_rng(4)
        self.legacy = np.random.RandomState(5)
        self.python = random.Random(6)
        self.array = np.zeros(2)
        self.inner = Counted()
        self.teacher = [nn.Linear(FEATURES, CLASSES)]  # hidden from state_dict, as in many a recipe
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.linear(x)
        return output * (1 + 0.1 * float(getattr(self, self.kind.replace(" ", "_"))(output, x)))

    def counter(self, output: Tensor, x: Tensor) -> float:
        self.calls += 1
        return self.calls

    def late_counter(self, output: Tensor, x: Tensor) -> float:
        self.late += 1
        self.calls += self.late > 6
        return self.calls

    def list_of_tensors(self, output: Tensor, x: Tensor) -> Tensor:
        self.history.append(output.detach().mean())
        return torch.stack(self.history).sum()

    def a_deque(self, output: Tensor, x: Tensor) -> float:
        self.recent.append(float(x.mean()))
        return sum(self.recent)

    def a_dictionary(self, output: Tensor, x: Tensor) -> float:
        self.named["count"] += 1
        self.named["sum"] += x.mean()
        return float(self.named["sum"] * self.named["count"])

    def a_tensor(self, output: Tensor, x: Tensor) -> Tensor:
        self.center = 0.9 * self.center + 0.1 * output.detach().mean(0)
        return self.center.sum() + self.twin.sum()

    def a_late_name(self, output: Tensor, x: Tensor) -> float:
        self.made = getattr(self, "made", 0) + 1
        return self.made

    def torch_generator(self, output: Tensor, x: Tensor) -> Tensor:
        return torch.rand((), generator=self.drawing)

    def numpy_generator(self, output: Tensor, x: Tensor) -> float:
        return self.numpy.random()

    def random_state(self, output: Tensor, x: Tensor) -> float:
        return self.legacy.randn()

    def python_generator(self, output: Tensor, x: Tensor) -> float:
        return self.python.gauss(0, 1)

    def an_array(self, output: Tensor, x: Tensor) -> float:
        self.array += 0.1
        return float(self.array.sum())

    def an_object(self, output: Tensor, x: Tensor) -> float:
        self.inner.calls += 1
        return self.inner.calls

    def a_teacher(self, output: Tensor, x: Tensor) -> Tensor:
        for slow, fast in zip(self.teacher[0].parameters(), self.linear.parameters(), strict=True):
            slow.data.mul_(0.9).add_(0.1 * fast.detach())
        scores: Tensor = self.teacher[0](x)
        return scores.detach().mean()

    def a_buffer(self, output: Tensor, x: Tensor) -> Tensor:
        self.get_buffer("seen").add_(1)
        return self.get_buffer("seen")


class Counted:
    def __init__(self) -> None:
        self.calls = 0


class Centred(nn.Module):
    """Centres the scores, and moves the centre while it is in train mode, as in DINO."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(CLASSES))

    def forward(self, scores: Tensor, target: Tensor) -> Loss:
        center = self.get_buffer("center")
        if self.training:
            center.mul_(0.9).add_(0.1 * scores.detach().mean(0))
        return Loss(cross_entropy(scores - center, target), len(target), scores, target)


class Annealed:
    """An objective that is an object, with a count and a module of its own."""

    def __init__(self) -> None:
        self.calls = 0
        self.loss = Centred()

    def __call__(self, model: nn.Module, batch: Any) -> Loss:
        return self.compute(model, batch)

    def compute(self, model: nn.Module, batch: Any) -> Loss:
        self.calls += 1
        found: Loss = self.loss(model(batch[0]), batch[1])
        found.value = found.value * (1 + 0.1 * self.calls)
        return found


def closure() -> Callable[[nn.Module, Any], Loss]:
    calls, loss = 0, Centred()

    def objective(model: nn.Module, batch: Any) -> Loss:
        nonlocal calls
        calls += 1
        found: Loss = loss(model(batch[0]), batch[1])
        found.value = found.value * (1 + 0.1 * calls)
        return found

    return objective


CALLS = 0


def counting_in_a_global(model: nn.Module, batch: Any) -> Loss:
    global CALLS
    CALLS += 1
    scores = model(batch[0])
    return Loss(cross_entropy(scores, batch[1]) * (1 + 0.1 * CALLS), len(batch[1]), scores, batch[1])


def with_loss(loss: nn.Module, model: nn.Module, batch: Any) -> Loss:
    found: Loss = loss(model(batch[0]), batch[1])
    return found


class Slowing(torch.optim.SGD):
    """A number on the optimizer."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        for group in self.param_groups:
            group["lr"] = 0.1 / self.calls
        return super().step(closure)


METHODS = [name.replace("_", " ") for name, value in vars(Own).items() if callable(value) and name not in ("__init__", "forward")]
OBJECTIVES: dict[str, Callable[[], dict[str, Any]]] = {
    "loss module": lambda: {"loss": Centred()},
    "objective object": lambda: {"objective": Annealed()},
    "bound method": lambda: {"objective": Annealed().compute},
    "partial": lambda: {"objective": functools.partial(with_loss, Centred())},
    "closure": lambda: {"objective": closure()},
    "global": lambda: {"objective": counting_in_a_global},
    "optimizer": lambda: {"optimizer": Slowing},
}
KINDS = [*METHODS, *OBJECTIVES]


def build(kind: str, folder: Path | None = None, model: nn.Module | None = None, **changes: Any) -> Trainer:
    """As a new process would."""
    global CALLS
    CALLS = 0
    seed_all(for_build(0))
    if model is None:
        model = Own(kind) if kind in METHODS else nn.Linear(FEATURES, CLASSES)
    special = OBJECTIVES[kind]() if kind in OBJECTIVES else {}
    optimizer = special.pop("optimizer", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    loss = {} if "objective" in special or "loss" in special else {"loss": cross_entropy}
    usual: dict[str, Any] = {
        "optimizer": optimizer(model.parameters()),
        "train": (X, Y),
        "valid": (X[:9], Y[:9]),
        "epochs": 3,
        "batch_size": 8,
        "drop_last": True,
        "checkpoint_every": None,
        "keep": None,
        "log_every": 1,
        "folder": folder,
        "progress": False,
    }
    return Trainer(model, **(loss | usual | special | changes))


def result(trainer: Trainer) -> dict[str, Any]:
    """What must be equal bit for bit: weights, rows, and the last checkpoint."""
    found = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    rows = trainer.history.to_dicts(clock=False)
    if trainer.folder is None:
        return {**found, "rows": [row for row in rows if "loss" in row]}
    last = sorted((trainer.folder / "checkpoints").glob("step-*"))[-1]
    return {**found, "rows": rows, "files": {path.name: path.read_bytes() for path in sorted(last.iterdir())}}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        equal = torch.equal(value, other[name]) if isinstance(value, Tensor) else value == other[name]
        assert equal, name


class Everything(Own):
    """All of it at once."""

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.linear(x)
        return output * (1 + 0.01 * sum(float(getattr(self, kind.replace(" ", "_"))(output, x)) for kind in METHODS))


def everything(folder: Path) -> Trainer:
    seed_all(for_build(0))
    model = Everything("all")
    return build("objective object", folder, model=model, optimizer=Slowing(model.parameters()), epochs=8, checkpoint_every=1)


def check_stopped(build: Callable[[Path], Trainer], folder: Path, stops: tuple[int, ...]) -> None:
    whole = build(folder / "whole")
    whole.fit()
    for stop in stops:
        for update in build(folder / "stopped").updates():
            if update.step == stop:
                break
    again = build(folder / "stopped")
    again.fit()
    assert again.resumed_from == stops[-1] + 1
    assert_same(result(whole), result(again))


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_stopped_run_goes_on_with_it(kind: str, tmp_path: Path) -> None:
    check_stopped(functools.partial(build, kind), tmp_path, (4,))


def test_a_stopped_run_goes_on_with_all_that_a_model_keeps(tmp_path: Path) -> None:
    check_stopped(everything, tmp_path, (0, 4, 7))


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_a_stopped_run_goes_on_with_each(kind: str, tmp_path: Path) -> None:
    check_stopped(functools.partial(build, kind), tmp_path, (0, 4, 7))


@pytest.mark.parametrize("kind", KINDS)
def test_looking_and_trying_change_nothing(kind: str) -> None:
    alone = build(kind, evaluate_every=None)
    alone.fit()
    watched = build(kind, evaluate_every=1)
    watched.find_lr(steps=20, repeats=1)
    watched.dry_run()
    for update in watched.updates():
        if update.step == 3:
            watched.predict(X[:5])
            watched.find_lr(steps=20, repeats=1)
            watched.find_batch_size(paces=False, how="trying")
        watched.evaluate()
    assert_same(result(alone), result(watched))


@pytest.mark.parametrize("kind", ["counter", "torch generator", "loss module", "closure"])
def test_an_average_is_evaluated_without_a_trace(kind: str) -> None:
    alone, watched = build(kind, ema=0.9, evaluate_every=None), build(kind, ema=0.9, evaluate_every=1)
    alone.fit()
    watched.fit()
    assert_same(result(alone), result(watched))


def test_killed_at_random_moments_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    begun = time.monotonic()
    os.waitpid(in_a_child(lambda folder: everything(folder).fit(), tmp_path / "whole"), 0)
    whole_s = time.monotonic() - begun
    kill_at_random(lambda folder: everything(folder).fit(), tmp_path / "killed", kills=6, seed=1, whole_s=whole_s)
    whole, again = everything(tmp_path / "whole"), everything(tmp_path / "killed")
    whole.fit()  # finished: only read
    again.fit()
    assert_same(result(whole), result(again))


class Bursting(Own):
    """Does not fit in memory in one update, after it has changed what it keeps."""

    room: int | None = None  # of the class: nobody's state

    def forward(self, x: Tensor) -> Tensor:
        output = super().forward(x)
        if self.training and self.calls == 3 and len(x) > 4 and Bursting.room is None:
            Bursting.room = 4
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return output


def test_an_update_that_is_made_again_finds_it_as_before() -> None:
    """Counters, and what the objective holds, stand where they would after updates of two pieces each from then on."""
    setattr(Bursting, "room", None)  # noqa: B010  # mypy takes it for None from here on
    seed_all(for_build(0))
    objective = Annealed()
    trainer = build("objective object", model=Bursting("counter"), objective=objective, on_out_of_memory="split", max_steps=5)
    trainer.fit()
    assert Bursting.room == 4
    assert (trainer.model.calls, objective.calls) == (2 + 3 * 2, 2 + 3 * 2)


@pytest.mark.filterwarnings("ignore::instep.errors.Notice")
def test_a_skipped_update_leaves_the_buffers_of_a_loss_as_they_were() -> None:
    loss = Centred()
    x, y = torch.full((8, FEATURES), torch.inf), torch.zeros(8, dtype=torch.long)
    model = nn.Linear(FEATURES, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(
        model, loss=loss, optimizer=optimizer, train=(x, y), on_nonfinite="skip", max_steps=1, batch_size=8, progress=False
    )
    (update,) = trainer.updates()
    assert update.skipped
    assert loss.get_buffer("center").tolist() == [0.0] * CLASSES
