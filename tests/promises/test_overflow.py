"""Promise 7, overflow: a micro-batch that does not fit in memory is split finer, and the update done again from its start."""

import itertools
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from instep import Trainer, keys
from instep.data.loading import loader as loading
from instep.errors import DescriptionError, OutOfMemory
from tiny import CLASSES, FEATURES, TASKS, Task

pytestmark = pytest.mark.filterwarnings("ignore:Tight.sizes grew while the model was looked at")

SAID = "CUDA out of memory. Tried to allocate 2.00 GiB."


class Bursting(torch.autograd.Function):
    """The identity, whose backward does not fit in memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        raise torch.OutOfMemoryError(SAID)


class Tight(nn.Module):
    """A model for which the memory has room for so many samples, forward or backward, depending on the step.

    `spared` forwards of a step go through whatever their size: so that others of the update have been made before one fails.
    """

    def __init__(self, inner: nn.Module, *, where: str = "forward", spared: int = 0, training: bool = True) -> None:
        super().__init__()
        self.inner = inner
        self._where, self._spared, self._when = where, spared, training
        self._trainer: Trainer | None = None
        self._rooms: Sequence[int | None] = ()
        self._step = 0
        self._forwards = 0
        self.sizes: list[int] = []  # of what went through at this step, without attempts that failed

    def in_memory(self, trainer: Trainer, rooms: Sequence[int | None]) -> None:
        """From now on there is so much room at each step of the trainer; the last of them holds for all that follow."""
        self._trainer, self._rooms = trainer, rooms

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.inner(x)  # which changes buffers and draws numbers, also where it fails afterwards
        if self._trainer is None or self.training is not self._when:
            return output
        if self._trainer.step != self._step:
            self._step, self._forwards, self.sizes = self._trainer.step, 0, []
        self._forwards += 1
        room = self._rooms[min(self._step, len(self._rooms) - 1)]
        if room is None or len(x) <= room or self._forwards <= self._spared:
            self.sizes.append(len(x))
            return output
        self.sizes = []
        if self._where == "forward":
            raise torch.OutOfMemoryError(SAID)
        burst: Tensor = Bursting.apply(output)  # type: ignore[no-untyped-call]
        return burst


def train(trainer: Trainer, rooms: Sequence[int | None] = (None,), *, stop: int | None = None) -> list[list[int]]:
    """Train with so much room at each step; returns the sizes that went through the model at each."""
    trainer.model.in_memory(trainer, rooms)
    sizes = []
    for update in trainer.updates():
        sizes.append(trainer.model.sizes)
        if update.step == stop:
            break
    return sizes


# --- Equal to the whole batch


@dataclass(frozen=True)
class Split:
    """A run of six updates on a model without dropout and BatchNorm."""

    task: Task
    n: int
    batch: int
    split: dict[str, int]
    where: str
    spared: int
    options: dict[str, Any]

    def trainer(self, **changes: Any) -> Trainer:
        model = Tight(self.task.build(3), where=self.where, spared=self.spared)
        x, y = self.task.draw(self.n, seed=1)
        arguments: dict[str, Any] = {"batch_size": self.batch, "max_steps": 6, "progress": False, **self.options}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return Trainer(model, loss=nn.functional.cross_entropy, optimizer=optimizer, train=(x, y), **(arguments | changes))


ROOMS = st.lists(st.sampled_from([None, 1, 2, 3, 5, 8, 13]), min_size=6, max_size=6)


@st.composite
def splits(draw: st.DrawFn) -> Split:
    n = draw(st.integers(6, 40))
    batch = draw(st.integers(2, n))
    words = [{}, {"update_cycle": draw(st.integers(1, batch))}, {"micro_batch_size": draw(st.integers(1, batch))}]
    return Split(
        task=draw(st.sampled_from(TASKS)),
        n=n,
        batch=batch,
        split=draw(st.sampled_from(words)),
        where=draw(st.sampled_from(["forward", "backward"])),
        spared=draw(st.integers(0, 2)),
        options=draw(st.sampled_from([{}, {"clip_norm": 0.5}, {"ema": 0.5}, {"on_nonfinite": "skip"}, {"l2": 0.01}])),
    )


def close(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-11), name


def check_split(case: Split, rooms: list[int | None]) -> None:
    whole, tight = case.trainer(), case.trainer(on_out_of_memory="split", **case.split)
    train(whole)
    sizes = train(tight, rooms)
    close(whole.model, tight.model)
    if whole.ema is not None and tight.ema is not None:
        close(whole.ema.module, tight.ema.module)
    full = [step for step in sizes if sum(step) == case.batch]
    assert all(max(later) <= max(step) for step, later in itertools.pairwise(full))  # what was split finer stays so
    if not case.spared:
        assert all(max(step) <= room for step, room in zip(sizes, rooms, strict=True) if room is not None)


@settings(max_examples=15, deadline=None)
@given(case=splits(), rooms=ROOMS)
def test_it_is_the_training_of_the_whole_batch(case: Split, rooms: list[int | None]) -> None:
    check_split(case, rooms)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(case=splits(), rooms=ROOMS)
def test_a_thousand_runs_are_those_of_the_whole_batch(case: Split, rooms: list[int | None]) -> None:
    check_split(case, rooms)


def test_the_pieces_are_halved_until_they_fit_and_stay_so() -> None:
    case = Split(TASKS[0], 20, 16, {}, "forward", 0, {})
    sizes = train(case.trainer(on_out_of_memory="split"), [None, 9, 9, None, 7, None])
    assert sizes == [[16], [4], [8, 8], [4], [4, 4, 4, 4], [4]]


def test_a_small_last_batch_is_split_only_where_it_has_to_be() -> None:
    case = Split(TASKS[0], 21, 16, {"update_cycle": 2}, "forward", 0, {})
    assert train(case.trainer(on_out_of_memory="split", **case.split), [7]) == [[4] * 4, [3, 2]] * 3


# --- Equal, bit for bit, to the run that had the finer split from that step on


class Net(nn.Module):
    """Dropout, BatchNorm, a buffer that is assigned anew, and one that is made in the forward."""

    calls: Tensor
    last: Tensor | None

    def __init__(self, *, made_in_forward: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.3))
        self.head = nn.Linear(8, CLASSES)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", None if made_in_forward else torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls = self.calls + 1
            shift = 0.0 if self.last is None else self.last
            self.last = x.detach().mean() * 0.01
            x = x + shift
        scores: Tensor = self.head(self.body(x))
        return scores * (1 + self.calls / 100)


OPTIMIZERS: dict[str, Any] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3, history_size=2),
}
OPTIONS: list[dict[str, Any]] = [{}, {"ema": 0.5}, {"on_nonfinite": "skip"}, {"clip_norm": 0.5}, {"precision": "fp16"}]
LBFGS_OPTIONS = [*OPTIONS[:-1], {"precision": "bf16"}]  # no scaler goes with it


@dataclass(frozen=True)
class Finer:
    """A run of 8 updates, of 8 samples or 6, in a folder."""

    optimizer: str = "momentum"
    options: int = 0
    where: str = "forward"
    spared: int = 0

    def trainer(self, folder: Path, **changes: Any) -> Trainer:
        keys.seed_all(keys.for_build(1))
        options = OPTIONS[self.options] if self.optimizer != "lbfgs" else LBFGS_OPTIONS[self.options]
        net = Net(made_in_forward="ema" not in options)  # torch's AveragedModel does not know a buffer that was not there
        model = Tight(net, where=self.where, spared=self.spared)
        x, y = TASKS[0].draw(30, seed=0, dtype=torch.float32)
        arguments: dict[str, Any] = {
            "batch_size": 8,
            "epochs": 2,
            "valid": (x[:9], y[:9]),
            "evaluate_every": 3,
            "checkpoint_every": None,
            "keep": None,
            "log_every": 1,
            "progress": False,
            **options,
        }
        optimizer = OPTIMIZERS[self.optimizer](model.parameters())
        loss = nn.functional.cross_entropy
        return Trainer(model, loss=loss, optimizer=optimizer, train=(x, y), folder=folder, **(arguments | changes))


def learned(trainer: Trainer) -> list[bytes]:
    """Bit for bit."""
    model, kept = trainer.model, trainer.optimizer.state_dict()["state"]
    tensors = [*model.parameters(), *model.buffers(), *(value for one in kept.values() for value in _flat(one))]
    tensors += [] if trainer.ema is None else list(trainer.ema.state_dict().values())
    return [t.detach().numpy().tobytes() for t in tensors]


def _flat(state: Any) -> list[Tensor]:
    if isinstance(state, Tensor):
        return [state]
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list) else []
    return [tensor for part in parts for tensor in _flat(part)]


FINER = st.builds(
    Finer,
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    options=st.integers(0, len(OPTIONS) - 1),
    where=st.sampled_from(["forward", "backward"]),
    spared=st.integers(0, 2),
)


def check_finer(case: Finer, step: int, room: int) -> None:
    with TemporaryDirectory() as parent:
        case = case if case.optimizer == "lbfgs" else replace(case, spared=0)  # else nothing but the first is too large
        tight = case.trainer(Path(parent) / "tight", on_out_of_memory="split")
        train(tight, [*[None] * step, room, None])
        largest = json.loads(_last(Path(parent) / "tight", "state.json"))["state"]["finer_split"]["training"]
        assert largest == (min(room, 3) if step % 4 == 3 else 4 if room >= 4 else 2)  # of 6 samples, or of 8
        if step:
            train(case.trainer(Path(parent) / "finer"), stop=step - 1)
        finer = case.trainer(Path(parent) / "finer", micro_batch_size=largest, allow_changes=("micro_batch_size",))
        train(finer)
        assert learned(finer) == learned(tight)
        assert finer.history.column("loss") == tight.history.column("loss")


def _last(folder: Path, name: str) -> str:
    checkpoints = folder / "checkpoints"
    return (checkpoints / (checkpoints / "LATEST").read_text().strip() / name).read_text()


@settings(max_examples=10, deadline=None)
@given(case=FINER, step=st.integers(0, 6), room=st.sampled_from([2, 3, 4, 5]))
def test_it_is_the_run_that_was_split_finer_from_that_step_on(case: Finer, step: int, room: int) -> None:
    check_finer(case, step, room)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(case=FINER, step=st.integers(0, 6), room=st.sampled_from([2, 3, 4, 5]))
def test_five_hundred_runs_are_those_that_were_split_finer(case: Finer, step: int, room: int) -> None:
    check_finer(case, step, room)


# --- Stopped and killed


def result(trainer: Trainer, folder: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    last = folder / "checkpoints" / (folder / "checkpoints" / "LATEST").read_text().strip()
    return {
        "learned": learned(trainer),
        "rows": trainer.history.to_dicts(clock=False),
        "history": [{name: value for name, value in row.items() if name != "clock"} for row in rows],
        "checkpoint": {path.name: path.read_bytes() for path in sorted(last.iterdir())},
    }


@pytest.mark.parametrize("on_out_of_memory", ["split", "raise"])
@pytest.mark.parametrize("stop", [3, 4, 6])
def test_a_run_that_goes_on_has_the_finer_split_without_a_further_overflow(
    tmp_path: Path, on_out_of_memory: str, stop: int
) -> None:
    case, rooms = Finer("adamw"), [None, None, None, 5, None]
    whole = case.trainer(tmp_path / "whole", on_out_of_memory="split")
    train(whole, rooms)
    train(case.trainer(tmp_path / "stopped", on_out_of_memory="split"), rooms, stop=stop)
    again = case.trainer(tmp_path / "stopped", on_out_of_memory=on_out_of_memory)
    assert train(again)[0] in ([4, 4], [3, 3], [3, 3, 2])
    assert result(whole, tmp_path / "whole") == result(again, tmp_path / "stopped")


def test_killed_after_an_overflow_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    case, rooms = Finer("adamw"), [None, None, 5, None, None, 3, None, None]
    whole = case.trainer(tmp_path / "whole", on_out_of_memory="split")
    train(whole, rooms)
    for stop in (2, 4, 5):
        child = os.fork()
        if child == 0:
            train(case.trainer(tmp_path / "killed", on_out_of_memory="split"), rooms, stop=stop - 1)
            trainer = case.trainer(tmp_path / "killed", on_out_of_memory="split")
            trainer.model.in_memory(trainer, rooms)
            for _ in trainer.updates():
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    again = case.trainer(tmp_path / "killed", on_out_of_memory="split")
    train(again, rooms)
    assert result(whole, tmp_path / "whole") == result(again, tmp_path / "killed")


# --- Several players, and an evaluation


def gan(rooms: Sequence[int | None], **changes: Any) -> tuple[nn.Module, list[tuple[str, int]]]:
    """Two players whose objectives tell who plays with how many samples; the second has little room."""
    keys.seed_all(3)
    model = {"d": nn.Linear(FEATURES, 1).double(), "g": Tight(nn.Linear(FEATURES, FEATURES).double(), where="backward")}
    played: list[tuple[str, int]] = []
    note = played.append  # a list in the closure would be put back with the attempt that failed

    def d(models: Any, batch: tuple[Tensor, ...]) -> Tensor:
        note(("d", len(batch[0])))
        error: Tensor = models["d"](batch[0]) - models["d"](models["g"].inner(batch[0]).detach())
        return error.square().mean()

    def g(models: Any, batch: tuple[Tensor, ...]) -> Tensor:
        note(("g", len(batch[0])))
        error: Tensor = models["d"](models["g"](batch[0]))
        return error.square().mean()

    trainer = Trainer(
        model,
        objective={"d": d, "g": g},
        optimizer={"d": lambda p: torch.optim.SGD(p, lr=0.1), "g": lambda p: torch.optim.SGD(p, lr=0.1)},
        train=TASKS[0].draw(8, seed=0)[:1],
        batch_size=8,
        max_steps=3,
        progress=False,
        **changes,
    )
    trainer.model["g"].in_memory(trainer, rooms)
    trainer.fit()
    return trainer.model, played


def test_of_several_players_only_the_one_who_overflowed_plays_again() -> None:
    whole, _ = gan([None])
    tight, played = gan([None, 4, None], on_out_of_memory="split")
    halves = [("d", 4)] * 2 + [("g", 4)] * 2
    assert played == [("d", 8), ("g", 8), ("d", 8), ("g", 8), ("g", 4), ("g", 4), *halves]
    close(whole, tight)


def small(model: nn.Module, **changes: Any) -> Trainer:
    x, y = TASKS[0].draw(20, seed=0)
    arguments: dict[str, Any] = {"batch_size": 8, "max_steps": 4, "progress": False, "loss": nn.functional.cross_entropy}
    arguments |= {"train": (x, y), "optimizer": lambda p: torch.optim.SGD(p, lr=0.1)}
    return Trainer(model, **(arguments | changes))


def test_an_evaluation_and_a_prediction_are_split_finer_too() -> None:
    x, y = TASKS[0].draw(19, seed=4)
    options: dict[str, Any] = {"metrics": "accuracy", "on_out_of_memory": "split", "ema": 0.5}
    tight = small(Tight(TASKS[0].build(0), training=False), valid=(x, y), **options)
    whole = small(TASKS[0].build(0), valid=(x, y), **options)
    tight.model.in_memory(tight, [3])
    one, other = tight.evaluate(), whole.evaluate()
    assert one.keys() == other.keys()
    assert all(one[name] == pytest.approx(other[name], rel=1e-12) for name in one)
    sizes: list[int] = []  # what a hook notes is nobody's state
    tight.model.register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    assert torch.allclose(tight.predict(x), whole.predict(x), rtol=1e-12)
    assert max(sizes) == 2
    for trainer in (tight, whole):
        trainer.fit()
    close(whole.model.cpu(), tight.model.inner)


def test_a_run_that_goes_on_evaluates_as_before(tmp_path: Path) -> None:
    def trainer(folder: Path) -> Trainer:
        x, y = TASKS[0].draw(19, seed=4)
        model = Tight(TASKS[0].build(0), training=False)
        return small(model, valid=(x, y), evaluate_every=1, folder=folder, on_out_of_memory="split")

    whole, stopped = trainer(tmp_path / "whole"), trainer(tmp_path / "stopped")
    train(whole, [None, 5])
    train(stopped, [None, 5], stop=1)
    again = trainer(tmp_path / "stopped")
    train(again)
    assert result(whole, tmp_path / "whole") == result(again, tmp_path / "stopped")


# --- On the way to the device


def test_a_batch_that_does_not_fit_on_the_device_is_sent_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU stands in for a device whose memory takes three samples at once."""

    def sent(column: Tensor, device: torch.device) -> Tensor:
        if len(column) > 3:
            raise RuntimeError("MPS backend out of memory (MPS allocated: 18 GB)")
        return column

    monkeypatch.setattr(loading, "sent", sent)
    whole, tight = small(TASKS[0].build(0)), small(Tight(TASKS[0].build(0)), on_out_of_memory="split")
    monkeypatch.setattr(tight.run.loader, "_device", torch.device("meta"))
    assert train(tight) == [[2] * 4, [2] * 4, [2, 2], [2] * 4]
    whole.fit()
    close(whole.model, tight.model.inner)

    refusing = small(TASKS[0].build(0))
    monkeypatch.setattr(refusing.run.loader, "_device", torch.device("meta"))
    words = r'batch 0 of epoch 0 of train: its 8 samples do not fit in the memory of meta .* pass on_out_of_memory="split"'
    with pytest.raises(OutOfMemory, match=words):
        refusing.fit()


