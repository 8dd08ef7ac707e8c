"""Randomness in loader workers: generators that every worker gets a copy of, and seeds that are the same in all of them.

Workers run elsewhere, so it is the code that is looked at: what `__getitem__` and what it calls draws from, once for each loader.
"""

import dis
import random
from collections.abc import Iterator
from dataclasses import field
from types import CodeType
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.loaders import Pass

SEEDERS = frozenset({"seed", "manual_seed", "default_rng", "RandomState", "seed_everything"})
VARYING = frozenset({
    "initial_seed", "get_worker_info", "worker_id", "worker_info", "getpid", "time", "time_ns", "perf_counter", "urandom",
    "randint",
    "get_rng_state", "get_state", "epoch", "rank", "get_rank", "SeedSequence", "token_bytes", "seed_worker",
})  # fmt: skip


@record_class
class WorkerRandomness:
    """What the workers of one loader draw from."""

    loader: int
    workers: int
    generators: list[str] = field(default_factory=list)  # attributes that hold one, and that reading a sample uses
    fixed_seed: str = ""  # the function that sets the same seed in all workers
    reseeded: bool = False  # a worker_init_fn that knows which worker it is


@part_class
class Randomness:
    """The part of the trace about random numbers of workers."""

    loaders: dict[int, WorkerRandomness] = field(default_factory=dict)


class RandomnessWatch:
    """Fills `Randomness`, at the first pass over each loader."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part = trace.part(Randomness)

    def on_pass_begins(self, begun: Pass, dataloader: DataLoader[Any]) -> None:
        number = begun.loader.number
        if number in self._part.loaders or len(self._part.loaders) >= 64:
            return
        facts = self._part.loaders[number] = WorkerRandomness(number, dataloader.num_workers)
        init = dataloader.worker_init_fn
        code = getattr(init, "__code__", None)
        if init is not None:
            facts.reseeded = code is None or not _seeds_constantly(code)
            if code is not None and _seeds_constantly(code):
                facts.fixed_seed = getattr(init, "__name__", "worker_init_fn")
        dataset: Any = dataloader.dataset
        while isinstance(dataset, Subset):
            dataset = dataset.dataset
        for owner, label in _participants(dataset):
            used = _names_read(owner)
            facts.generators += [f"{label}.{name}" for name, value in _attributes(owner) if _is_generator(value) and name in used]


def _participants(dataset: Any) -> Iterator[tuple[Any, str]]:
    """The dataset, and the transforms that it keeps."""
    yield dataset, type(dataset).__name__
    for name, value in _attributes(dataset):
        if "transform" in name or "aug" in name:
            for each in [value, *(_held(value))]:
                if each is not None and not isinstance(each, (torch.Tensor, str, int, float)):
                    yield each, type(each).__name__


def _held(value: Any) -> list[Any]:
    inner = getattr(value, "transforms", getattr(value, "steps", value))
    return list(inner) if isinstance(inner, (list, tuple)) else []


def _attributes(owner: Any) -> list[tuple[str, Any]]:
    return list(vars(owner).items()) if hasattr(owner, "__dict__") else []


def _is_generator(value: Any) -> bool:
    kind = type(value)
    if kind.__module__.startswith("numpy.random") and kind.__name__ in ("Generator", "RandomState"):
        return True
    return isinstance(value, (random.Random, torch.Generator))


def _names_read(owner: Any) -> set[str]:
    """Every name that reading a sample may use: of `__getitem__` (or `__iter__`, `__call__`) and the methods it calls."""
    kind = type(owner)
    starts = ("__iter__",) if isinstance(owner, IterableDataset) else ("__getitem__", "__getitems__", "__call__", "forward")
    seen: set[str] = set()
    pending = [name for name in starts if hasattr(kind, name)]
    visited: set[str] = set()
    while pending:
        name = pending.pop()
        code = getattr(getattr(kind, name, None), "__code__", None)
        if name in visited or code is None:
            continue
        visited.add(name)
        for each in _all_codes(code):
            seen.update(each.co_names)
        pending += [other for other in seen - visited if callable(getattr(kind, other, None))]
    return seen


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


def _seeds_constantly(code: CodeType) -> bool:
    """Whether a worker_init_fn sets seeds, and none of them can differ from worker to worker."""
    codes = list(_all_codes(code))
    names = {name for each in codes for name in each.co_names}
    if not names & SEEDERS or names & VARYING:
        return False
    given = set(code.co_varnames[: code.co_argcount])
    used = {step.argval for each in codes for step in dis.get_instructions(each) if step.opname.startswith("LOAD_")}
    used |= {name for step in used if isinstance(step, tuple) for name in step}
    return not given & {name for name in used if isinstance(name, str)}


OBSERVERS = [RandomnessWatch]
