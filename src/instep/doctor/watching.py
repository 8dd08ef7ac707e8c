"""The doctor for a Trainer that asked for it. Imports the doctor, and with it all that it watches, only then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def watching(wanted: bool, keep: Callable[[int, list[dict[str, Any]]], None]) -> Iterator[None]:
    """The doctor watching inside a `with`, where that is wanted and nobody watches already.

    At the end, `keep` gets how many updates it saw and what it found.
    """
    if not wanted:
        yield
        return
    from instep.doctor.watcher import Watcher, watch

    if Watcher.is_going_on():
        yield
        return
    watcher = watch()
    try:
        with watcher:
            yield
    finally:
        keep(watcher.trace.steps, [finding.as_json() for finding in watcher.findings])