# --- What is said


def test_a_finer_split_is_said_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def trainer() -> Trainer:
        return small(Tight(TASKS[0].build(0)), max_steps=8, on_out_of_memory="split", progress=True, folder=tmp_path / "run")

    train(trainer(), [None, None, None, 4, 4, 3], stop=6)
    said = "".join(capsys.readouterr())
    assert said.count("does not fit in memory") == 2
    assert "a micro-batch of 8 does not fit in memory: split into pieces of 4 from step 3 on" in said
    assert "a micro-batch of 4 does not fit in memory: split into pieces of 2 from step 5 on" in said
    train(trainer())
    assert "micro-batches of more than 2 did not fit in memory: split as before" in "".join(capsys.readouterr())


def refused(model: nn.Module, words: str, room: int = 3, **changes: Any) -> OutOfMemory:
    trainer = small(model, **changes)
    with pytest.raises(OutOfMemory, match=words) as caught:
        train(trainer, [None, room])
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    return caught.value


def test_without_the_option_the_error_names_it() -> None:
    words = (
        r"^step 1 \(epoch 0, batch 1\): a micro-batch of 8 samples does not fit in memory; pass on_out_of_memory=\"split\" to "
        r"split it finer where needed, or a smaller micro_batch_size than 8\. "
        r"\(CUDA out of memory\. Tried to allocate 2\.00 GiB\.\)$"
    )
    for where in ("forward", "backward"):
        refused(Tight(TASKS[0].build(0), where=where), words)
    refused(Tight(TASKS[0].build(0)), "a micro-batch of 4 samples does not fit", update_cycle=2)


