"""Meeting: the processes of this very start find one another in a store that may hold what an earlier start left there.

torchrun keeps one store over its restarts. A process that took the address of a peer that was killed for that of the new one
would knock at a closed door. So nothing is read that was not written as an answer to this process:

    rank r   says hello with a word of its own, and waits for the answer to that word
    rank 0   answers every hello that it finds with the word of the meeting, until each rank has said that it got it
"""

import time
import uuid
from datetime import timedelta

from torch.distributed.distributed_c10d import Store

POLL_S = 0.005


def met(store: Store, rank: int, size: int, timeout: timedelta) -> str:
    """The word of this meeting, the same on all processes that came to it and new every time; raises after `timeout`."""
    if rank:
        hello = uuid.uuid4().hex
        store.set(f"hello/{rank}", hello)
        store.wait([f"answer/{hello}"], timeout)
        word = str(store.get(f"answer/{hello}").decode())
        store.set(f"here/{word}/{rank}", "")
        return word
    word, deadline = uuid.uuid4().hex, time.monotonic() + timeout.total_seconds()
    for other in range(1, size):
        _await(store, word, other, deadline)
    return word


def _await(store: Store, word: str, other: int, deadline: float) -> None:
    answered = None
    while not store.check([f"here/{word}/{other}"]):
        hello = store.get(f"hello/{other}").decode() if store.check([f"hello/{other}"]) else None
        if hello != answered:
            store.set(f"answer/{hello}", word)
            answered = hello
            continue
        if time.monotonic() > deadline:
            raise RuntimeError(f"rank {other} did not come")
        time.sleep(POLL_S)
