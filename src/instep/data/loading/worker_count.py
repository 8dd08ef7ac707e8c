"""How many workers to use, measured: loading against computing, over the first batches of a run."""

import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import torch

Item = TypeVar("Item")

WARM_UP = 2  # batches that are not counted: caches fill, kernels are chosen
MEASURED = 6
IDLE = 0.05  # share of the computing time up to which loading is not worth a process


class Choice(NamedTuple):
    """A number of workers, and why."""

    workers: int
    reason: str
    is_fewer: bool = False  # than were asked for

    def __str__(self) -> str:
        return f"num_workers={self.workers}: {self.reason}"


class Stopwatch:
    """Runs beside the first batches: what passes while one is loaded, and what passes until the next is asked for."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._loading_s = self._computing_s = 0.0
        self._seen = 0

    @property
    def is_done(self) -> bool:
        return self._seen >= WARM_UP + MEASURED

    def timed(self, batches: Iterable[Item]) -> Iterator[Item]:
        """The batches until enough were seen, or there are no more."""
        iterator = iter(batches)
        while not self.is_done:
            begun = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            loaded = time.perf_counter()
            yield batch
            if self._seen == WARM_UP - 1 or self._seen == WARM_UP + MEASURED - 1:
                self._wait_for_device()
            if self._seen >= WARM_UP:
                self._loading_s += loaded - begun
                self._computing_s += time.perf_counter() - loaded
            self._seen += 1

    def choice(self) -> Choice:
        """What follows from the times."""
        return choose(self._loading_s / MEASURED, self._computing_s / MEASURED, cores=available_cores())

    def _wait_for_device(self) -> None:
        """Work that was only handed to the device counts as computing."""
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)


def choose(loading_s: float, computing_s: float, *, cores: int) -> Choice:
    """As many workers as load a batch while one is computed with, and no more than there are cores beside the computing."""
    said = f"a batch takes {_time(loading_s)} to load and {_time(computing_s)} to compute with"
    if cores < 2:
        return Choice(0, f"{said}, and there is one core for both")
    if loading_s <= IDLE * computing_s:
        return Choice(0, f"{said}, so loading costs next to nothing")
    wanted = max(1, round(loading_s / max(computing_s, 1e-9) + 0.5))
    most = cores - 1
    if wanted <= most:
        return Choice(wanted, f"{said}; {wanted} load as fast as it is computed")
    return Choice(most, f"{said}, which would take more than the {cores} cores there are")


def at_most(choice: Choice, batches: int, name: str) -> Choice:
    """No more workers than an epoch has batches: each of the others would be started for nothing."""
    if choice.workers <= batches:
        return choice
    said = f"{choice.workers} were asked for, and an epoch of {name} has {batches} batch{'' if batches == 1 else 'es'}"
    return Choice(batches, said, is_fewer=True)


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
