"""The Trainer as people use it."""

import copy
import json
import math
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchmetrics
from torch import Tensor, nn

import instep
import tiny
from instep import Evaluation, History, Loss, OneCycle, Trainer, Update, keys
from instep.data import Order, pad, source
from instep.errors import DescriptionError, Interrupted, NonFiniteLoss, ObjectiveError, UpdateError
from instep.optim.freeze import freeze
from instep.optim.groups import param_groups
from instep.run import window
from tiny import CLASSES, FEATURES, TASKS, X, Y, net, weights


def make(model: nn.Module | None = None, **changes: Any) -> Trainer:
    return tiny.make(model, **({"log_every": 1} | changes))


# --- The loop


def test_it_is_the_plain_loop_bit_for_bit() -> None:
    trainer = make(schedule=OneCycle(max_lr=0.2), clip_norm=1.0)
    history = trainer.fit()

    plain = net()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=12)
    losses = []
    for epoch in range(3):
        for places in torch.from_numpy(Order(50, seed=0, epoch=epoch)[:].copy()).split(16):
            optimizer.zero_grad()
            loss = F.cross_entropy(plain(X[places]), Y[places])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    assert torch.equal(weights(plain), weights(trainer.model))
    assert history.column("loss") == losses
    assert isinstance(history, History)


def test_from_fit_to_backward_it_is_four_calls_in_three_files() -> None:
    frames: list[tuple[str, str]] = []

    class Watching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net()

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.inner(x)
            output.register_hook(lambda grad: frames.extend(stack()))
            return output

    def stack() -> Iterator[tuple[str, str]]:
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_name != "test_from_fit_to_backward_it_is_four_calls_in_three_files":
            if Path(frame.f_code.co_filename).is_relative_to(Path(instep.__file__).parent):
                yield Path(frame.f_code.co_filename).name, frame.f_code.co_name
            frame = frame.f_back  # type: ignore[assignment]

    model = Watching()
    make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), max_steps=1).fit()
    ours = [frame for frame in frames if frame[0] != "test_trainer.py"]
    assert ours == [("torch_calls.py", "backward"), ("update.py", "run"), ("trainer.py", "updates"), ("trainer.py", "fit")]


def test_updates_are_a_loop_of_ones_own() -> None:
    trainer = make()
    seen: list[Update] = []
    for update in trainer.updates():
        seen.append(update)
        trainer.log(weight=weights(trainer.model).norm().item())
        if update.step == 5:
            break
    assert [(u.step, u.epoch, u.index, u.samples) for u in seen][3:] == [(3, 0, 3, 2), (4, 1, 0, 16), (5, 1, 1, 16)]
    assert seen[0].lr == 0.1
    assert not seen[0].skipped
    rest = list(trainer.updates())
    assert [u.step for u in rest] == list(range(6, 12))
    assert list(trainer.updates()) == []
    assert "weight" in trainer.history.updates[-1] or "weight" in trainer.history.updates[1]

    whole = make()
    whole.fit()
    assert torch.equal(weights(whole.model), weights(trainer.model))


def test_two_loops_over_one_trainer_at_once_are_refused() -> None:
    trainer = make()
    first = trainer.updates()
    next(first)
    with pytest.raises(UpdateError, match=r"this Trainer is in the middle of another updates\(\)"):
        trainer.fit()
    assert next(first).step == 1


def test_leaving_the_loop_at_the_last_update_ends_the_run(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path / "run", valid=(X, Y), restore_best=True)
    for update in trainer.updates():
        if update.step == 11:
            break
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == {"state": "finished", "step": 12}
    whole = make(valid=(X, Y), restore_best=True)
    whole.fit()
    assert torch.equal(weights(whole.model), weights(trainer.model))


