"""What is watched: one file an area, each with its part of the trace, its observers and its patches.

A file of this folder defines `OBSERVERS`, a list of classes that are made with (trace, hub), and may define `PATCHES`. All of
them are found by themselves. Those of the core come first, so that others hear an event when the core has noted it.
"""

import importlib
import pkgutil
from types import ModuleType

CORE = ("loaders", "backwards", "gradients", "clipping", "optimizers", "calls", "losses", "schedulers")


def areas() -> list[ModuleType]:
    """The modules of this folder, the core first."""
    names = [info.name for info in pkgutil.iter_modules(__path__)]
    ordered = [*CORE, *sorted(set(names) - set(CORE))]
    return [importlib.import_module(f"{__name__}.{name}") for name in ordered]
