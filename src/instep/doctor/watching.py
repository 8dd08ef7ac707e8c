"""The doctor for a Trainer that asked for it. Imports the doctor, and with it all that it watches, only then."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def watching(wanted: bool) -> AbstractContextManager[Any]:
    """The doctor watching inside a `with`, where that is wanted and nobody watches already."""
    if not wanted:
        return nullcontext()
    from instep.doctor.watcher import Watcher, watch

    return nullcontext() if Watcher.is_going_on() else watch()
