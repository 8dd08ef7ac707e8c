"""How a run computes: precision, compiling, memory format, deterministic algorithms."""

import functools
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tiny
from instep import Loss, OneCycle, Trainer
from instep.data import Order
from instep.errors import DescriptionError
from instep.loop.precision import Precision
from instep.optim.freeze import freeze
from instep.run.training_state import capture
from tiny import CLASSES, FEATURES, X, Y, net, weights


def make(model: nn.Module | None = None, **changes: Any) -> Trainer:
    return tiny.make(model, **({"log_every": 1} | changes))


# --- Precision


def test_bf16_is_the_plain_loop_under_autocast() -> None:
    trainer = make(precision="bf16")
    trainer.fit()
    plain = net()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        for places in torch.from_numpy(Order(50, seed=0, epoch=epoch)[:].copy()).split(16):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(plain(X[places]), Y[places])
            loss.backward()
            optimizer.step()
    assert torch.equal(weights(plain), weights(trainer.model))
    exact = make()
    exact.fit()
    assert not torch.equal(weights(exact.model), weights(trainer.model))


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)])
def test_training_evaluation_and_prediction_compute_in_it(precision: Any, dtype: torch.dtype) -> None:
    seen: set[torch.dtype] = set()
    note = seen.add  # a set in the closure would be put back after an evaluation

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        output = model(batch[0])
        note(output.dtype)
        return F.cross_entropy(output.float(), batch[1])

    trainer = make(loss=None, objective=objective, precision=precision, valid=(X, Y), max_steps=2)
    trainer.evaluate()
    assert seen == {dtype}
    trainer.fit()
    assert seen == {dtype}
    assert trainer.predict(X).dtype == dtype
    assert all(p.dtype == torch.float32 for p in trainer.model.parameters())


def test_fp16_skips_an_update_that_overflows_and_goes_on() -> None:
    """A real scaler: a loss a thousand times as large overflows fp16 until the scale has come down."""

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1]) * 1000

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    schedule = OneCycle(max_lr=2e-4)
    trainer = make(model, loss=None, objective=objective, optimizer=optimizer, precision="fp16", epochs=6, schedule=schedule)
    before = weights(model).clone()
    updates = []
    for update in trainer.updates():
        updates.append(update)
        if update.skipped and update.step == 0:
            assert torch.equal(weights(model), before)
    skipped = [update.step for update in updates if update.skipped]
    assert skipped
    assert skipped[0] == 0
    assert len(skipped) < 12
    assert updates[1].lr == updates[0].lr  # a skipped update takes no step of the schedule
    assert torch.isfinite(weights(model)).all()
    assert not torch.equal(weights(model), before)
    assert trainer.history.updates[0]["skipped"] == 1
    state = capture(trainer.run).state["players"][0]
    assert state["made"] == 24 - len(skipped)
    assert state["scaler"]["scale"] == 65536.0 / 2 ** len(skipped)


def test_the_scale_goes_on_after_a_resume(tmp_path: Path) -> None:
    def trainer(folder: Path) -> Trainer:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        objective = functools.partial(scaled, 1000)
        return make(
            model, loss=None, objective=objective, optimizer=optimizer, precision="fp16", update_cycle=2, epochs=6, folder=folder
        )

    whole = trainer(tmp_path / "whole")
    skipped = [update.skipped for update in whole.updates()]
    first = []
    for update in trainer(tmp_path / "stopped").updates():
        first.append(update.skipped)
        if update.step == 1:
            break
    again = trainer(tmp_path / "stopped")
    assert first + [update.skipped for update in again.updates()] == skipped
    assert skipped[1:3] == [True, True]  # it was still coming down
    assert not skipped[-1]
    assert torch.equal(weights(whole.model), weights(again.model))


def scaled(factor: float, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1]) * factor


def test_fp16_with_lbfgs_is_refused() -> None:
    model = net()
    with pytest.raises(DescriptionError, match="LBFGS cannot be used with a GradScaler; use fp32 or bf16"):
        make(model, optimizer=torch.optim.LBFGS(model.parameters()), precision="fp16")


# --- Memory format, algorithms


def test_deterministic_algorithms_are_for_the_run_alone() -> None:
    seen: list[bool] = []
    note, length = seen.append, seen.__len__  # a list in the closure would be put back after an evaluation

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        note(torch.are_deterministic_algorithms_enabled())
        if length() == 7:
            raise ZeroDivisionError
        return F.cross_entropy(model(batch[0]), batch[1])

    trainer = make(loss=None, objective=objective, deterministic=True, valid=(X, Y))
    trainer.evaluate()
    for _ in trainer.updates():
        break
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ZeroDivisionError):
        trainer.fit()
    assert all(seen)
    assert len(seen) == 7
    assert not torch.are_deterministic_algorithms_enabled()
    assert trainer.run.describe()["settings"]["deterministic"] is True


