"""For all tests: the environment, quick collections, and which of them go to the same worker."""

import gc
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from clock import Clock

pytest_plugins = ["running", "browser", "programs"]
# What a shell may have set decides nothing. One thread: the models are tiny, a second one only waits for the first.
os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "80", "LINES": "24"}
for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "MKL_NUM_THREADS", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
    os.environ.pop(name, None)
# Runs sync what they write, which takes no time in memory, and only those of tests/checkpoint are about a disk.
MEMORY = Path("/dev/shm")
can_run = os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
if "TMPDIR" not in os.environ and can_run and shutil.disk_usage(MEMORY).free > 4e9:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
# A busy machine is no failure.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
COUNTED = itertools.count(1)  # tests of this process


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from groups import Groups

    return Groups(config, log)


@pytest.fixture
def clock() -> Clock:
    """One that a test moves."""
    return Clock()


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    if hasattr(config, "workerinput") and not config.option.shuffle:
        from groups import put_long_ones_first

        put_long_ones_first(items)


def pytest_collection_finish() -> None:
    set_aside()


def pytest_runtest_logfinish() -> None:
    """What was imported and is remembered since then, now and then."""
    if next(COUNTED) % 250 == 0:
        set_aside()


def set_aside() -> None:
    """What torch and the tests hold by now need not be looked through at each collection of garbage."""
    gc.collect()
    gc.freeze()
