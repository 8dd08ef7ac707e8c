"""Identities: numbers for objects. Python gives the `id` of a dead object to the next one, so an `id` alone says nothing."""

import weakref
from typing import Any


class Identities:
    """A number for each object: equal for the same object, never given again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._last = 0

    def number(self, thing: Any, holder: Any) -> int:
        """The number of `thing`. What takes no weak reference (a list) is known only for as long as `holder` lives, which must
        keep it alive."""
        known = self._known.get(id(thing))
        if known is not None and known[0]() is not None:
            return known[1]
        self._last += 1
        try:
            reference: weakref.ref[Any] = weakref.ref(thing)
        except TypeError:
            reference = weakref.ref(holder)
        self._known[id(thing)] = (reference, self._last)
        return self._last
