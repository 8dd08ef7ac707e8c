"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import instep

ALL = [module.name for module in pkgutil.walk_packages(instep.__path__, "instep.")]
# Not the command, and not what begins to work when it is imported.
MODULES = [name for name in ALL if not any(part in name for part in (".cli", ".__main__", ".doctor.child"))]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
