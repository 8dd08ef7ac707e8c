"""Loaders: which DataLoaders are read, in which passes, what their batches look like."""

import weakref
from collections import UserDict, deque
from dataclasses import field
from threading import get_ident
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace

LIMIT = 256
FEEDING = 0.025  # of all backwards, the least that come on batches of loaders: one may be cut into many pieces


@record_class
class Loader:
    """One DataLoader."""

    number: int
    site: str | None  # where it was read first; where it was made, if a framework reads it
    batch_size: int | None
    length: int | None  # batches in a pass, where it is known
    samples: int | None  # in its dataset
    sampler: str  # class of the sampler that gives the order: that inside a batch sampler
    sequential: bool
    iterable: bool
    workers: int
    dataset: str  # class
    passes: int = 0  # begun
    full_passes: int = 0  # read to the end
    batches: int = 0  # while the doctor was awake; so are the counts below
    trained: int = 0  # batches after which a backward came before the next batch of any loader
    graded: int = 0  # batches after which a root call with a loss came, without backward
    sizes: dict[int, int] = field(default_factory=dict)  # batch size -> how many batches, the first few sizes
    first_step: int = 0
    made: str | None = None  # where it was made


class Pass:
    """One pass over a loader, while it goes on."""

    __slots__ = ("backwards", "batch", "batches", "begun_step", "ended", "loader", "number", "site", "size")

    def __init__(self, loader: Loader, number: int, site: str | None, step: int) -> None:
        self.loader = loader
        self.number = number  # of the passes over this loader
        self.site = site
        self.batches = 0
        self.begun_step = step
        self.backwards = 0  # backwards after batches of this pass
        self.ended = False  # read to the end: what comes after it is not about its batches
        self.size: int | None = None  # of the last batch
        self.batch: weakref.ref[Any] | None = None  # the first tensor of the last batch


@part_class
class Loaders:
    """The part of the trace about loaders."""

    all: list[Loader] = field(default_factory=list)
    last: Pass | None = None  # the pass that gave the last batch
    passes: deque[tuple[int, int, bool]] = field(default_factory=lambda: deque(maxlen=256))  # (loader, batches, to the end)

    def is_training(self) -> bool:
        """Whether any of them gives batches to train on."""
        return any(loader.trained for loader in self.all)

    def feeds(self, backwards: int) -> bool:
        """Whether training lives on their batches: not where it draws its own, and a loader is only there to validate."""
        return sum(loader.trained for loader in self.all) > FEEDING * backwards


