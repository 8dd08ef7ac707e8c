"""Owns the order of an epoch: which sample stands at which place, computed, never stored.

A keyed permutation of 0..n-1, so that any slice of any epoch costs what the slice costs, resuming is starting at a
place, and there is nothing to save. NumPy only. Which places make up a batch is decided elsewhere.
"""

import builtins
import hashlib
import math
import operator
import struct
from collections.abc import Callable
from functools import partial
from typing import SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from instep.errors import DescriptionError

Samples = npt.NDArray[np.int64]
Half = npt.NDArray[np.uint32]
Whole = npt.NDArray[np.uint64]
RoundKey = tuple[np.uint32, np.uint32]

MOST_SAMPLES = 2**40
BLOCK = 65_536  # places computed ahead of a reader that moves forward: 512 KB, about 2 ms
NEAR = BLOCK // 32  # gap between slices up to which they count as read in sequence: a block then serves 20 or more
CHUNK = 16_384  # places that go through all rounds together: 384 KB of working memory stay in the processor's cache


class Order:
    """The samples of one epoch in their shuffled order; every sample stands at exactly one place.

    >>> order = Order(10, seed=0, epoch=3)
    >>> order[0:4].tolist(), order[2]
    ([0, 3, 6, 5], 6)

    A slice computes its own places only (0.1 ms for 1,024 of 10^9, or for a single place); slices read in sequence come
    out of a block computed ahead (0.5 µs, and 2 ms for each block). Arrays are read-only, since they may share that
    block: copy one to change it.
    """

    def __init__(self, n: int, *, seed: int, epoch: int) -> None:
        self._n, self._seed, self._epoch = operator.index(n), operator.index(seed), operator.index(epoch)
        _check(self._n, self._seed, self._epoch)
        self._sides = sides(self._n)
        self._keys = round_keys(self._seed, self._epoch, rounds(self._n))
        self._block: tuple[int, Samples] = (0, np.empty(0, np.int64))  # its first place, its samples
        self._expected = range(0)  # a slice that starts here continues what was read before

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"Order({self._n}, seed={self._seed}, epoch={self._epoch})"

    def __reduce__(self) -> tuple[Callable[..., "Order"], tuple[int]]:
        return partial(Order, seed=self._seed, epoch=self._epoch), (self._n,)  # the block stays behind

    @overload
    def __getitem__(self, place: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, place: builtins.slice) -> Samples: ...
    def __getitem__(self, place: SupportsIndex | builtins.slice) -> int | Samples:
        """The sample at a place, or the samples of `[start:stop]`, where a stop behind the end means the end."""
        if isinstance(place, slice):
            return self.slice(*_bounds(place, self._n))
        place = operator.index(place)
        if not 0 <= place < self._n:
            raise IndexError(f"place {place} is outside this epoch; its places are 0 to {self._n - 1}.")
        return int(self.slice(place, place + 1)[0])

    def slice(self, start: SupportsIndex, stop: SupportsIndex) -> Samples:
        """The samples at the places start to stop - 1, read-only. Both ends must lie in 0..n."""
        start, stop = operator.index(start), operator.index(stop)
        if not 0 <= start <= stop <= self._n:
            raise IndexError(f"places {start}:{stop} are no slice of this epoch; use 0 <= start <= stop <= {self._n}.")
        first, block = self._block
        if not first <= start <= stop <= first + len(block):
            if not self._pays_ahead(start, stop):
                self._expected = range(start, stop + NEAR + 1)
                return self._compute(start, stop)
            first, block = self._block = self._compute_ahead(start)
            self._expected = range(first, first + len(block) + NEAR + 1)
        return block[start - first : stop - first]

    def at(self, places: Samples) -> Samples:
        """The samples at any places, in the order of these; each costs what a single place costs, 0.1 µs among many."""
        if len(places) and not 0 <= places.min() <= places.max() < self._n:
            raise IndexError(
                f"places {places.min()} to {places.max()} are outside this epoch; its places are 0 to {self._n - 1}."
            )
        permuted = partial(permute, sides=self._sides, keys=self._keys)
        return _walk(permuted(places.astype(np.uint64)), self._n, permuted)

    def _pays_ahead(self, start: int, stop: int) -> bool:
        if self._n <= NEAR:
            return True  # the whole epoch costs about as much as one slice
        # A block ends where the next slice no longer fits: slices of at most an eighth waste at most an eighth.
        return start in self._expected and (self._n <= BLOCK or stop - start <= BLOCK // 8)

    def _compute_ahead(self, start: int) -> tuple[int, Samples]:
        """A block that begins where the reader is, or the whole epoch where one block can hold it."""
        if self._n <= BLOCK:
            return 0, self._compute_all()
        return start, self._compute(start, min(start + BLOCK, self._n))

    def _compute(self, start: int, stop: int) -> Samples:
        permuted = partial(permute, sides=self._sides, keys=self._keys)
        return _walk(permuted(np.arange(start, stop, dtype=np.uint64)), self._n, permuted)

    def _compute_all(self) -> Samples:
        """The whole epoch: with the whole domain permuted, walking on is looking up."""
        left_side, right_side = self._sides
        domain = permute(np.arange(left_side * right_side, dtype=np.uint64), sides=self._sides, keys=self._keys)
        return _walk(domain[: self._n].copy(), self._n, domain.__getitem__)


def sides(n: int) -> tuple[int, int]:
    """The sides a, b of the grid that the network permutes: a·b ≥ n, both about √n.

    a is even, because turning an odd number of cells is an even permutation: on 3·3 half of all orders of 9 samples
    could never come up. From n = 5 on neither side is below 3 (see `rounds`). From n = 9 on fewer than a cells are left
    over, so about one place in √n has to walk.
    """
    left = math.isqrt(n - 1) + 1
    left += left % 2
    return left, max(-(-n // left), min(left, 3))


def rounds(n: int) -> int:
    """How many rounds make every pair of places (and more) look drawn at random.

    With ideal round functions, two rounds shrink what is left of the start by λ = 1/min(a, b): two places that share a
    half stay together in it for one more round with that chance. (Computed exactly for tuples of 2 to 5 places. On 4·2
    it is 0.60, the reason for sides of at least 3; on 2·2 it is 1/4.) After R rounds λ^(R/2) is left:

        n          min(a, b)    R    λ^(R/2)
        1..4       2            16   2e-5
        5..255     3 and more   16   2e-4    8 rounds still show in 10^5 orders of 8 samples (3.3 σ), 12 do not
        256..      15 and more  12   9e-8
        65,536..   255 and more 8    2e-10
    """
    if n < 2**8:
        return 16
    return 12 if n < 2**16 else 8


def round_keys(seed: int, epoch: int, count: int) -> list[RoundKey]:
    """An odd multiplier and an offset for each round, the same on every platform.

    n is left out: the orders of two data sets of different size are alike only where both have the same grid.
    """
    # One digest of 64 bytes holds the keys of eight rounds.
    digests = (
        hashlib.blake2b(struct.pack("<QQQ", seed, epoch, part), person=b"instep.order").digest() for part in range(-(-count // 8))
    )
    words = np.frombuffer(b"".join(digests), dtype="<u4").astype(np.uint32)
    return [(words[2 * i] | np.uint32(1), words[2 * i + 1]) for i in range(count)]


def permute(values: Whole, *, sides: tuple[int, int], keys: list[RoundKey]) -> Whole:
    """Permute values of 0..a·b-1 in place, chunk by chunk; returns them."""
    for begin in range(0, len(values), CHUNK):
        _run_rounds(values[begin : begin + CHUNK], sides, keys)
    return values


def _run_rounds(values: Whole, sides: tuple[int, int], keys: list[RoundKey]) -> None:
    """The Feistel network on value = left·b + right: each round turns one half by a hash of the other.

    A turn can be turned back knowing the other half, so every round, and the whole, is one to one.
    """
    left, right, mixed, spare = np.empty((4, len(values)), np.uint32)
    wide = np.empty(len(values), np.uint64)
    width = np.uint64(sides[1])
    np.floor_divide(values, width, out=wide)
    np.copyto(left, wide, casting="unsafe")
    np.multiply(wide, width, out=wide)
    np.subtract(values, wide, out=right, casting="unsafe")
    for index, key in enumerate(keys):
        if index % 2 == 0:
            _turn(left, right, sides[0], key, (mixed, spare, wide))
        else:
            _turn(right, left, sides[1], key, (mixed, spare, wide))
    np.copyto(values, left)
    np.multiply(values, width, out=values)
    np.add(values, right, out=values)


# Bijective mixing of 32 bits with low bias (Chris Wellons, "Prospecting for hash functions"); its last shift is left
# out because only the high bits are used.
_FIRST_SHIFT, _FIRST_FACTOR = np.uint32(16), np.uint32(0x7FEB352D)
_SECOND_SHIFT, _SECOND_FACTOR = np.uint32(15), np.uint32(0x846CA68B)
_WORD = np.uint64(32)


def _turn(half: Half, other: Half, side: int, key: RoundKey, scratch: tuple[Half, Half, Whole]) -> None:
    """half ← (half + hash(other)) mod side, in place."""
    mixed, spare, wide = scratch
    # mixed = mix(other · multiplier + offset): a random first value and a random odd stride from input to input.
    np.multiply(other, key[0], out=mixed)
    np.add(mixed, key[1], out=mixed)
    np.right_shift(mixed, _FIRST_SHIFT, out=spare)
    np.bitwise_xor(mixed, spare, out=mixed)
    np.multiply(mixed, _FIRST_FACTOR, out=mixed)
    np.right_shift(mixed, _SECOND_SHIFT, out=spare)
    np.bitwise_xor(mixed, spare, out=mixed)
    np.multiply(mixed, _SECOND_FACTOR, out=mixed)
    # 0..2^32-1 to 0..side-1 without a division: ⌊mixed · side / 2^32⌋. The dtype says 64 bits also to NumPy 1.
    np.multiply(mixed, np.uint64(side), out=wide, dtype=np.uint64)
    np.right_shift(wide, _WORD, out=mixed, casting="unsafe")
    # The sum is below 2·side; where it is below side, sum - side wraps round to a huge number and loses the minimum.
    np.add(half, mixed, out=half)
    np.subtract(half, np.uint32(side), out=spare)
    np.minimum(half, spare, out=half)


def _walk(values: Whole, n: int, permuted: Callable[[Whole], Whole]) -> Samples:
    """Send what landed in n..a·b-1 through the permutation again until it is a sample (cycle walking).

    Still one to one: each start follows its own cycle of the permutation to the next value below n.
    """
    stray = np.flatnonzero(values >= n)
    while len(stray):
        values[stray] = permuted(values[stray])
        stray = stray[values[stray] >= n]
    samples = values.view(np.int64)
    samples.flags.writeable = False
    return samples


def _bounds(places: builtins.slice, n: int) -> tuple[int, int]:
    if places.step not in (None, 1):
        raise DescriptionError(f"an order has no slices with step {places.step}; take order[start:stop][::step].")
    start = 0 if places.start is None else operator.index(places.start)
    stop = n if places.stop is None else operator.index(places.stop)
    if start < 0 or stop < 0:
        raise IndexError(f"places count from 0, got [{start}:{stop}]; the last ones are [len(order) - k:].")
    start, stop = min(start, n), min(stop, n)
    return start, max(start, stop)


def _check(n: int, seed: int, epoch: int) -> None:
    if n < 1:
        raise DescriptionError(f"an order needs at least one sample, got n={n}; check that the data set is not empty.")
    if n > MOST_SAMPLES:
        raise DescriptionError(f"n={n} is more than the 2**40 samples an order can hold; split the data set.")
    if not 0 <= seed < 2**64:
        raise DescriptionError(f"seed={seed} is outside 0..2**64-1; use a seed such as seed=0.")
    if not 0 <= epoch < 2**64:
        raise DescriptionError(f"epoch={epoch} is outside 0..2**64-1; the first epoch is epoch=0.")
