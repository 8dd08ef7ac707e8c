"""Every example runs as a user runs it, and shows what it claims."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_update_cycle() -> None:
    rows = re.findall(r"(SGD|AdamW) +(\d+) +(\d+) +(\d+) +([\d.]+)% +(\S+)", run("update_cycle.py"))
    assert len(rows) == 18
    for _optimizer, batch, size, cycle, naive, ours in rows:
        assert int(size) * int(cycle) == int(batch)
        assert float(ours) < 1e-12
        if batch == "21":  # divides evenly
            assert float(naive) == 0
        if batch == "30":  # the last cycle is never stepped
            assert float(naive) > 2