def test_what_was_switched_on_before_stays_on() -> None:
    computing = Precision(net(), torch.device("cpu"), deterministic=True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with computing.algorithms():
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


# --- Compiling

IMPORTS_INDUCTOR = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch warns of itself


def why_torch_cannot_compile() -> str:
    """What torch's compiler needs of a machine; "" where it is all there."""
    if not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        return "there is no C++ compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "there are no headers of Python"
    return "torch splits its own folder and TMPDIR at spaces" if " " in torch.__file__ + tempfile.gettempdir() else ""


@pytest.mark.slow
@pytest.mark.skipif(bool(why_torch_cannot_compile()), reason=why_torch_cannot_compile())
@IMPORTS_INDUCTOR
def test_a_compiled_model_trains_the_same_and_stays_itself(tmp_path: Any) -> None:
    """Modes, freezing, names and the average survive; a resume is bitwise. The one test that compiles."""

    def trainer(compile: bool, folder: Any = None) -> Trainer:
        torch.manual_seed(0)
        base = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8))
        model = nn.Sequential(base, nn.Dropout(0.5), nn.Linear(8, CLASSES))
        freeze(model, "0")
        return make(
            model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
            train=(X[:32], Y[:32]),
            valid=(X[:16], Y[:16]),
            compile=compile,
            unfreeze_at={1: "0"},
            epochs=2,
            folder=folder,
        )

    whole = trainer(True, tmp_path / "whole")
    statistics = whole.model[0][1].running_mean.clone()
    modes, moved = [], []
    for _ in whole.updates():
        modes.append([module.training for module in (whole.model, whole.model[0][1], whole.model[1])])
        moved.append(not torch.equal(statistics, whole.model[0][1].running_mean))
    assert modes == [[True, False, True]] * 2 + [[True, True, True]] * 2
    assert moved == [False, False, True, True]
    assert list(whole.model.state_dict()) == list(trainer(False).model.state_dict())
    assert type(whole.model) is nn.Sequential
    assert whole.model.training

    for _ in trainer(True, tmp_path / "stopped").updates():
        break
    again = trainer(True, tmp_path / "stopped")
    again.fit()
    assert torch.equal(weights(whole.model), weights(again.model))
    evaluated = trainer(False)
    evaluated.model.load_state_dict(whole.model.state_dict())
    assert evaluated.evaluate()["valid/loss"] == pytest.approx(whole.evaluate()["valid/loss"], rel=1e-5)


def test_without_a_compiler_it_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        DescriptionError, match=r"compile=True needs a C\+\+ compiler on the CPU, and there is none \(looked for g\+\+"
    ):
        make(compile=True)
    monkeypatch.setenv("CXX", "my-own-c++")
    with pytest.raises(DescriptionError, match=r"looked for my-own-c\+\+\); install one, or use compile=False") as caught:
        make(compile=True)
    assert "\n" not in str(caught.value)


@IMPORTS_INDUCTOR
def test_a_compiler_that_breaks_down_is_said_in_one_line() -> None:
    def broken(model: nn.Module, batch: Any) -> Any:
        raise torch._dynamo.exc.TorchDynamoException("\nno header\nmuch more")

    with pytest.raises(DescriptionError, match=r"compile=True failed: no header Use compile=False") as caught:
        Precision(net(), torch.device("cpu"), compile=True).wrap(broken)(net(), X)
    assert "\n" not in str(caught.value)


@IMPORTS_INDUCTOR
def test_other_errors_of_the_model_come_through() -> None:
    def broken(model: nn.Module, batch: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Precision(net(), torch.device("cpu"), compile=True).wrap(broken)(net(), X)


def test_nothing_asked_for_is_nothing_put_round() -> None:
    def objective(model: Any, batch: Any) -> Loss:
        return Loss(torch.zeros(()), 1)

    model = net()
    computing = Precision(model, torch.device("cpu"))
    assert computing.wrap(objective) is objective
    assert computing.model is model
    assert computing.scaler() is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"precision": "fp8"}, r"precision='fp8' is not known; use \"fp32\", \"bf16\" or \"fp16\""),
        ({"compile": "yes"}, "compile='yes' is neither True nor False"),
        ({"deterministic": 1}, "deterministic=1 is neither True nor False"),
        ({"precision": "bf16", "device": "meta"}, "torch has no autocast on meta"),
    ],
)
def test_what_cannot_be_computed(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        make(**changes)


def test_the_plan_says_how_it_computes() -> None:
    text = repr(make(precision="bf16", deterministic=True))
    assert "bf16 by autocast, deterministic" in text
    assert "computing" not in repr(make())
