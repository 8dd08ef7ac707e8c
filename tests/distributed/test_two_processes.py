"""The examples for several processes: with the environment that torchrun gives, the numbers of one process."""

import re
from pathlib import Path

import pytest

from distributed.conftest import forked
from distributed.forking import Forking
from test_examples import EXAMPLES, run_here

NAMES = ("two_processes.py", "sharding.py")


def test_two_processes_and_sharding(
    tmp_path: Path, forking: list[Forking], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = forked(forking, 2, tmp_path, "distributed.scripts", [str(EXAMPLES / name) for name in NAMES])
    said = (tmp_path / "said-0.txt").read_text()
    assert codes == [0, 0], said
    for name, share in zip(NAMES, ("", ", 50% of the weights each"), strict=True):
        alone = decimals(run_here(name, capsys, monkeypatch))
        (line,) = re.findall(rf"^2 processes{share}: .*", said, re.MULTILINE)
        assert decimals(line) == pytest.approx(alone, abs=2e-4)
    assert len(decimals(said)) == 3


def decimals(said: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d\.\d{4}", said)]
