"""Garbage: what the doctor makes when it comes is not looked through by the collector, which would take longer than all else."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """No collection inside; what is there at the end counts as old, as after a collection.

    Importing the doctor makes enough objects for a collection of all that torch has made: a tenth of a second.
    """
    enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    try:
        yield
    finally:
        if not frozen:  # what the user has frozen stays so
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
