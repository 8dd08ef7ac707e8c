"""For all tests: one thread for torch, quick collections, and which of them go to the same worker."""

import gc
import os
from typing import Any

import pytest

from clock import Clock

pytest_plugins = ["running"]
os.environ["OMP_NUM_THREADS"] = "1"  # the models are tiny: a second thread only waits for the first


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from groups import Groups

    return Groups(config, log)


@pytest.fixture
def clock() -> Clock:
    """One that a test moves."""
    return Clock()


def pytest_collection_finish() -> None:
    """What torch and the tests hold by now need not be looked through at each collection of garbage."""
    gc.collect()
    gc.freeze()
