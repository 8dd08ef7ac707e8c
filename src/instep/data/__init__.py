"""Data: what users pass, which sample stands where, how it is loaded, and how a batch is cut.

Names are imported when they are first asked for: a loop of your own that uses one of them loads nothing of the others.
"""

import importlib
from typing import TYPE_CHECKING, Any

from instep.data.pieces import pieces  # at once: the module of this name would take its place when something imports it

if TYPE_CHECKING:
    from instep.data.cross_validation import folds as folds
    from instep.data.data_source import source as source
    from instep.data.embedded import digits as digits
    from instep.data.loading.augmenters import on as on
    from instep.data.mixing import cutmix as cutmix
    from instep.data.mixing import mixup as mixup
    from instep.data.order import Order as Order
    from instep.data.padding import pad as pad
    from instep.data.sampling import class_balanced as class_balanced
    from instep.data.sampling import weighted as weighted
    from instep.data.sources.images import image_folder as image_folder

_HOME = {
    "Order": "instep.data.order",
    "class_balanced": "instep.data.sampling",
    "cutmix": "instep.data.mixing",
    "digits": "instep.data.embedded",
    "folds": "instep.data.cross_validation",
    "image_folder": "instep.data.sources.images",
    "mixup": "instep.data.mixing",
    "on": "instep.data.loading.augmenters",
    "pad": "instep.data.padding",
    "source": "instep.data.data_source",
    "weighted": "instep.data.sampling",
}

__all__ = [
    "Order",
    "class_balanced",
    "cutmix",
    "digits",
    "folds",
    "image_folder",
    "mixup",
    "on",
    "pad",
    "pieces",
    "source",
    "weighted",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'instep.data' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