def test_one_sample_that_does_not_fit_ends_the_run() -> None:
    words = r"^step 1 \(epoch 0, batch 1\): one sample alone does not fit in memory, so no split of the batch does\. \(CUDA out"
    refused(Tight(TASKS[0].build(0)), words, room=0, on_out_of_memory="split")


def test_batch_norm_is_never_given_one_sample() -> None:
    def normed() -> Tight:
        return Tight(nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4)).double())

    x, y = TASKS[0].draw(21, seed=0)  # the last batch has 5
    trainer = small(normed(), train=(x, y), on_out_of_memory="split")
    assert train(trainer, [3]) == [[2] * 4, [2] * 4, [3, 2], [2] * 4]
    words = "a micro-batch of 2 samples does not fit in memory, and a finer split would have one of a single sample, while the"
    refused(normed(), words, room=1, on_out_of_memory="split")
    words = "a micro-batch of 3 samples does not fit in memory, and a finer split .* has BatchNorm, which needs two or more"
    refused(normed(), words, room=2, on_out_of_memory="split", train=(x, y))


class Hungry(torch.optim.SGD):
    """Its step does not fit in memory."""

    def step(self, closure: Any = None) -> Any:
        raise torch.OutOfMemoryError(SAID)


class HungryClosure(torch.optim.LBFGS):
    """What it does after the loss was evaluated does not fit in memory."""

    def step(self, closure: Any) -> Any:  # type: ignore[override]
        closure()
        raise torch.OutOfMemoryError(SAID)