def test_what_is_logged_is_kept(tmp_path: Path) -> None:
    """Numbers go into the next line; those after the last update into a row of their own, also when the run is read again."""
    trainer = make(folder=tmp_path / "run", max_steps=3)
    for update in trainer.updates():
        trainer.log(twice=2 * update.step)
    assert [row["twice"] for row in trainer.history.rows if "twice" in row] == [0, 2, 4]
    assert trainer.history.rows[-1]["kind"] == "log"
    assert make(folder=tmp_path / "run", max_steps=3).fit().to_dicts() == trainer.history.to_dicts()
    with pytest.raises(DescriptionError, match="'loss' is a column of the history itself"):
        trainer.log(loss=1.0)
    with pytest.raises(DescriptionError, match=r"log\(norms=…\) takes one number, not a Tensor"):
        trainer.log(norms=torch.ones(3))  # type: ignore[arg-type]


def test_a_failed_run_says_what_it_has_seen() -> None:
    x = X.clone()
    place = Order(50, seed=0, epoch=0)[20]
    x[place] = math.nan
    trainer = make(train=(x, Y), log_every=50)
    with pytest.raises(NonFiniteLoss, match="step 1"):
        trainer.fit()
    assert [row["step"] for row in trainer.history.rows] == [1]


def test_weights_that_an_update_spoilt_are_named() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return torch.sqrt((self.inner(x) * 0).abs())  # 0, and its slope is infinite

    model = Root()
    with pytest.raises(NonFiniteLoss, match=r"Weights that are not finite: inner\.weight, inner\.bias; an update before"):
        make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)).fit()


@pytest.mark.parametrize("split", [{"update_cycle": 3}, {"micro_batch_size": 5}])
def test_a_split_batch_trains_the_same(split: dict[str, int]) -> None:
    data = TASKS[0].draw(50, seed=0)
    whole, cut = TASKS[0].build(0), TASKS[0].build(0)
    for model, arguments in ((whole, {}), (cut, split)):
        make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), train=data, **arguments).fit()
    assert (weights(whole) - weights(cut)).abs().max() < 1e-13


def test_lengths_of_runs() -> None:
    assert len(make(max_steps=5).fit().updates) == 5
    assert len(make(epochs=None, max_steps=6).fit().updates) == 6
    assert len(make(epochs=0).fit()) == 0
    assert make(drop_last=True).total_steps == 9


def test_a_module_left_in_eval_stays_there_through_training() -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, CLASSES))
    model[1].eval()
    make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), valid=(X, Y)).fit()
    assert [m.training for m in model] == [True, False, True, True]
    assert model[1].num_batches_tracked == 0


def test_a_model_in_eval_mode_as_a_whole_is_trained() -> None:
    model = net().eval()
    trainer = make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    assert model.training
    assert "model was in eval mode" in repr(trainer)


def test_an_optimizer_may_be_a_function_of_the_parameters() -> None:
    trainer = make(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.01))
    trainer.fit()
    assert isinstance(trainer.optimizer, torch.optim.AdamW)


def test_lbfgs_trains() -> None:
    model = net()
    history = make(model, optimizer=torch.optim.LBFGS(model.parameters(), max_iter=4), batch_size=50, update_cycle=2).fit()
    losses = history.column("loss")
    assert losses[-1] < losses[0]


# --- Objectives and batches


@dataclass
class Output:
    loss: Tensor
    logits: Tensor


