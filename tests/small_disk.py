"""A small disk that can be filled, for tests by root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BALLAST = "ballast"


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A new folder that is a disk of this size; skips the test where none can be mounted."""
    place.mkdir()
    size = ["-t", "tmpfs", "-o", f"size={megabytes}m"]
    made = subprocess.run(["mount", *size, "tmpfs", str(place)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield place
    finally:
        # lazy: what a test that failed holds open must not keep it there
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, *, leave_bytes: int = 0) -> None:
    """Take all room but this much."""
    found = os.statvfs(disk)
    (disk / BALLAST).write_bytes(b"x" * max(0, found.f_bavail * found.f_bsize - leave_bytes))


def make_room(disk: Path) -> None:
    (disk / BALLAST).unlink()
