"""What was taken from elsewhere is what the script that fetches it says."""

import hashlib
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_files_are_those_that_the_script_fetches() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "vendor.py"))
    folder: Path = script["VENDOR"]
    sums = dict(script["FILES"].values())
    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()} == sums
