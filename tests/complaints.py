"""One check of many things as one test, which names all that fail."""

import traceback
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def complaints(check: Callable[[T], object], things: Iterable[tuple[str, T]]) -> list[str]:
    """What `check` raises, each with the name of the thing and the last line of the test it came from."""
    found, count = [], 0
    for name, thing in things:
        count += 1
        try:
            check(thing)
        except Exception as error:  # an assertion, or whatever broke
            line = traceback.extract_tb(error.__traceback__)[-1]
            found.append(f"{name}: {type(error).__name__} {error} ({line.filename}:{line.lineno}: {line.line})")
    assert count, "nothing was checked"
    return found