class Speaking(nn.Module):
    """A model in the manner of transformers: keyword arguments in, an output with its loss out."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, inputs: Tensor, labels: Tensor) -> Output:
        logits = self.inner(inputs)
        return Output(F.cross_entropy(logits, labels), logits)


def test_a_model_with_a_loss_of_its_own_needs_no_objective() -> None:
    model = Speaking()
    trainer = make(
        model,
        loss=None,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        train={"inputs": X, "labels": Y},
        valid={"inputs": X[:7], "labels": Y[:7]},
        metrics="accuracy",
    )
    evaluation = trainer.fit().last
    assert evaluation is not None
    assert set(evaluation) > {"valid/loss", "valid/accuracy"}
    plain = make()
    plain.fit()
    assert torch.equal(weights(plain.model), weights(model))
    assert trainer.predict({"inputs": X, "labels": Y}).logits.shape == (50, CLASSES)


def test_an_objective_of_ones_own() -> None:
    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
        output = model(batch[0])
        return Loss(F.cross_entropy(output, batch[1]), len(batch[0]), output, batch[1])

    trainer = make(loss=None, objective=objective, valid=0.2, metrics={"accuracy": "accuracy"})
    assert trainer.fit().last is not None


def test_dropout_in_two_micro_batches_is_keyed_by_their_offset() -> None:
    """The draws of a micro-batch depend on where it stands in its batch, and on nothing else."""
    seen: list[Tensor] = []

    class Drawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            seen.append(torch.rand(2))
            output: Tensor = self.inner(x)
            return output

    model = Drawing()
    make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), update_cycle=2, max_steps=2).fit()
    with keys.fork_rng():
        for draws, (step, offset) in zip(seen, [(0, 0), (0, 8), (1, 0), (1, 8)], strict=True):
            keys.seed_torch(keys.for_step(0, step, offset))
            assert torch.equal(draws, torch.rand(2))


# --- Evaluation


def test_evaluation_says_loss_and_metrics() -> None:
    trainer = make(
        valid=(X[:13], Y[:13]), metrics={"accuracy": "accuracy", "f1": torchmetrics.F1Score("multiclass", num_classes=4)}
    )
    evaluation = trainer.evaluate()
    assert isinstance(evaluation, Evaluation)
    assert list(evaluation) == ["valid/loss", "valid/accuracy", "valid/f1"]
    assert evaluation["valid/loss"] == pytest.approx(F.cross_entropy(trainer.model(X[:13]), Y[:13]).item(), rel=1e-6)
    history = trainer.fit()
    assert [row["step"] for row in history.evaluations] == [4, 8, 12]
    assert "train/loss" in history.evaluations[0]
    assert list(trainer.evaluate((X, Y))) == ["data/loss", "data/accuracy", "data/f1"]


@pytest.mark.parametrize(
    ("every", "steps"), [("epoch", [4, 8, 12]), ("2 epochs", [8, 12]), (5, [5, 10, 12]), (None, [])], ids=str
)
def test_evaluation_is_made_when_it_is_due_and_at_the_end(every: Any, steps: list[int]) -> None:
    assert [row["step"] for row in make(valid=(X, Y), evaluate_every=every).fit().evaluations] == steps


def test_several_validation_sets() -> None:
    trainer = make(valid={"a": (X[:9], Y[:9]), "b": (X[9:], Y[9:])}, metrics="accuracy")
    assert list(trainer.evaluate()) == ["valid/a/loss", "valid/a/accuracy", "valid/b/loss", "valid/b/accuracy"]
    trainer.fit()
    assert trainer.history.monitor == "valid/a/loss"


def test_data_to_evaluate_may_have_names() -> None:
    trainer = make(metrics="accuracy")
    both = trainer.evaluate({"test": (X[:9], Y[:9]), "other": (X[9:], Y[9:])})
    assert list(both) == ["test/loss", "test/accuracy", "other/loss", "other/accuracy"]
    assert both["test/loss"] == trainer.evaluate((X[:9], Y[:9]))["data/loss"]
    with pytest.raises(DescriptionError, match=r"evaluate\(\{\}\) holds no data set; pass for example \{\"test\": \(x, y\)\}"):
        trainer.evaluate({})
    with pytest.raises(DescriptionError, match="a data set has the name 3; use a word"):
        trainer.evaluate({3: (X, Y)})


def test_a_mapping_of_columns_is_one_data_set() -> None:
    def objective(model: nn.Module, batch: dict[str, Tensor]) -> Loss:
        return Loss(F.cross_entropy(model(batch["x"]), batch["y"]), len(batch["x"]))

    trainer = make(loss=None, objective=objective, train={"x": X, "y": Y})
    assert list(trainer.evaluate({"x": X, "y": Y})) == ["data/loss"]
    assert list(trainer.evaluate({"test": {"x": X, "y": Y}})) == ["test/loss"]


@pytest.mark.parametrize("metrics", [None, "accuracy", "confusion_matrix"])
def test_a_report_has_the_confusion_matrix(metrics: str | None) -> None:
    trainer = make(valid=(X[:13], Y[:13]), metrics=metrics, ema=0.9)
    matrix = trainer.evaluate(report=True).tables["valid/confusion_matrix"]
    chosen = trainer.model(X[:13]).argmax(1).tolist()
    expected = [[0] * 4 for _ in range(4)]
    for right, found in zip(Y[:13].tolist(), chosen, strict=True):
        expected[right][found] += 1
    assert matrix == expected
    assert list(trainer.evaluate(report=True).tables) == ["valid/confusion_matrix", "valid/ema/confusion_matrix"]
    assert bool(trainer.evaluate().tables) == (metrics == "confusion_matrix")


@pytest.mark.filterwarnings("ignore::instep.errors.Notice")
def test_a_report_of_what_does_not_classify_has_none() -> None:
    def no_output(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
        return Loss(F.cross_entropy(model(batch[0]), batch[1]), len(batch[0]))

    numbers = make(loss=F.mse_loss, train=(X, X[:, :4]))
    assert not numbers.evaluate((X, (X[:, :4] > 0).float()), report=True).tables
    assert not make(loss=None, objective=no_output).evaluate((X, Y), report=True).tables
    labels = make(loss=F.binary_cross_entropy_with_logits, train=(X, (X[:, :4] > 0).float()), metrics="f1")
    matrices = labels.evaluate((X, (X[:, :4] > 0).float()), report=True).tables["data/confusion_matrix"]
    assert [sum(map(sum, one)) for one in matrices] == [len(X)] * 4


def test_a_share_is_held_out() -> None:
    trainer = make(valid=0.2)
    assert trainer.total_steps == 9  # 40 samples in batches of 16
    assert "10 samples" in repr(trainer)


def test_predictions_come_in_the_datas_order() -> None:
    trainer = make()
    expected = trainer.model(X).detach()
    assert torch.allclose(trainer.predict(X), expected)
    assert torch.allclose(trainer.predict((X, Y)), expected)

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net()

        def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            return x[:, 0], {"scores": self.inner(x)}

    model = Pair()
    first, second = make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)).predict(X)
    assert torch.equal(first, X[:, 0])
    assert second["scores"].shape == (50, CLASSES)


# --- Best, patience, non-finite losses, interruption


def test_patience_stops_and_the_best_comes_back() -> None:
    """A learning rate that only destroys: the first evaluation stays the best."""
    kept: list[Tensor] = []
    model = net()
    trainer = make(
        model,
        optimizer=torch.optim.SGD(model.parameters(), lr=50.0),
        valid=(X, Y),
        epochs=50,
        patience=2,
        restore_best=True,
        evaluate_every=1,
    )
    for _ in trainer.updates():
        kept.append(weights(model))
    history = trainer.history
    assert history.best is not None
    assert len(kept) == history.best["step"] + 2 < 100
    assert torch.equal(weights(model), kept[history.best["step"] - 1])


def test_the_best_can_be_loaded_by_hand() -> None:
    trainer = make(valid=(X, Y))
    with pytest.raises(DescriptionError, match="there is no best yet: no evaluation has been made"):
        trainer.load("best")
    trainer.fit()
    trainer.load("best")
    assert trainer.history.best is not None
    assert trainer.evaluate()["valid/loss"] == pytest.approx(trainer.history.best["valid/loss"], rel=1e-6)
    with pytest.raises(DescriptionError, match=r"load\('worst'\) is not known"):
        trainer.load("worst")  # type: ignore[arg-type]


def test_a_metric_can_be_monitored() -> None:
    history = make(valid=(X, Y), metrics="accuracy", monitor="valid/accuracy").fit()
    assert history.mode == "max"
    assert history.best is not None
    assert history.best["valid/accuracy"] == max(history.column("valid/accuracy"))


def test_a_non_finite_loss_names_step_epoch_and_samples() -> None:
    x = X.clone()
    x[17] = math.nan
    trainer = make(train=(x, Y))
    place = Order(50, seed=0, epoch=0)[:].tolist().index(17)
    with pytest.raises(NonFiniteLoss, match=rf"step {place // 16} \(epoch 0, batch {place // 16}\): the loss is nan") as caught:
        trainer.fit()
    assert " 17" in str(caught.value)


def test_the_samples_are_named_as_the_user_knows_them() -> None:
    """With a share held out, indices are those of the data that was passed."""
    x = X.clone()
    x[:] = math.nan
    with pytest.raises(NonFiniteLoss, match="The batch has the samples") as caught:
        make(train=(x, Y), valid=0.5, batch_size=25).fit()
    named = [int(index) for index in str(caught.value).split("has the samples ")[1].split(".")[0].split(", ")]
    assert len(set(named)) == 25
    assert max(named) > 25


def test_a_non_finite_loss_can_be_skipped() -> None:
    x = X.clone()
    x[17] = math.nan
    trainer = make(train=(x, Y), on_nonfinite="skip", schedule=OneCycle(max_lr=0.2))
    updates = list(trainer.updates())
    assert sum(update.skipped for update in updates) == 3
    assert torch.isfinite(weights(trainer.model)).all()
    first = next(i for i, update in enumerate(updates) if update.skipped)
    assert updates[first + 1].lr == updates[first].lr  # a skipped update takes no step of the schedule


def test_a_model_of_which_nothing_trains_is_refused() -> None:
    model = net()
    freeze(model)
    with pytest.raises(DescriptionError, match=r"every parameter of the optimizer is frozen \(requires_grad=False\)"):
        make(model)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_a_whole_update(
    number: signal.Signals, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    handler = signal.getsignal(number)

    class Calling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net()
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls == 3:
                signal.raise_signal(number)
            output: Tensor = self.inner(x)
            return output

    model = Calling()
    trainer = make(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), folder=tmp_path / "run")
    with pytest.raises(Interrupted, match="after 3 updates") as caught:
        trainer.fit()
    assert (caught.value.signal, caught.value.step) == (number, 3)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert capfd.readouterr().err == "\ninstep: stopping after this update; once more stops at once.\n"
    assert signal.getsignal(number) is handler
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == {"state": "interrupted", "step": 3}
    trainer.fit()
    whole = make()
    whole.fit()
    assert torch.equal(weights(whole.model), weights(model))


@pytest.mark.parametrize(("is_kept", "cost"), [(True, ", and the updates since the last checkpoint are lost"), (False, "")])
def test_a_signal_in_an_evaluation_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str], is_kept: bool, cost: str) -> None:
    calls = []

    def mine(output: Tensor, target: Tensor) -> float:
        calls.append(0)
        if len(calls) == 2:  # the first is a trial before the first update
            signal.raise_signal(signal.SIGINT)
        return 0.0

    trainer = make(metrics={"mine": mine}, valid=(X, Y), folder=tmp_path / "run" if is_kept else None)
    with pytest.raises(Interrupted):
        trainer.fit()
    assert capfd.readouterr().err == f"\ninstep: stopping after this evaluation; once more stops at once{cost}.\n"
    assert trainer.history.last is not None
    assert "valid/mine" in trainer.history.last


def test_a_thread_trains_without_touching_signals() -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            make().fit()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert caught == []


# --- Penalties and clipping


def test_penalties_are_autograds_and_reported_apart() -> None:
    trainer = make(l1=0.01, l2=0.02, update_cycle=3)
    history = trainer.fit()

    plain = net()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    losses, penalties = [], []
    for epoch in range(3):
        for places in torch.from_numpy(Order(50, seed=0, epoch=epoch)[:].copy()).split(16):
            optimizer.zero_grad()
            loss = F.cross_entropy(plain(X[places]), Y[places])
            matrices = [p for p in plain.parameters() if p.ndim > 1]
            penalty = sum((0.01 * p.abs().sum() + 0.02 * p.square().sum() for p in matrices), torch.zeros(()))
            (loss + penalty).backward()
            optimizer.step()
            losses.append(loss.item())
            penalties.append(penalty.item())
    assert torch.allclose(weights(plain), weights(trainer.model), atol=1e-6)
    assert history.column("loss") == pytest.approx(losses, rel=1e-5)
    assert history.column("penalty") == pytest.approx(penalties, rel=1e-5)
    assert "penalty" not in make().fit().names
    assert "l1 0.01, l2 0.02" in repr(trainer)


def test_groups_have_their_own_limits_and_rows_in_the_plan() -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES))
    freeze(model, "0")
    groups = param_groups(model, {"0": {"lr": 0.01}, "1": {"lr": 0.1}}, no_decay=True)
    trainer = make(model, optimizer=torch.optim.SGD(groups, weight_decay=0.1), clip_norm={"1": 1e-3})
    for update in trainer.updates():
        clipped = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in model[1].parameters() if p.grad is not None]))
        assert update.grad_norm is not None
        assert update.grad_norm > 1e-3 >= clipped * 0.999
    assert trainer.history.updates[0]["clipped"] == 1
    text = repr(trainer)
    for words in (
        "36 parameters, and 56 frozen",
        "0: 48 numbers in 1 parameter, lr 0.01, decay 0.1, 48 frozen",
        "1/no decay: 4 numbers in 1 parameter, lr 0.1, decay 0",
        "clip_norm {'1': 0.001}",
    ):
        assert words in text
    with pytest.raises(DescriptionError, match="clip_norm names the group 'x', which the optimizer does not have"):
        make(clip_norm={"x": 1.0})


# --- Folder, plan, dry run


def test_the_run_folder_holds_description_and_history(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path / "run", valid=(X[:5], Y[:5]), log_every=2)
    assert not (tmp_path / "run").exists()
    history = trainer.fit()
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert described["status"] == {"state": "finished", "step": 12}
    assert described["settings"]["batch_size"] == 16
    assert described["optimizer"]["groups"][0]["momentum"] == 0.9
    assert described["data"]["train"]["samples"] == 50
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert all(len(row["clock"].pop("crc")) == 8 for row in rows)
    assert rows == list(history.rows)
    assert [row["step"] for row in rows if row["kind"] == "update"] == [2, 4, 6, 8, 10, 12]


def test_the_history_is_the_same_but_for_the_clock(tmp_path: Path) -> None:
    rows = [make(valid=(X, Y)).fit().to_dicts(clock=False) for _ in range(2)]
    assert rows[0] == rows[1]


def test_losses_are_read_once_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on the way of an update reads its value on behalf of the log."""
    reads: list[int] = []
    read = window.Window.read

    def counting(self: window.Window, *also: window.Mean, parts: dict[str, window.Mean] | None = None) -> None:
        reads.append(len(self.unread))
        read(self, *also, parts=parts)

    monkeypatch.setattr(window.Window, "read", counting)
    make(log_every=5, epochs=6, train=(X[:32], Y[:32]), batch_size=4).fit()
    assert reads == [5, 3] * 6  # eight updates an epoch, and a line at its end


