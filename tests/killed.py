"""A run that is killed again and again, at random moments, and started again each time."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path


def in_a_child(train: Callable[[Path], object], folder: Path) -> int:
    """The process number of a child that trains to the end, or as far as it gets."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        train(folder)
        code = 0
    finally:
        os._exit(code)


def kill_at_random(train: Callable[[Path], object], folder: Path, *, kills: int, seed: int, whole_s: float) -> None:
    """Train in children that are killed with -9, at least `kills` // 2 and at most `kills` times; the last one ends by itself.

    `whole_s` is what the run took when it was not killed. On a machine that has become faster since then it is done before
    there were kills enough: it begins again, with half of the time between them.
    """
    generator, longest_s = random.Random(seed), whole_s / (1.5 * kills)
    while _kills(train, folder, kills, generator, longest_s) < kills // 2:
        shutil.rmtree(folder)
        longest_s /= 2


def _kills(train: Callable[[Path], object], folder: Path, kills: int, generator: random.Random, longest_s: float) -> int:
    """How many children were really killed before the run was done."""
    killed = 0
    while True:
        child = in_a_child(train, folder)
        if killed < kills:
            time.sleep(generator.uniform(0.0, longest_s))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return killed
        killed += 1
