"""What the system says about this process."""

import sys
from pathlib import Path

import pytest
import torch

from instep.tuning import resident

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")


@linux
def test_a_peak_is_seen_and_can_be_begun_again() -> None:
    resident.give_back()
    if not resident.restart_peak():
        pytest.skip("this system does not let a process begin its peak again")
    before = resident.resident_bytes()
    assert before is not None
    tensor = torch.ones(64 * 2**20 // 4)
    del tensor
    resident.give_back()
    peak = resident.peak_bytes()
    assert peak is not None
    assert 60 * 2**20 < peak - before < 100 * 2**20
    resident.restart_peak()
    again = resident.peak_bytes()
    assert again is not None
    assert again < peak - 50 * 2**20


@linux
def test_what_is_available_is_more_than_what_is_held() -> None:
    available, held = resident.available_bytes(), resident.resident_bytes()
    assert available is not None
    assert held is not None
    assert available > held > 10**7


def test_where_the_system_tells_nothing_the_answer_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resident, "STATUS", tmp_path / "status")
    monkeypatch.setattr(resident, "CLEAR", tmp_path / "no" / "clear_refs")
    assert resident.resident_bytes() is None
    assert resident.available_bytes() is None
    assert not resident.restart_peak()


def test_the_limit_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    assert resident._limit(str(limit)) is None
    limit.write_text("123\n")
    assert resident._limit(str(limit)) == 123
    assert resident._limit(str(tmp_path / "missing")) is None


@linux
def test_where_a_peak_cannot_be_begun_again_it_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    peak = resident.peak_bytes()
    assert peak is not None
    monkeypatch.setattr(resident, "STATUS", tmp_path / "status")
    ever = resident.peak_bytes()
    assert ever is not None
    assert ever >= 0.99 * peak