def test_the_plan_tells_what_will_happen() -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES))
    model[0].requires_grad_(False)
    text = repr(
        make(
            model,
            optimizer=torch.optim.AdamW(model[1].parameters(), lr=0.01),
            update_cycle=3,
            valid=(X, Y),
            patience=4,
            schedule=OneCycle(max_lr=0.2),
            device="auto",
        )
    )
    for words in (
        "36 parameters",
        "56 frozen",
        "50 samples",
        "16 samples in 3 micro-batches of 5 to 6; the last of an epoch has 2",
        "4 an epoch, 12 in all",
        "AdamW",
        "OneCycle",
        "cpu (torch finds no accelerator)",
        "valid/loss, less is better; stops after 4 evaluations",
    ):
        assert words in text


def test_the_plan_names_parameters_that_no_optimizer_holds() -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 4), nn.Linear(4, CLASSES))
    text = repr(make(model, optimizer=torch.optim.SGD(model[0].parameters(), lr=0.1)))
    assert "in no group of the optimizer: 1.weight, 1.bias" in text.replace("\n", " ").replace("  ", " ")


def test_the_plan_names_frozen_norms_whose_statistics_move() -> None:
    def plan(*parts: str, by_hand: bool) -> str:
        model = nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4), nn.InstanceNorm1d(4), nn.Linear(4, CLASSES))
        if by_hand:
            for part in parts:
                model.get_submodule(part).requires_grad_(False)
        else:
            freeze(model, *parts)
        return " ".join(repr(make(model)).split())

    words = (
        "weights are frozen, and running statistics move in each forward in train mode: 1; "
        'instep.freeze(model, "1") keeps them in eval mode'
    )
    assert words in plan("0", "1", by_hand=True)
    assert words in plan("1.weight", "1.bias", by_hand=False)
    assert "statistics move" not in plan("0", by_hand=True)  # the norm trains
    assert "statistics move" not in plan("2", by_hand=True)  # it has no statistics
    assert "statistics move" not in plan("0", "1", by_hand=False)