class LoaderWatch:
    """Fills `Loaders` and tells `on_pass_begins(pass, dataloader)`, `on_batch(pass, batch)`, `on_pass_ends(pass)`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Loaders)
        self._loaders: dict[int, Loader] = {}
        self._made: dict[int, str] = {}
        self._passes: dict[int, Pass] = {}
        self._next: Any = None

    def install(self, observers: list[object]) -> None:
        """`__next__` is patched here: its StopIteration is what we want to see."""
        original = _BaseDataLoaderIter.__next__
        hub, trace, passes, on_batch = self._hub, self._trace, self._passes, (self._batch,)

        def __next__(iterator: Any) -> Any:
            if hub.busy or get_ident() != hub.thread:
                return original(iterator)
            going_on = passes.get(id(iterator))
            try:
                batch = original(iterator)
            except StopIteration:
                if going_on is not None:
                    hub.tell((self._pass_ends,), going_on, iterator)
                raise
            if going_on is not None:
                going_on.batches += 1
                trace.batches += 1
                if not hub.resting:
                    hub.tell(on_batch, going_on, batch)
            return batch

        self._next = original
        _BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign,assignment]

    def remove(self) -> None:
        if self._next is not None:
            _BaseDataLoaderIter.__next__ = self._next  # type: ignore[method-assign]

    def after_loader_init(self, called: Called) -> None:
        dataloader = called.args[0]
        if called.site is not None and len(self._made) < LIMIT:
            self._made[id(dataloader)] = called.site
            weakref.finalize(dataloader, self._made.pop, id(dataloader), None).atexit = False

    def after_loader_iter(self, called: Called) -> None:
        dataloader, iterator = called.args[0], called.result
        loader = self._loaders.get(id(dataloader)) or self._new(dataloader, called.site)
        loader.passes += 1
        begun = self._passes[id(iterator)] = Pass(loader, loader.passes, called.site, self._trace.steps)
        if isinstance(iterator, _BaseDataLoaderIter):
            weakref.finalize(iterator, self._forget, id(iterator), begun).atexit = False
        self._hub.say("on_pass_begins", begun, dataloader)

    def _forget(self, key: int, begun: Pass) -> None:
        if self._passes.get(key) is begun:
            del self._passes[key]

    def _new(self, dataloader: DataLoader[Any], site: str | None) -> Loader:
        loader = describe(dataloader, len(self._part.all), site)
        loader.first_step = self._trace.steps
        loader.made = self._made.get(id(dataloader))
        self._loaders[id(dataloader)] = loader
        weakref.finalize(dataloader, self._loaders.pop, id(dataloader), None).atexit = False
        if len(self._part.all) < LIMIT:
            self._part.all.append(loader)
        return loader

    def _batch(self, going_on: Pass, batch: Any) -> None:
        loader = going_on.loader
        loader.batches += 1
        first = first_tensor(batch)
        going_on.size = size = len(first) if first is not None and first.dim() else None
        going_on.batch = weakref.ref(first) if first is not None else None
        if size is not None and (size in loader.sizes or len(loader.sizes) < 16):
            loader.sizes[size] = loader.sizes.get(size, 0) + 1
        self._part.last = going_on
        self._hub.say("on_batch", going_on, batch)

    def _pass_ends(self, going_on: Pass, iterator: Any) -> None:
        self._passes.pop(id(iterator), None)
        going_on.ended = True
        going_on.loader.full_passes += 1
        self._part.passes.append((going_on.loader.number, going_on.batches, True))
        self._hub.say("on_pass_ends", going_on)

    def before_backward(self, _: Called) -> None:
        last = self._part.last
        if last is not None and not last.ended:
            last.backwards += 1
            last.loader.trained += last.backwards <= last.batches


def first_tensor(batch: Any) -> Tensor | None:
    """The first tensor of a batch, in whatever it is packed."""
    first = batch[0] if type(batch) in (tuple, list) and batch else batch
    if isinstance(first, Tensor):
        return first
    pending = [batch]
    while pending:
        part = pending.pop()
        if isinstance(part, Tensor):
            return part
        if isinstance(part, (dict, UserDict)):
            pending += reversed(list(part.values()))
        elif isinstance(part, (list, tuple)):
            pending += reversed(part)
    return None


def tensors(batch: Any, limit: int = 8) -> list[Tensor]:
    """The tensors of a batch, in order."""
    found: list[Tensor] = []
    pending = [batch]
    while pending and len(found) < limit:
        part = pending.pop()
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, (dict, UserDict)):
            pending += reversed(list(part.values()))
        elif isinstance(part, (list, tuple)):
            pending += reversed(part)
    return found


def describe(dataloader: DataLoader[Any], number: int, site: str | None) -> Loader:
    """What a DataLoader says of itself."""
    iterable, sampler = isinstance(dataloader.dataset, IterableDataset), sampler_of(dataloader)
    batch_sampler = dataloader.batch_sampler
    return Loader(
        number=number,
        site=site,
        batch_size=getattr(batch_sampler, "batch_size", dataloader.batch_size),
        length=None if iterable else _length(dataloader),  # asking an iterable one would make torch compare and warn
        samples=None if iterable else _length(dataloader.dataset),
        sampler=type(sampler).__name__,
        sequential=isinstance(sampler, SequentialSampler),
        iterable=iterable,
        workers=dataloader.num_workers,
        dataset=type(dataloader.dataset).__name__,
    )


def sampler_of(dataloader: Any) -> Any:
    """The one that gives the order. A DataLoader that was given a batch sampler has a SequentialSampler for show.

    Samplers are somebody else's objects: an endless one may have no length, and then no truth value either.
    """
    batch_sampler = getattr(dataloader, "batch_sampler", None)
    if batch_sampler is None:
        return getattr(dataloader, "sampler", None)
    inner = getattr(batch_sampler, "sampler", None)
    return batch_sampler if inner is None else inner


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


PATCHES = [
    Patch("loader_init", ("torch.utils.data.dataloader:DataLoader.__init__",), always=True),
    Patch("loader_iter", ("torch.utils.data.dataloader:DataLoader.__iter__",), always=True),
]
OBSERVERS = [LoaderWatch]
