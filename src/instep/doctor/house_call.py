"""A visit to a Trainer that asked for one. Imports the doctor, and with it all that he watches, only then."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def watching(wanted: bool) -> AbstractContextManager[Any]:
    """The doctor watching inside a `with`, where that is wanted and nobody watches already."""
    if not wanted:
        return nullcontext()
    from instep.doctor.visit import Visit, watch

    return nullcontext() if Visit.is_going_on() else watch()
