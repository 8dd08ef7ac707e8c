"""Keyed loading: each sample under the key of its place.

Seeding Python's generator costs more than NumPy's and torch's together (6 of 10 µs), and most data sets never draw from it. So
the first batch is watched: where nobody draws, the generator is left alone from then on. It stands on a known sequence, and where
its next number is not the expected one, a sample was loaded after all with draws that are not its own: it is loaded again under
its key, and the generator is seeded for every sample that follows. What comes out is what seeding always would give.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from instep import keys

PROBE = 0  # the seed of the known sequence


class Keyed:
    """Loads samples by `load(index)`, each under its key; to be used inside `keys.borrowed()`."""

    def __init__(self, load: Callable[[int], Any]) -> None:
        self._load = load
        self._is_first = True  # nothing is known yet
        self._seeds_python = True
        self._was_drawn = False
        self._known: list[int] = []  # numbers of the known sequence
        self._seed_torch = keys.torch_seeder()

    def begin(self, samples: int) -> None:
        """Before the samples of a batch."""
        if self._is_first:  # it is watched
            self._is_first, self._seeds_python = False, True
            return
        self._seeds_python = self._was_drawn
        if not self._seeds_python:
            if len(self._known) < samples:
                sequence = random.Random(PROBE)
                self._known = [sequence.getrandbits(32) for _ in range(samples)]
            random.seed(PROBE)

    def load(self, index: int, key: int, row: int) -> Any:
        """The sample with this index under this key; `row` counts the samples since `begin`."""
        np.random.seed(key & 0xFFFFFFFF)
        self._seed_torch(key)
        if self._seeds_python:
            random.seed(key)
            sample = self._load(index)
            if not self._was_drawn:
                self._was_drawn = random.getrandbits(32) != random.Random(key).getrandbits(32)
            return sample
        try:
            sample = self._load(index)
        except Exception:
            if random.getrandbits(32) == self._known[row]:
                raise
        else:
            if random.getrandbits(32) == self._known[row]:
                return sample
        self._seeds_python = self._was_drawn = True
        keys.seed_all(key)
        return self._load(index)

    def __reduce__(self) -> Any:
        return Keyed, (self._load,)  # a generator object cannot be sent
