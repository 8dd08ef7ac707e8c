"""A clock that somebody sets back a year while a run goes changes nothing, and no time comes out negative."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from instep import Trainer
from instep.report import runs, show
from promises.test_interrupt import assert_same, result
from tiny import X, Y, make

YEAR_S = 365 * 86_400.0


def build(folder: Path) -> Trainer:
    options: dict[str, Any] = {"valid": (X[:9], Y[:9]), "checkpoint_every": "0.00001 minutes", "keep": None, "log_every": 1}
    return make(folder=folder, **options)


def set_clock(monkeypatch: pytest.MonkeyPatch, ahead_s: float) -> None:
    """The time of day; what measures durations goes on."""
    day, stamp, local = time.time, time.strftime, time.localtime
    monkeypatch.setattr(time, "time", lambda: day() + ahead_s)
    monkeypatch.setattr(time, "strftime", lambda form, at=None: stamp(form, at or local(day() + ahead_s)))


def test_a_clock_that_is_set_back_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    never = build(whole)
    never.fit()
    with monkeypatch.context() as later:
        set_clock(later, YEAR_S)
        for update in build(folder).updates():
            if update.step == 4:
                break
    for path in folder.rglob("*"):  # as the disk has stamped them
        os.utime(path, (time.time() + YEAR_S, time.time() + YEAR_S))
    again = build(folder)
    for update in again.updates():
        if update.step == 8:
            set_clock(monkeypatch, -YEAR_S)
    assert again.resumed_from == 5
    assert_same(result(never, whole), result(again, folder))
    seconds = [row["clock"]["seconds"] for row in again.history.rows]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0
    for text in (show.render(folder), runs.render(tmp_path)):
        assert " 0 s" in text
        assert not re.search(r"-\d+ (s|min|h|days)\b", text)
