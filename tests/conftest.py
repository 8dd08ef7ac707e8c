"""For all tests: one thread for torch, and which of them go to the same worker."""

import pytest
import torch

torch.set_num_threads(1)  # the models are tiny: a second thread only waits for the first

TOGETHER = ("distributed",)  # folders whose files share the processes that they start


def group_of(item: pytest.Item) -> str:
    """Tests of a file share what they make; of a folder in TOGETHER as well."""
    path = item.path.relative_to(item.config.rootpath / "tests")
    return path.parts[0] if path.parts[0] in TOGETHER else str(path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
