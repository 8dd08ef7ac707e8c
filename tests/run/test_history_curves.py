"""Which columns of a history are drawn, and where."""

import pytest

from instep.run.history import History
from instep.run.history.curves import curves_of, resumed_at, seconds_trained


def row(kind: str, step: int, seconds: float | None = None, **values: float) -> dict[str, object]:
    clock = {} if seconds is None else {"clock": {"seconds": seconds, "samples_per_s": 10.0, "waiting": 0.5, "memory_bytes": 7}}
    return {"kind": kind, "step": step, "epoch": 0, **values, **clock}


def charts(*rows: dict[str, object]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for curve in curves_of(History(rows)):
        found.setdefault(curve.chart, []).append(curve.name)
    return found


def test_every_column_has_its_chart() -> None:
    update = row("update", 1, 1.0, loss=1.0, lr=0.1, momentum=0.9, grad_norm=2.0, clipped=1, penalty=0.1, kl=0.5, weight_norm=3.0)
    evaluation = row("evaluation", 1, **{"valid/loss": 1.0, "valid/kl": 0.4, "valid/accuracy": 0.5, "test/accuracy": 0.4})
    found = charts(update, evaluation)
    assert found == {
        "Loss": ["loss", "valid/loss"],
        "kl": ["valid/kl", "kl"],
        "accuracy": ["valid/accuracy", "test/accuracy"],
        "Learning rate": ["lr"],
        "Momentum": ["momentum"],
        "Gradient norm": ["grad_norm"],
        "Clipped updates": ["clipped"],
        "Penalty": ["penalty"],
        "weight_norm": ["weight_norm"],
        "Samples per second": ["samples_per_s"],
        "Waiting for data": ["waiting"],
        "Memory": ["memory_bytes"],
    }
    assert list(found)[:3] == ["Loss", "kl", "accuracy"]


def test_objectives_stand_under_their_own_names() -> None:
    update = row("update", 1, **{"loss": 1.0, "lr": 0.1, "loss/d": 1.0, "lr/d": 0.1, "loss/g": 2.0, "lr/g": 0.2})
    assert charts(update) == {"Loss": ["loss/d", "loss/g"], "Learning rate": ["lr/d", "lr/g"]}


def test_numbers_of_classes_share_a_chart_and_averaged_weights_too() -> None:
    evaluation = row("evaluation", 1, **{"valid/f1/0": 0.1, "valid/f1/1": 0.2, "valid/ema/f1/0": 0.3})
    assert charts(evaluation) == {"f1": ["valid/f1/0", "valid/f1/1", "valid/ema/f1/0"]}


def test_what_is_not_a_curve_is_left_out() -> None:
    cycle = {"kind": "cycle", "step": 0, "epoch": 0, "cycle": 1, "start": 0, "stop": 5, "max_lr": 0.1, "reason": "…"}
    assert charts(cycle, row("test", 5, **{"test/loss": 1.0})) == {}


def test_a_clock_that_begins_again_is_another_process() -> None:
    rows = [row("update", step, seconds, loss=1.0) for step, seconds in [(10, 1.0), (20, 2.0), (30, 0.5), (40, 1.5)]]
    rows.insert(2, row("log", 20, mine=1.0))
    assert resumed_at(rows) == [20]
    assert seconds_trained(rows) == pytest.approx(3.5)
