"""PyTorch training that stays in step: how you run never changes what you get.

The front door. Names are imported when they are first asked for, so that `import instep` costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from instep import data as data
    from instep import keys as keys
    from instep.objective import Loss as Loss
    from instep.records import Done as Done
    from instep.update import UpdateCycle as UpdateCycle

__version__ = "0.1.0"

# Where each public name lives; a name that is a module of its own stands for itself.
_HOME = {
    "Done": "instep.records",
    "Loss": "instep.objective",
    "UpdateCycle": "instep.update",
    "data": "instep.data",
    "keys": "instep.keys",
}

__all__ = ["Done", "Loss", "UpdateCycle", "data", "keys"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'instep' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"instep.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
