"""Processes find one another, whatever an earlier start left in the store."""

import threading
from datetime import timedelta

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from instep.distributed.meeting import met

SOON = timedelta(seconds=20)


def meet(store: HashStore, size: int) -> list[str]:
    words = [""] * size

    def come(rank: int) -> None:
        words[rank] = met(store, rank, size, SOON)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return words


def test_all_have_the_word_of_this_meeting() -> None:
    store = HashStore()
    first, second = meet(store, 4), meet(store, 4)  # the second finds all that the first left
    assert len(set(first)) == len(set(second)) == 1
    assert first != second


def test_a_hello_of_one_who_was_killed_is_not_taken_for_a_guest() -> None:
    store = HashStore()
    store.set("hello/1", "the word of a process that is gone")
    late = threading.Timer(0.2, lambda: words.append(met(store, 1, 2, SOON)))
    words: list[str] = []
    late.start()
    word = met(store, 0, 2, SOON)
    late.join()
    assert words == [word]


def test_who_does_not_come_is_named() -> None:
    with pytest.raises(RuntimeError, match="rank 1 did not come"):
        met(HashStore(), 0, 2, timedelta(seconds=0.05))
