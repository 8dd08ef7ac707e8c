"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import instep

MODULES = [module.name for module in pkgutil.walk_packages(instep.__path__, "instep.") if ".cli" not in module.name]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
