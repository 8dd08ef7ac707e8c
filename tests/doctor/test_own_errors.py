"""Errors and warnings of the doctor's own: neither reaches the script, and what needs an observer that failed is not judged."""

import contextlib
import signal
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import instep
from instep.doctor.patches import Called
from instep.doctor.watch.backwards import BackwardWatch
from instep.doctor.watch.calls import CallWatch
from instep.doctor.watch.feeds import FeedWatch
from instep.doctor.watch.losses import LossWatch
from instep.doctor.watch.optimizers import OptimizerWatch
from instep.doctor.watcher import Watcher


def train(*, clear: bool = True, steps: int = 12) -> float:
    """Twelve steps; without `clear` they are wrong."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(steps, 8, 4), torch.randint(3, (steps, 8))
    loss = torch.zeros(())
    for i in range(steps):
        if clear:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x[i]).softmax(1), y[i])
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError("of the doctor's own")


@pytest.mark.parametrize(
    ("observer", "name"),
    [
        (CallWatch, "_count"),
        (CallWatch, "_see"),
        (CallWatch, "before_call"),
        (BackwardWatch, "before_backward"),
        (OptimizerWatch, "step_begins"),
        (OptimizerWatch, "step_ends"),
        (LossWatch, "after_loss"),
    ],
)
def test_an_observer_that_fails_stands_down(monkeypatch: pytest.MonkeyPatch, observer: type, name: str) -> None:
    alone = train(clear=False)
    monkeypatch.setattr(observer, name, fail)
    with instep.watch(aloud=False) as watcher:
        assert train(clear=False) == alone
    assert watcher.hub.failed == 1  # and not once a step
    assert {finding.id for finding in watcher.findings} <= {"softmax-before-cross-entropy", "missing-zero-grad"}  # what is wrong
    assert "1 error inside the doctor was caught" in str(watcher)
    assert "not judged to the end" in str(watcher)


def test_what_does_not_need_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedWatch, "on_loss", fail)
    with instep.watch(aloud=False) as watcher:
        train(clear=False)
    assert "missing-zero-grad" in {finding.id for finding in watcher.findings}
    assert "softmax-before-cross-entropy" in str(watcher).replace("\n", " ").partition("not judged")[2]


def test_a_rule_that_fails_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher()
    judged = [rule for rule in watcher.engine._rules if rule.id == "missing-zero-grad"]
    monkeypatch.setattr(watcher.engine, "_rules", [type(rule)(rule.id, fail, rule.revocable) for rule in judged])  # type: ignore[arg-type]
    with watcher:
        train(clear=False)
    assert watcher.hub.failed == 1
    assert "not judged to the end: missing-zero-grad." in str(watcher).replace("\n", " ")


def test_an_engine_that_fails_at_the_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    original = F.cross_entropy
    watcher = Watcher()
    monkeypatch.setattr(watcher.engine, "_tell", fail)
    with watcher:
        train()
    assert watcher.hub.failed
    assert F.cross_entropy is original  # and torch is as it was


class Grumbling:
    """Warns, as torch does where a gradient is asked of a tensor that is no leaf."""

    def after_loss(self, called: Called) -> None:
        called.result.grad  # noqa: B018
        warnings.warn("of the doctor's own", stacklevel=1)


@pytest.mark.parametrize("action", ["always", "error", "default"])
def test_warnings_of_the_doctor_stay_its_own(action: str) -> None:
    watcher = Watcher()
    watcher.hub.connect(Grumbling())
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        filters = warnings.filters
        with watcher:
            train()
        assert warnings.filters is filters
    assert [str(each.message) for each in shown] == []
    assert watcher.hub.failures == []


def test_warnings_of_the_script_are_shown_as_often_as_before() -> None:
    def complain() -> None:
        for _ in range(3):
            warnings.warn("of the script's own", stacklevel=1)
            train(steps=2)

    counts = []
    for watched in (False, True):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            if watched:
                with instep.watch(aloud=False):
                    complain()
            else:
                complain()
        counts.append(len(shown))
    assert counts == [1, 1]


def test_a_warning_of_a_builtin_is_about_the_line_of_the_script() -> None:
    code = compile("def read(loss):\n    return float(loss)\n\ndef again(loss):\n    return float(loss)\n", "script.py", "exec")
    places = []
    for watched in (False, True):
        names: dict[str, Any] = {"__name__": "script"}
        exec(code, names)
        loss = torch.ones((), requires_grad=True) * 2
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            with instep.watch(aloud=False) if watched else contextlib.nullcontext():
                torch.set_warn_always(True)
                for function in (names["read"], names["read"], names["again"]):
                    assert function(loss) == 2.0
                torch.set_warn_always(False)
        places.append([(str(each.message)[:20], each.filename, each.lineno) for each in shown])
    assert places[0] == places[1]
    assert [place[1:] for place in places[0]] == [("script.py", 2), ("script.py", 5)]


def test_a_warning_of_a_builtin_can_be_an_error() -> None:
    loss = torch.ones((), requires_grad=True) * 2
    torch.set_warn_always(True)
    with instep.watch(aloud=False), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="requires_grad=True to a scalar"):
            float(loss)
    torch.set_warn_always(False)


class OutOfTime(Exception):
    """Raised by a handler of the script's."""


def _time_is_over(*_: object) -> None:
    raise OutOfTime


def test_torch_is_as_it_was_where_a_signal_comes_while_the_doctor_leaves() -> None:
    original = torch.softmax
    before = signal.signal(signal.SIGUSR1, _time_is_over)
    watcher = Watcher().begin()
    assert torch.softmax is not original
    watcher._observers[-1].remove = lambda: signal.raise_signal(signal.SIGUSR1)
    try:
        with pytest.raises(OutOfTime):
            watcher.end()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert torch.softmax is original
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
