"""Written: which code is the user's own. What is installed, Instep and Python itself have versions, and are none of it."""

import functools
import os
import sys
from pathlib import Path
from types import CodeType

import instep

_INSTALLED = ("site-packages", "dist-packages")
_PYTHON = str(Path(os.__file__).parent)  # sysconfig would say it too, after reading how Python was built
_INSTEP = str(Path(instep.__file__).parent)


def is_own_code(code: CodeType) -> bool:
    """Whether somebody wrote this for the run: in a script, a notebook, a module beside it."""
    return _is_own_file(code.co_filename)


def is_own_class(kind: type) -> bool:
    return is_own_module(kind.__module__)


def is_own_module(name: str) -> bool:
    root = name.partition(".")[0]
    if root in ("builtins", "torch", "instep", "numpy") or root in sys.stdlib_module_names:
        return False
    return _is_own_file(getattr(sys.modules.get(name), "__file__", None) or "<none>")


@functools.cache
def _is_own_file(file: str) -> bool:
    if file.startswith("<frozen"):
        return False
    parts = Path(file).parts
    return not (any(word in parts for word in _INSTALLED) or file.startswith((_PYTHON, _INSTEP)))
