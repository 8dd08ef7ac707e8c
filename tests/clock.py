"""Time that passes when a test says so: no load of the machine changes what is measured."""

import time

import pytest


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """One for the whole process, until the test ends; for tests without threads or processes."""
    clock = Clock()
    for name in ("monotonic", "perf_counter", "sleep"):
        monkeypatch.setattr(time, name, getattr(clock, name))
    return clock