@pytest.mark.parametrize("optimizer", [Hungry, HungryClosure])
@pytest.mark.parametrize("on_out_of_memory", ["raise", "split"])
def test_a_step_that_does_not_fit_cannot_be_split(optimizer: Any, on_out_of_memory: str) -> None:
    trainer = small(TASKS[0].build(0), optimizer=lambda p: optimizer(p, lr=0.1), on_out_of_memory=on_out_of_memory)
    words = rf"^step 0 \(epoch 0, batch 0\): the step of {optimizer.__name__} does not fit in memory, and no split of the batch"
    with pytest.raises(OutOfMemory, match=words) as caught:
        trainer.fit()
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


def test_an_evaluation_that_does_not_fit_says_so() -> None:
    trainer = small(Tight(TASKS[0].build(0), training=False), valid=0.5)
    trainer.model.in_memory(trainer, [3])
    with pytest.raises(OutOfMemory, match=r"a batch of 8 samples does not fit in memory while the model is evaluated; pass on"):
        trainer.evaluate()
    trainer = small(Tight(TASKS[0].build(0), training=False), valid=0.5, on_out_of_memory="split")
    trainer.model.in_memory(trainer, [0])
    with pytest.raises(OutOfMemory, match="one sample alone does not fit in memory while the model is evaluated"):
        trainer.evaluate()


