"""Ranks that are compared by the store of their process group, which ends with rank 0."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from instep.doctor.watch.ranks import Ranks, RankWatch


class GoneStore:
    def set(self, key: str, value: str) -> None:
        raise torch.distributed.DistNetworkError("Broken pipe")


def test_a_store_that_is_gone_is_no_failure_of_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    trace: Any = SimpleNamespace(part=lambda kind: kind(), steps=1)
    watch = RankWatch(trace, SimpleNamespace())  # type: ignore[arg-type]  # nothing is said to it here
    monkeypatch.setattr(watch, "_store", GoneStore)
    record = SimpleNamespace(steps=0, number=0)
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    step: Any = SimpleNamespace(record=record, inside=False, optimizer=optimizer, site="train.py:3")
    watch.before_step(step)
    watch.before_step(step)
    part = watch._part
    assert isinstance(part, Ranks)
    assert not watch._pending
