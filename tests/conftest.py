"""For all tests: one thread for torch, quick collections, and which of them go to the same worker."""

import gc

import pytest
import torch

torch.set_num_threads(1)  # the models are tiny: a second thread only waits for the first

# What shares the start of processes, or a fixture of the module. All else goes wherever there is time.
TOGETHER = {
    "distributed/": "worlds",
    "doctor/test_cases.py": "cases",
    "promises/test_load.py": "load",
    "promises/test_overflow.py": "overflow",
}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    for item in items:
        path = item.path.relative_to(config.rootpath / "tests").as_posix()
        for start, group in TOGETHER.items():
            if path.startswith(start):
                item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """What torch and the tests hold by now need not be looked through at each collection of garbage."""
    gc.collect()
    gc.freeze()