def test_other_errors_are_left_alone() -> None:
    def objective(model: nn.Module, batch: Any) -> Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match=r"^mat1 and mat2 shapes cannot be multiplied$"):
        small(TASKS[0].build(0), loss=None, objective=objective, on_out_of_memory="split").fit()


def test_a_range_test_is_split_for_itself_alone() -> None:
    roomy = small(Tight(TASKS[0].build(0)), batch_size=16)
    expected = roomy.find_lr(steps=20)
    trainer = small(Tight(TASKS[0].build(0)), batch_size=16, on_out_of_memory="split")
    trainer.model.in_memory(trainer, [5])
    found = trainer.find_lr(steps=20)
    assert found.losses == pytest.approx(expected.losses, rel=1e-4)
    assert trainer.run.micro_batches.plan.largest is None
    trainer.model.in_memory(trainer, [16])
    trainer.fit()
    roomy.fit()
    assert all(map(torch.equal, trainer.model.state_dict().values(), roomy.model.state_dict().values()))


def test_a_range_test_that_does_not_fit_names_the_option() -> None:
    trainer = small(Tight(TASKS[0].build(0)), batch_size=16)
    trainer.model.in_memory(trainer, [5])
    words = r'^step 0 \(epoch 0, batch 0\): a micro-batch of 16 samples does not fit in memory; pass on_out_of_memory="split"'
    with pytest.raises(OutOfMemory, match=words):
        trainer.find_lr(steps=20)


def test_cycles_can_be_trained_where_the_first_batch_does_not_fit() -> None:
    trainer = small(Tight(TASKS[0].build(0)), batch_size=16, valid=0.5, on_out_of_memory="split")
    trainer.model.in_memory(trainer, [5])
    assert len(trainer.fit_cycles(max_cycles=1, high=1e4).cycles) == 1
    assert trainer.run.micro_batches.plan.largest == 5  # of 10 in an epoch


def test_the_batch_size_search_sees_the_error_itself() -> None:
    trainer = small(Tight(TASKS[0].build(0)), batch_size=16, on_out_of_memory="split")
    trainer.model.in_memory(trainer, [5])
    assert trainer.find_batch_size(how="trying", paces=False, margin=0.0).largest == 5


def test_only_two_words_are_known() -> None:
    with pytest.raises(DescriptionError, match=r"^on_out_of_memory='shrink' is not known; use .raise. or .split.\.$"):
        small(TASKS[0].build(0), on_out_of_memory="shrink")
