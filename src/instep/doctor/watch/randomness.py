"""Randomness in loader workers: generators that every worker gets a copy of, and seeds that are the same in all of them.

Workers run elsewhere, so it is the code that is looked at: what `__getitem__` and what it calls draws from, once for each loader.
"""

import dis
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.row_keys import row_keys
from instep.doctor.trace import Trace
from instep.doctor.watch.loaders import Pass, first_tensor

LOOKS = 32  # batches of a stream
PLAIN = frozenset({"builtins", "numpy", "torch", "torchvision", "pandas", "random", "collections", "pathlib", "PIL", "typing"})
SEEDERS = frozenset({"seed", "manual_seed", "default_rng", "RandomState", "seed_everything"})
WORKER = frozenset({"get_worker_info", "worker_info", "worker_id"})
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
    seeds: bool = False  # a stream that sets a seed, or makes a generator, when it begins
    looked: int = 0  # of such a stream: batches that were compared with the one before
    same: int = 0  # of those: are the same
    reseeded: bool = False  # a worker_init_fn that knows which worker it is


@part_class
class Randomness:
    """The part of the trace about random numbers of workers."""

    loaders: dict[int, WorkerRandomness] = field(default_factory=dict)


class RandomnessWatch:
    """Fills `Randomness`, at the first pass over each loader."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part = trace.part(Randomness)
        self._before: tuple[Pass, list[float]] | None = None  # the last batch of such a stream, and its pass

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
        facts.generators += dict.fromkeys(generators_read(dataset, dataloader.collate_fn))
        facts.seeds = isinstance(dataset, IterableDataset) and bool(_names_read(dataset) & SEEDERS)

    def on_batch(self, going_on: Pass, batch: Any) -> None:
        """Whether workers, which give batches in turn, have given the same one."""
        facts = self._part.loaders.get(going_on.loader.number)
        if facts is None or not facts.seeds or facts.workers < 2 or facts.looked >= LOOKS:
            return
        first = first_tensor(batch)
        keys = row_keys(first) if first is not None else []
        before, self._before = self._before, (going_on, keys)
        if before is not None and before[0] is going_on and len(set(keys)) >= 4:
            facts.looked += 1
            facts.same += keys == before[1]


def generators_read(dataset: Any, collate: Any) -> Iterator[str]:
    """The generators that reading samples, and putting them together, draws from: those of objects, of modules, of closures."""
    for owner, label in _participants(dataset):
        used = _names_read(owner)
        yield from (f"{label}.{name}" for name, value in _attributes(owner) if _is_generator(value) and name in used)
    functions = [function for owner, _ in _participants(dataset) for function in _methods(owner)]
    collate = collate.func if isinstance(collate, partial) else collate
    if isinstance(collate, FunctionType):
        functions.append(collate)
    for function in functions:
        yield from _free_generators(function)


def _methods(owner: Any) -> list[Any]:
    """The functions that reading a sample calls: of the owner's class."""
    found = [getattr(type(owner), name, None) for name in _starts(owner)]
    return [owner] if isinstance(owner, FunctionType) else [each for each in found if isinstance(each, FunctionType)]


def _free_generators(function: Any) -> Iterator[str]:
    """Generators that a function, or one of the same file that it calls, knows as a global name or by its closure."""
    pending, seen = [function], {function}
    found: list[str] = []
    while pending and len(seen) < 64:
        each = pending.pop()
        names = {name for code in _all_codes(each.__code__) for name in code.co_names}
        if not WORKER.isdisjoint(names):
            return  # it knows in which worker it is, and may have seen to it
        known = {name: each.__globals__[name] for name in sorted(names & set(each.__globals__))}
        known |= {name: cell.cell_contents for name, cell in _cells(each)}
        for name, value in known.items():
            if _is_generator(value):
                found.append(name)
            if isinstance(value, FunctionType) and value not in seen and value.__globals__ is function.__globals__:
                seen.add(value)
                pending.append(value)
    yield from found


def _cells(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # nothing in it yet
            cell.cell_contents  # noqa: B018
            yield name, cell


def _participants(dataset: Any) -> Iterator[tuple[Any, str]]:
    """The dataset, and the objects of the user's that it keeps and uses: transforms, steps of a pipeline."""
    yield dataset, type(dataset).__name__
    used = _names_read(dataset)
    for name, value in _attributes(dataset):
        if name in used:
            for each in [value, *_held(value)]:
                if _is_users(each):
                    yield each, type(each).__name__


def _is_users(value: Any) -> bool:
    """Whether an object may draw: a function, or an object of a class that is neither Python's nor a library's table."""
    if isinstance(value, FunctionType):
        return True
    package = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and not isinstance(value, type) and package not in PLAIN


def _held(value: Any) -> list[Any]:
    """What a list, or an object that puts transforms together, holds; a long list is data."""
    inner = value if isinstance(value, (list, tuple, dict)) else getattr(value, "transforms", getattr(value, "steps", None))
    inner = list(inner.values()) if isinstance(inner, dict) else inner
    return list(inner) if isinstance(inner, (list, tuple)) and len(inner) <= 32 else []


def _attributes(owner: Any) -> list[tuple[str, Any]]:
    return list(vars(owner).items()) if hasattr(owner, "__dict__") else []


def _is_generator(value: Any) -> bool:
    kind = type(value)
    if kind.__module__.startswith("numpy.random") and kind.__name__ in ("Generator", "RandomState"):
        return True
    return isinstance(value, (random.Random, torch.Generator))


def _starts(owner: Any) -> list[str]:
    """The methods that reading a sample begins with. Those of a transform may have any name."""
    if isinstance(owner, IterableDataset):
        return ["__iter__"]
    if isinstance(owner, Dataset):
        return ["__getitem__", "__getitems__"]
    own = [name for kind in type(owner).__mro__ if kind is not object for name in vars(kind)]
    return [name for name in dict.fromkeys(own) if not name.startswith("__") or name in ("__call__", "__getitem__")]


def _names_read(owner: Any) -> set[str]:
    """Every name that reading a sample may use: of `__getitem__` (or `__iter__`, `__call__`) and the methods it calls."""
    kind = type(owner)
    seen: set[str] = set()
    pending = [name for name in _starts(owner) if hasattr(kind, name)]
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
