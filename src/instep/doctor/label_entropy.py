"""Entropy of class numbers, in nats: of those that are there, and of a shuffled batch."""

import math
from collections import Counter
from functools import lru_cache

LARGEST = 128  # a larger batch has nearly all of it


def entropy(counts: "Counter[int]") -> float:
    """That of counted classes."""
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values()) if total else 0.0


def expected_entropy(counts: "Counter[int]", size: int) -> float:
    """That of a batch of `size` which is drawn from these: lower than that of all of them, since a batch has not all of them."""
    return _expected(tuple(sorted(counts.values())), size)


@lru_cache(maxsize=64)
def _expected(counts: tuple[int, ...], size: int) -> float:
    """Each class comes k times with the probability of a binomial distribution."""
    total = sum(counts)
    if not total or size < 2:
        return 0.0
    size = min(size, LARGEST)
    ways = [math.lgamma(size + 1) - math.lgamma(k + 1) - math.lgamma(size - k + 1) for k in range(size + 1)]
    whole = 0.0
    for count, classes in Counter(counts).items():
        if count < total:
            here, away = math.log(count / total), math.log(1 - count / total)
            most = min(size, 12 + 2 * math.ceil(size * count / total))  # more of a class hardly come
            terms = (math.exp(ways[k] + k * here + (size - k) * away) * k / size * math.log(k / size) for k in range(1, most))
            whole -= classes * sum(terms)
    return whole
