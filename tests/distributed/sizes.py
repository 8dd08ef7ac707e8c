"""Which runs are made by two processes, and which by three as well."""

from collections.abc import Iterable
from typing import Any

import pytest

# Three processes are not just more of the same where nothing divides evenly, where one has nothing to do, where the one in
# the middle is neither first nor last, or where another number of them began. The others run on three in the slow sweep.
ON_THREE = frozenset(
    """
    fewer_samples_than_processes tokens stream micro_batches saved gone_on_with ragged nothing_in_most shards_saved
    shards_gone_on_with hung batch_norm_in_legs kept_gradients
    """.split()  # noqa: SIM905
)
_BUCKETED = ("fewer_samples_than_processes", "tokens", "batch_norm_in_legs")
ON_THREE = ON_THREE | {f"{name} in buckets" for name in _BUCKETED}


def sizes(*names: str) -> pytest.MarkDecorator:
    """`size` is 2 and 3; 3 is slow where a run that the test looks at is not made by three otherwise."""
    return pytest.mark.parametrize("size", [2, _three(3, names)])


def each_on_its_sizes(names: Iterable[str]) -> pytest.MarkDecorator:
    """`name` and `size`: each run on two, and on three."""
    return pytest.mark.parametrize(("name", "size"), [row for name in names for row in ((name, 2), _three((name, 3), [name]))])


def _three(values: Any, names: Iterable[str]) -> Any:
    values = values if isinstance(values, tuple) else (values,)
    return pytest.param(*values, marks=() if ON_THREE.issuperset(names) else pytest.mark.slow)
