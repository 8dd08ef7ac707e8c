"""Which tests go to the same worker. (The marks of `--dist loadgroup` are lost between pytest 9.2 and pytest-xdist 3.8.)"""

from xdist.scheduler import LoadScopeScheduling

# What shares the start of processes, or a fixture of the module. All else goes wherever there is time.
TOGETHER = {
    "tests/distributed/": "worlds",
    "tests/doctor/test_cases.py": "cases",
    "tests/doctor/test_grammar.py": "grammar",
    "tests/promises/test_load.py": "load",
    "tests/report/page/": "browser",
    "tests/report/live/": "browser",
}


def group_of(nodeid: str) -> str:
    """The name of a group, or the test's own id where it is alone."""
    return next((group for start, group in TOGETHER.items() if nodeid.startswith(start)), nodeid)


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Whole groups to a worker, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
