"""What `instep.data` offers: each name has an example, and it runs."""

import doctest
import sys

import pytest

from instep import data


@pytest.mark.parametrize("name", data.__all__)
def test_each_public_name_has_an_example_that_runs(name: str) -> None:
    thing = getattr(data, name)
    assert getattr(data, name) is thing
    assert ">>> " in thing.__doc__
    module = sys.modules[thing.__module__]
    assert doctest.testmod(module).failed == 0
