"""The examples in docstrings run."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import instep

ALL = [module.name for module in pkgutil.walk_packages(instep.__path__, "instep.")]
EXTRAS = {"instep.sklearn": "sklearn", "instep.integrations.sweep.sweeping": "optuna"}  # examples that need another package
# Not the command, not what begins to work when it is imported, and not what needs a package that may not be there.
MODULES = [
    name for name in ALL if name not in EXTRAS and not any(part in name for part in (".cli", ".__main__", ".doctor.child"))
]


def test_docstrings() -> None:
    """What fails is printed by doctest, which takes long to find nothing in a module that has no example."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    results = {name: doctest.testmod(module) for name, module in modules.items() if ">>>" in inspect.getsource(module)}
    assert sum(result.attempted for result in results.values()) > 200
    assert not [name for name, result in results.items() if result.failed]


@pytest.mark.extras
@pytest.mark.parametrize(("name", "needed"), EXTRAS.items())
def test_docstrings_that_need_a_package(name: str, needed: str) -> None:
    pytest.importorskip(needed)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert not result.failed
