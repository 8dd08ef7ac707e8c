"""Copies to look at: nothing of what was passed is touched, and what cannot be copied says why."""

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from instep.data.copies import Copies, NoCopy, copied


class Holder:
    """Attributes of any kind."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def counter() -> Callable[[], int]:
    passes = [0]

    def count() -> int:
        passes[0] += 1
        return passes[0]

    return count


def test_a_copy_has_its_own_arrays_and_lists() -> None:
    tensor = torch.zeros(3)
    one = Holder(tensor=tensor, same=tensor, array=np.zeros(2), words=["a"], objects=np.array([1, "b"], dtype=object))
    other = copied(one)
    other.tensor += 1
    other.array += 1
    other.words.append("b")
    assert (one.tensor.tolist(), one.array.tolist(), one.words) == ([0, 0, 0], [0, 0], ["a"])
    assert other.same is other.tensor
    assert other.objects.tolist() == [1, "b"]


def test_a_copy_has_its_own_generators() -> None:
    one = Holder(torch=torch.Generator().manual_seed(1), numpy=np.random.default_rng(1), python=random.Random(1))
    copies = Copies(one, most_bytes=1e6)
    first, second = copies.make(), copies.make()
    draws = [
        (torch.rand(1, generator=each.torch).item(), each.numpy.random(), each.python.random()) for each in (first, second, one)
    ]
    assert draws[0] == draws[1] == draws[2]


def test_the_global_generators_stay_global() -> None:
    one = copied(Holder(draw=random.random, numpy=np.random.mtrand._rand, torch=torch.default_generator))
    random.seed(3)
    expected = random.random()
    random.seed(3)
    assert one.draw() == expected
    assert one.numpy is np.random.mtrand._rand
    assert one.torch is torch.default_generator


def test_a_function_has_its_own_variables() -> None:
    count = counter()
    other = copied(count)
    assert [other(), other(), count()] == [1, 2, 1]

    def down(n: int) -> int:
        return n and down(n - 1) + 1

    assert copied(down)(5) == 5
    assert copied(functools.partial(down, 3))() == 3

    def remembers(index: int, seen: list[int] = []) -> int:  # noqa: B006  # that is what is tested
        seen.append(index)
        return len(seen)

    assert (copied(remembers)(1), copied(remembers)(1), remembers(1)) == (1, 1, 1)


def test_classes_that_are_not_at_the_top_of_a_module() -> None:
    class Inner:
        def __init__(self) -> None:
            self.seen = [1]

    one = Inner()
    other = copied(one)
    assert type(other) is Inner
    assert other.seen is not one.seen


def test_a_class_that_says_itself_how_it_is_copied() -> None:
    class Special:
        def __init__(self) -> None:
            self.lines = (line for line in "ab")

        def __deepcopy__(self, memo: Any) -> "Special":
            return Special()

    assert list(copied(Special()).lines) == ["a", "b"]


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (Holder(it=(i for i in range(3))), "TypeError: cannot pickle 'generator' object"),
        (Holder(x=torch.zeros(1000)), r"it holds more than 0 MB"),
        (Holder(words=[str(i) for i in range(20_000)]), r"it holds more than 0 MB"),
    ],
)
def test_what_cannot_be_copied_says_why(thing: Any, words: str) -> None:
    with pytest.raises(NoCopy, match=words):
        Copies(thing, most_bytes=1000)


def test_large_arrays_can_be_looked_at_and_many_entries_kept() -> None:
    one = Holder(array=np.zeros(1000), few=[[1]], many=[[2], [3], [4], [5]])
    other = Copies(one, most_bytes=2000, most_copied_bytes=1000, most_entries=3).make()
    with pytest.raises(ValueError, match="read-only"):
        other.array += 1
    assert one.array.flags.writeable
    assert other.few[0] is not one.few[0]
    assert other.many is not one.many
    assert other.many[0] is one.many[0]


def test_what_takes_too_long_is_not_copied() -> None:
    with pytest.raises(NoCopy, match="it holds too many things"):
        Copies(Holder(words=[[i] for i in range(20_000)]), most_bytes=1e9, most_s=-1)
