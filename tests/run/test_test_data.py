"""test=: data that is evaluated once, at the end, with the weights that are used; and data that evaluate() is given by name."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from instep import Trainer, data, keys
from instep.errors import DescriptionError

X = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
Y = X[:, :3].argmax(1)
TEST = (X[40:] * 3, Y[40:])


def make(**options: Any) -> Trainer:
    keys.seed_all(3)
    model = nn.Linear(5, 3)
    given: dict[str, Any] = {"train": (X, Y), "valid": (X[:20] * 2, Y[:20]), "test": TEST, "epochs": 3, "batch_size": 16}
    fixed: dict[str, Any] = {"loss": cross_entropy, "progress": False}
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=2.0), **(fixed | given | options))


def loss_of(model: nn.Module) -> float:
    with torch.no_grad():
        return float(cross_entropy(model(TEST[0]), TEST[1]))


def test_test_data_is_evaluated_once_at_the_end() -> None:
    trainer = make()
    history = trainer.fit()
    assert history.test is not None
    assert {name: history.test[name] for name in ("kind", "step", "epoch")} == {"kind": "test", "step": 12, "epoch": 2}
    assert history.test["test/loss"] == pytest.approx(loss_of(trainer.model))
    assert history.column("test/loss") == [history.test["test/loss"]]
    assert all("test/loss" not in row for row in history.evaluations)
    assert history.last is history.evaluations[-1]
    assert history.rows[-1] is history.test


def test_the_best_weights_are_tested_where_they_are_restored() -> None:
    trainer = make(restore_best=True, valid=(X, (Y + 1) % 3))  # which gets worse and worse
    history = trainer.fit()
    assert history.best is not None
    assert history.test is not None
    assert history.best["step"] == 4
    assert history.test["test/loss"] == pytest.approx(loss_of(trainer.model))


def test_the_averaged_weights_are_tested_where_they_are_used() -> None:
    trainer = make(ema=0.8, monitor="valid/ema/loss")
    history = trainer.fit()
    assert history.test is not None
    assert trainer.ema is not None
    assert [name for name in history.test if "/" in name] == ["test/ema/loss"]
    assert history.test["test/ema/loss"] == pytest.approx(loss_of(trainer.ema.module))


def test_several_sets_have_names_and_need_no_validation_data() -> None:
    history = make(valid=None, test={"near": (X, Y), "far": data.source(TEST)}).fit()
    assert history.test is not None
    assert [name for name in history.test if "/" in name] == ["test/near/loss", "test/far/loss"]


def test_a_finished_run_tests_again_and_one_that_was_stopped_tests_at_its_end(tmp_path: Path) -> None:
    alone = make(folder=tmp_path / "alone").fit()
    stopped = make(folder=tmp_path / "stopped")
    for update in stopped.updates():
        if update.step == 5:
            break
    assert stopped.history.test is None
    resumed = make(folder=tmp_path / "stopped").fit()
    again = make(folder=tmp_path / "stopped").fit()
    rows = [history.to_dicts(clock=False) for history in (alone, resumed, again)]
    assert rows[0] == rows[1] == rows[2]
    late = make(folder=tmp_path / "late", test=None)
    assert late.fit().test is None
    added = make(folder=tmp_path / "late").fit()  # test data decides nothing, so it may come later
    assert added.test is not None
    assert alone.test is not None
    assert added.test["test/loss"] == alone.test["test/loss"]


def test_evaluate_takes_test_by_name_and_data_by_names() -> None:
    trainer = make()
    assert list(trainer.evaluate()) == ["valid/loss"]
    assert list(trainer.evaluate("test")) == ["test/loss"]
    named = trainer.evaluate({"test": TEST, "train again": (X, Y)})
    assert list(named) == ["test/loss", "train again/loss"]
    assert named["test/loss"] == trainer.evaluate("test")["test/loss"]
    assert list(trainer.evaluate(TEST)) == ["data/loss"]


def test_a_mapping_of_columns_is_one_data_set() -> None:
    columns = {"x": X, "y": Y}
    objective = {"loss": None, "objective": lambda model, batch: cross_entropy(model(batch["x"]), batch["y"])}
    trainer = make(**objective, train=columns, valid=None, test=columns)
    assert list(trainer.evaluate(columns)) == ["data/loss"]
    assert list(trainer.evaluate({"one": columns})) == ["one/loss"]
    assert list(trainer.evaluate("test")) == ["test/loss"]


def test_test_data_is_read_like_validation_data() -> None:
    def double(sample: Any) -> Any:
        return sample[0] * 2, sample[1]

    trainer = make(valid=data.source(TEST, transform=double))
    assert trainer.evaluate("test")["test/loss"] == pytest.approx(trainer.evaluate()["valid/loss"])


def test_what_cannot_be_tested_is_said() -> None:
    with pytest.raises(DescriptionError, match=r"there is no test data; pass test= to the Trainer, or data to evaluate\(\)"):
        make(test=None).evaluate("test")
    with pytest.raises(DescriptionError, match=r"test=0\.1 is no data; .* pass data of its own"):
        make(test=0.1)
    with pytest.raises(DescriptionError, match=r"test=\{\} holds no data set"):
        make(test={})
    with pytest.raises(DescriptionError, match=r"evaluate\('valid'\) is not known; use evaluate\(\) for the validation data"):
        make().evaluate("valid")


def test_the_plan_and_the_progress_name_the_test(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make(progress=True)
    assert ("test", "24 samples, evaluated once at the end") in trainer.plan().rows
    trainer.fit()
    lines = capsys.readouterr().err.splitlines()
    assert trainer.history.test is not None
    number = f"{trainer.history.test['test/loss']:#.4g}"
    assert lines[-2] == f"epoch 3/3  step 12/12  test/loss {number}"
    assert lines[-1].endswith(f", test/loss {number}")


def test_metrics_that_nothing_measures_are_said() -> None:
    """In the plan: only evaluate(data) would have them."""
    x, y = torch.randn(8, 3), torch.randint(0, 2, (8,))
    words = "metrics are measured on valid= and test=, and there is neither: accuracy only by evaluate(data)"
    sets: list[tuple[dict[str, Any], bool]] = [({}, True), ({"valid": (x, y)}, False), ({"test": (x, y)}, False)]
    for held_out, is_said in sets:
        model = nn.Linear(3, 2)
        trainer = Trainer(
            model,
            loss=nn.functional.cross_entropy,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            train=(x, y),
            batch_size=4,
            epochs=1,
            metrics="accuracy",
            **held_out,
        )
        assert (words in trainer.plan().notes) is is_said
