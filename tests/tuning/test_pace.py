"""Samples a second, and where more no longer helps."""

from collections.abc import Generator

import pytest
import torch

from clock import stopped_clock
from instep.records import StepResult
from instep.tuning.pace import Paced, knee, sizes_up_to, timed


def test_sizes_are_powers_of_two_and_the_largest() -> None:
    assert sizes_up_to(100) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert sizes_up_to(16, least=2) == [2, 4, 8, 16]
    assert sizes_up_to(1) == [1]
    assert sizes_up_to(0, least=2) == []


def test_the_knee_is_the_smallest_that_is_nearly_the_fastest() -> None:
    paces = [Paced(1, 10.0), Paced(2, 19.0), Paced(4, 36.0), Paced(8, 55.0), Paced(16, 60.0), Paced(32, 58.0)]
    assert knee(paces) == 8
    assert knee(paces[:3]) == 4
    assert knee([]) is None


def test_the_fastest_of_several_updates_counts_and_the_first_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stopped_clock(monkeypatch)

    def updates(samples: int) -> Generator[StepResult, None, None]:
        for seconds in (0.0, 0.03, 0.01, 0.03):
            clock.sleep(seconds)
            yield StepResult(torch.tensor(1.0), samples, None, True)

    paced = timed(updates, 5, torch.device("cpu"))
    assert paced.samples == 5
    assert paced.samples_per_s == pytest.approx(500)