def test_a_dry_run_leaves_no_trace(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path / "run", valid=(X, Y))
    before = copy.deepcopy(trainer.model.state_dict())
    evaluation = trainer.dry_run()
    assert evaluation is not None
    assert "valid/loss" in evaluation
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
    assert not trainer.optimizer.state
    assert not (tmp_path / "run").exists()
    trainer.fit()
    alone = make(valid=(X, Y))
    alone.fit()
    assert torch.equal(weights(alone.model), weights(trainer.model))


def plateau(optimizer: torch.optim.Optimizer, total_steps: int) -> Any:
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, threshold=10.0)


def test_a_plateau_goes_by_the_monitored_value() -> None:
    """With a threshold that nothing reaches, every evaluation halves the learning rate."""
    updates = list(make(valid=(X, Y), schedule=plateau).updates())
    assert [update.lr for update in updates[::4]] == [0.1, 0.05, 0.025]
    with pytest.raises(DescriptionError, match="this schedule goes by the monitored value, so it needs evaluations"):
        make(schedule=plateau)
    with pytest.raises(DescriptionError, match=r'to minimise, the monitor for one to maximise; give it mode="max"'):
        make(valid=(X, Y), metrics="accuracy", monitor="valid/accuracy", schedule=plateau)


# --- What does not fit together is said before the first step


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": None, "objective": 3}, "objective=3 cannot be called"),
        ({"objective": lambda model, batch: None}, "loss= and objective= both say what is minimised"),
        ({"optimizer": 3}, "optimizer is a int; pass an optimizer, or a function of the parameters"),
        ({"optimizer": lambda parameters: 3}, r"optimizer= returned a int; it must return a torch\.optim\.Optimizer"),
        ({"optimizer": torch.optim.SGD(net().parameters(), lr=1)}, "the optimizer holds no parameter of this model"),
        ({"batch_size": 4, "update_cycle": 7}, "update_cycle=7 cannot split batch_size=4: use at most 4"),
        ({"epochs": None}, "how long to train is not said"),
        ({"seed": -1}, "seed=-1 is not a whole number"),
        ({"patience": 2}, "patience=2 needs evaluations; pass valid="),
        (
            {"patience": 2, "valid": (X, Y), "evaluate_every": None},
            "patience=2 needs evaluations; pass valid= and evaluate_every=",
        ),
        ({"evaluate_every": "nonsense"}, "evaluate_every='nonsense' is not known"),
        ({"monitor_mode": "banana"}, "monitor_mode='banana' is not known"),
        ({"valid": {}}, "valid={} holds no data set"),
        ({"valid": (X, Y), "metrics": "accuracy", "monitor": "valid/acc"}, "there will be valid/loss, valid/accuracy"),
        ({"monitor": "valid/loss"}, "monitor='valid/loss' needs evaluations"),
        ({"restore_best": True}, "restore_best=True needs evaluations"),
        ({"valid": (X, Y), "monitor": "loss"}, "monitor='loss' is no number of an evaluation; there will be valid/loss"),
        (
            {"valid": (X, Y), "metrics": {"own": lambda o, t: t}, "monitor": "valid/own"},
            "whether less or more of valid/own is better is not clear from its name",
        ),
        ({"valid": (X, Y), "patience": 0}, "patience=0 is no number of evaluations to wait"),
        ({"valid": (X, Y[:3])}, "the columns of valid have different lengths: 50, 3"),
        ({"device": "cuda:7"}, "device='cuda:7' cannot be used"),
        ({"device": "nonsense"}, "device='nonsense' cannot be used"),
        ({"log_every": 0}, "log_every=0 must be a whole number, 1 or more"),
        ({"on_nonfinite": "hope"}, "on_nonfinite='hope' is not known"),
        ({"clip_norm": -1.0}, r"clip_norm=-1\.0 leaves no gradient"),
        ({"l1": -1.0}, r"l1=-1\.0 is no factor of a penalty; use a number, 0 or more"),
        ({"l2": "much"}, "l2='much' is no factor of a penalty"),
    ],
)
def test_descriptions_that_make_no_sense(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        make(**changes)


def test_a_model_that_is_none() -> None:
    with pytest.raises(DescriptionError, match=r"model is a function; pass a torch\.nn\.Module"):
        Trainer(lambda x: x, optimizer=torch.optim.SGD, train=X, epochs=1)  # type: ignore[arg-type]


def test_evaluating_without_data() -> None:
    with pytest.raises(DescriptionError, match="there is nothing to evaluate on; pass valid= to the Trainer"):
        make().evaluate()


def test_batches_that_the_loss_cannot_take() -> None:
    with pytest.raises(ObjectiveError, match=r"loss= works on batches \(x, y\), this batch is a Tensor"):
        make(train=X).fit()
    words = r"is a mapping with x, y; name the target with data\.source\(…, target=…\), or pass objective=f\(model, batch\)\."
    with pytest.raises(ObjectiveError, match=words):
        make(train={"x": X, "y": Y}).fit()
    for give, collate in (("mask", pad()), ("lengths", pad(give="lengths"))):
        words = rf"is a tuple of 3, since pad\(\) adds the {give} of what it .* pad\(…, give=None\), or .* x, y, {give} = batch\."
        with pytest.raises(ObjectiveError, match=words):
            make(train=source(list(zip(X, Y, strict=True)), collate_fn=collate)).fit()


def test_a_run_without_validation_data_says_a_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make(progress=True, epochs=2, evaluate_every=None, valid=None)
    trainer.fit()
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch")]
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/2", "epoch 2/2"]
    assert all("loss " in line for line in lines)


def test_epochs_with_an_evaluation_have_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    make(progress=True, epochs=3, valid=(X, Y), evaluate_every="2 epochs").fit()
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch")]
    assert ["valid/loss" in line for line in lines] == [False, True, True]


def test_updates_that_make_no_step_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Every target is ignored, so nothing is trained: said once, not at every line of the log."""
    model = nn.Linear(2, 3)
    data = (torch.randn(16, 2), torch.full((16,), -100))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Trainer(model, loss=F.cross_entropy, optimizer=optimizer, train=data, epochs=3, batch_size=4, progress=True).fit()
    said = capsys.readouterr().err
    assert said.count("all 4 updates before step 4 made no step: nothing in their targets counts") == 1
    assert said.count("made no step") == 1
