"""Parts of a loss: weighted as the loss is, over micro-batches, in evaluations, in the history and in the progress."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instep import Loss, Trainer, UpdateCycle
from instep.errors import DescriptionError, ObjectiveError
from instep.loop.parts import RESERVED
from instep.run.history.record import OWN_COLUMNS

X = torch.randn(45, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def objective(model: nn.Module, x: Tensor) -> Loss:
    """A mean over the positive inputs alone, so that counts differ between micro-batches."""
    counted = x > 0
    count = counted.sum()
    error = (model(x) - x)[counted]
    recon, size = error.square().sum() / count.clamp(min=1), error.abs().sum() / count.clamp(min=1)
    return Loss(recon + 0.1 * size, count, parts={"recon": recon, "size": size})


def summed(model: nn.Module, x: Tensor) -> Loss:
    error = model(x) - x
    return Loss.sum(error.square().sum(), parts={"recon": error.square().sum(), "rows": float(len(x))})


def net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 3).double()


def make(**changes: Any) -> Trainer:
    arguments: dict[str, Any] = {
        "objective": objective,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "train": X,
        "valid": X[:13],
        "epochs": 2,
        "batch_size": 12,
        "log_every": 2,
        "progress": False,
    }
    return Trainer(net(), **(arguments | changes))


def parts_of(model: nn.Module, x: Tensor) -> dict[str, float]:
    with torch.no_grad():
        return {name: float(value) for name, value in (objective(model, x).parts or {}).items()}


@pytest.mark.parametrize("cycle", [2, 5, 12])
def test_a_split_batch_has_the_parts_of_the_whole(cycle: int) -> None:
    whole, split = make(update_cycle=1), make(update_cycle=cycle)
    for one, other in zip(whole.updates(), split.updates(), strict=True):
        assert list(other.parts) == ["recon", "size"]
        for name, value in one.parts.items():
            assert float(other.parts[name]) == pytest.approx(float(value), rel=1e-12)
            assert not other.parts[name].requires_grad
    for one_row, other_row in zip(whole.history.rows, split.history.rows, strict=True):
        assert list(one_row) == list(other_row)
        numbers = {name: value for name, value in one_row.items() if isinstance(value, float)}
        assert {name: other_row[name] for name in numbers} == pytest.approx(numbers, rel=1e-12)


def test_sums_are_added_up_undivided() -> None:
    for update in make(objective=summed, update_cycle=5, epochs=1).updates():
        assert float(update.parts["recon"]) == pytest.approx(float(update.loss), rel=1e-12)
        assert float(update.parts["rows"]) == update.samples


def test_by_hand() -> None:
    model = net()
    cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.0))
    expected = parts_of(model, X)
    for piece in X.split(20):
        cycle.backward(objective(model, piece))
    done = cycle.step()
    assert {name: float(value) for name, value in done.parts.items()} == pytest.approx(expected, rel=1e-12)
    cycle.backward(model(X).square().mean(), count=45)
    assert cycle.step().parts == {}


def test_micro_batches_in_which_nothing_counts_add_nothing() -> None:
    model = net()
    cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.0), model=model)

    def with_nan(model: nn.Module, x: Tensor) -> Loss:
        loss = objective(model, x)
        return loss if (x > 0).any() else Loss(loss.value * torch.nan, 0, parts={"recon": torch.nan})

    done = cycle.run([X[:4], -X[:4].abs(), X[4:9]], with_nan)
    assert {name: float(value) for name, value in done.parts.items()} == pytest.approx(parts_of(model, X[:9]), rel=1e-12)


def test_history_and_evaluations_say_them() -> None:
    trainer = make(epochs=1, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.0))
    history = trainer.fit()
    expected = parts_of(trainer.model, X[:13])
    evaluation = history.evaluations[-1]
    assert list(evaluation) == [
        "kind", "step", "epoch", "train/loss", "train/recon", "train/size", "valid/loss", "valid/recon", "valid/size", "clock",
    ]  # fmt: skip
    assert {name: evaluation[f"valid/{name}"] for name in expected} == pytest.approx(expected, rel=1e-12)
    whole = parts_of(trainer.model, X)
    assert {name: evaluation[f"train/{name}"] for name in whole} == pytest.approx(whole, rel=1e-12)
    assert [list(row)[:7] for row in history.updates] == [["kind", "step", "epoch", "loss", "lr", "recon", "size"]] * 2


def test_an_evaluation_is_exact_however_its_batches_fall() -> None:
    for size in (1, 4, 45):
        trainer = make(micro_batch_size=min(size, 12))
        assert {name: trainer.evaluate(X)[f"data/{name}"] for name in ("recon", "size")} == pytest.approx(
            parts_of(trainer.model, X), rel=1e-12
        )


def test_a_run_that_goes_on_has_the_same_history(tmp_path: Path) -> None:
    """Open windows are kept, to the last bit."""
    whole = make(folder=tmp_path / "whole")
    whole.fit()
    for stop in (2, 5):
        folder = tmp_path / f"stopped at {stop}"
        with_stop = make(folder=folder)
        for update in with_stop.updates():
            if update.step == stop:
                break
        resumed = make(folder=folder)
        resumed.fit()
        assert resumed.resumed_from is not None
        assert resumed.history.to_dicts(clock=False) == whole.history.to_dicts(clock=False)


def test_a_checkpoint_without_parts_is_as_it_was(tmp_path: Path) -> None:
    plain = make(objective=lambda model, x: (model(x) - x).square().mean(), folder=tmp_path, checkpoint_every=2)
    for update in plain.updates():
        if update.step == 1:
            break
    state = json.loads(next((tmp_path / "checkpoints").glob("step-*/state.json")).read_text())["state"]
    assert list(state["logbook"]) == ["window", "since_evaluation", "players", "extra", "history_rows"]
    assert "parts" not in state["logbook"]["window"]


def test_several_objectives_have_parts_of_their_own() -> None:
    models: dict[str, nn.Module] = {"a": net(), "b": net()}

    def a(model: Any, x: Tensor) -> Loss:
        return objective(model["a"], x)

    def b(model: Any, x: Tensor) -> Loss:
        return Loss((model["b"](x) - x).square().mean(), len(x))

    trainer = Trainer(
        models,
        objective={"a": a, "b": b},
        optimizer={name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in models.items()},
        train=X,
        valid=X,
        epochs=1,
        batch_size=12,
        progress=False,
    )
    history = trainer.fit()
    assert {"loss/a", "recon/a", "size/a", "loss/b"} <= set(history.updates[-1])
    assert {"train/a/recon", "valid/a/recon", "valid/b/loss"} <= set(history.evaluations[-1])
    assert "recon" not in history.updates[-1]


def test_progress_shows_them(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from instep.report import lines

    monkeypatch.setattr(lines.Lines.__init__, "__kwdefaults__", {"pause_s": 0.0})
    monkeypatch.setattr("sys.stderr", said := io.StringIO())
    make(progress=True).fit()
    assert any("recon " in line and "size " in line and "lr " in line for line in said.getvalue().splitlines())


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([1.0], r"parts= is a list; pass numbers by name, like parts=\{\"recon\": …, \"kl\": …\}"),
        ({"loss": 1.0}, r"the loss has a part with the name 'loss'; use a word without \"/\""),
        ({"a/b": 1.0}, r"the loss has a part with the name 'a/b'"),
        ({3: 1.0}, r"the loss has a part with the name 3"),
        ({"kl": torch.zeros(2)}, r"the part kl of the loss is of shape \(2,\); it must be one number"),
        ({"kl": "low"}, r"the part kl of the loss is a str; it must be one number"),
    ],
    ids=str,
)
def test_what_is_no_part(parts: Any, words: str) -> None:
    model = net()
    with pytest.raises(ObjectiveError, match=words):
        UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1)).backward(Loss(model(X).mean(), 45, parts=parts))
    with pytest.raises(ObjectiveError, match=words):
        make(objective=lambda model, x: Loss(model(x).mean(), len(x), parts=parts)).evaluate()


def test_names_of_the_history_are_not_for_parts() -> None:
    assert OWN_COLUMNS < RESERVED


def test_every_micro_batch_has_the_same_parts() -> None:
    model = net()
    cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1))
    cycle.backward(Loss(model(X).mean(), 45))
    cycle.backward(Loss(model(X).mean(), 45, parts={"kl": 1.0}))
    with pytest.raises(ObjectiveError, match=r"the part kl of the loss is in 1 of 2 micro-batches; give every Loss the"):
        cycle.step()


def test_a_part_and_a_metric_have_two_names() -> None:
    def with_output(model: nn.Module, x: Tensor) -> Loss:
        return Loss(model(x).mean(), len(x), model(x), x, parts={"mae": 1.0})

    with pytest.raises(ObjectiveError, match="mae is a metric, and a part of the loss too; give one of them another name"):
        make(objective=with_output, metrics="mae").evaluate()


def test_a_part_is_monitored_where_its_direction_is_said() -> None:
    assert make(monitor="valid/recon", monitor_mode="min").fit().best is not None
    with pytest.raises(DescriptionError, match=r"monitor='valid/recon' is no .* A part of the loss needs monitor_mode=\"min\""):
        make(monitor="valid/recon")
    with pytest.raises(DescriptionError, match=r"monitor='valid/recno' is not in the evaluation; it has valid/loss, valid/recon"):
        make(monitor="valid/recno", monitor_mode="min").fit()
    with pytest.raises(DescriptionError, match=r"monitor='valid/recon' is no number .*; there will be valid/loss\.$"):
        make(objective=None, loss=nn.MSELoss(), train=(X, X), valid=(X, X), monitor="valid/recon", monitor_mode="min")
