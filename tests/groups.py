"""Which tests go to the same worker. (The marks of `--dist loadgroup` are lost between pytest 9.2 and pytest-xdist 3.8.)"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# What shares the start of processes, or a fixture of the module. All else goes wherever there is time.
TOGETHER = {
    "tests/distributed/": "worlds",
    "tests/doctor/test_cases.py": "cases",
    "tests/doctor/test_grammar.py": "grammar",
    "tests/doctor/test_remedies.py": "remedies",
    "tests/promises/test_cycles.py": "cycles",
    "tests/promises/test_load.py": "load",
    "tests/report/page/": "browser",
    "tests/report/live/": "browser",
    "tests/run/test_long_history.py": "long history",
    "tests/test_rooms.py": "rooms",
    "tests/test_start.py": "start",
}
# Those that take seconds: where one of them came last, one worker alone would be at work.
LONG = (
    "tests/test_doctests.py::",
    "tests/proof/test_prove.py::test_the_command_tries_all_promises",
    "tests/doctor/test_unseen_inside.py::",
    "tests/promises/test_interrupt.py::",
    "tests/promises/test_tune.py::",
    "tests/promises/test_features.py::",
    "tests/doctor/test_confirm.py::test_both_losses",
    "tests/doctor/test_launch.py::",
    "tests/doctor/test_watched_trainer.py::",
    "tests/test_promise_table.py::",
    "tests/test_examples.py::",
    "tests/tuning/test_batch_size.py::",
)


def group_of(nodeid: str) -> str:
    """The name of a group, or the test's own id where it is alone."""
    return next((group for start, group in TOGETHER.items() if nodeid.startswith(start)), nodeid)


def put_long_ones_first(items: list[pytest.Item]) -> None:
    """In the order in which tests that belong to no group are handed out."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Whole groups to a worker, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """A group that is done is forgotten: all that are kept are counted after each test."""
        super().mark_test_complete(node, item_index, duration)
        group = group_of(self.registered_collections[node][item_index])
        if all(self.assigned_work[node].get(group, {}).values()):
            self.assigned_work[node].pop(group, None)
