"""The examples in docstrings run."""

import doctest
import importlib
import pkgutil

import instep

ALL = [module.name for module in pkgutil.walk_packages(instep.__path__, "instep.")]
# Not the command, not what begins to work when it is imported, and not what needs a package that may not be there.
MODULES = [name for name in ALL if not any(part in name for part in (".cli", ".__main__", ".doctor.child", ".sklearn"))]


def test_docstrings() -> None:
    """What fails is printed by doctest."""
    results = {name: doctest.testmod(importlib.import_module(name)) for name in MODULES}
    assert sum(result.attempted for result in results.values()) > 50
    assert not [name for name, result in results.items() if result.failed]
