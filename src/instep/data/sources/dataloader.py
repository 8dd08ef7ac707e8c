"""The parts of a DataLoader that the user built. What it says is kept; what cannot be kept is an error."""

from collections.abc import Callable
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from instep.data.position import Collate
from instep.errors import DescriptionError, give_notice
from instep.records import record_class


@record_class
class WorkerSettings:
    """How worker processes are run; none of it changes a batch."""

    prefetch: int = 2  # batches that each worker is ahead
    timeout_s: float = 0.0  # to wait for a batch; 0 is for ever
    init: Callable[[int], object] | None = None  # called in each worker with its number
    context: Any = None  # of multiprocessing: how workers are started


@record_class
class DataLoaderParts:
    """What a DataLoader says."""

    dataset: Any
    batch_size: int
    drop_last: bool
    collate: Collate | None  # None: torch's own, so ours
    shuffle: bool
    sampler: Any  # None where `shuffle` says it
    workers: int
    settings: WorkerSettings


def dataloader_parts(loader: "DataLoader[Any]", name: str) -> DataLoaderParts:
    """The parts of a DataLoader."""
    _require_plain(loader, name)
    # One that was made with a batch_sampler has its sizes in there.
    sizes: Any = loader.batch_sampler if loader.batch_size is None else loader
    sampler, shuffle = _sampler(loader, sizes.sampler, name)
    return DataLoaderParts(
        dataset=loader.dataset,
        batch_size=sizes.batch_size,
        drop_last=sizes.drop_last,
        collate=None if loader.collate_fn is default_collate else loader.collate_fn,
        shuffle=shuffle,
        sampler=sampler,
        workers=loader.num_workers,
        settings=WorkerSettings(
            prefetch=loader.prefetch_factor or 2,
            timeout_s=loader.timeout,
            init=loader.worker_init_fn,
            context=loader.multiprocessing_context,
        ),
    )


def _require_plain(loader: "DataLoader[Any]", name: str) -> None:
    kind = type(loader)
    if kind.__iter__ is not DataLoader.__iter__:
        raise DescriptionError(
            f"{name} is a {kind.__name__}, which makes its batches in an __iter__ of its own; pass its dataset, as "
            "data.source(dataset, sampler=…, collate_fn=…), and batch_size= to the Trainer."
        )
    if type(loader.batch_sampler) not in (BatchSampler, type(None)):
        raise DescriptionError(
            f"{name} has a batch_sampler ({type(loader.batch_sampler).__name__}), which decides batch by batch and cannot be "
            "asked for the middle of an epoch; pass data.source(dataset, sampler=f) with f(epoch, seed) -> indices, and "
            "batch_size=."
        )
    if loader.batch_size is None and loader.batch_sampler is None:
        raise DescriptionError(
            f"{name} is a DataLoader with batch_size=None, so its data set gives whole batches; pass samples and a batch_size."
        )
    if not loader.in_order:
        raise DescriptionError(f"{name} has in_order=False: its batches come as they are ready, each time in another order.")


def _sampler(loader: "DataLoader[Any]", given: Any, name: str) -> tuple[Any, bool]:
    """A sampler that has to be asked, or None and whether to shuffle."""
    if isinstance(loader.dataset, IterableDataset):
        return None, False
    generator = getattr(given, "generator", None)
    if generator is not None:
        give_notice(f"the generator of {name}'s {type(given).__name__} is not used: the order comes from seed=, in every epoch.")
    whole = type(given) is RandomSampler and not given.replacement and given.num_samples == len(loader.dataset)  # type: ignore[arg-type]
    if whole:
        return None, True
    if type(given) is SequentialSampler:
        return None, False
    if type(given) is DistributedSampler:
        return None, given.shuffle
    if isinstance(given, DistributedSampler):
        raise DescriptionError(
            f"{name} has a {type(given).__name__}, which gives each process other samples; pass data.source(dataset, sampler=…), "
            "and the processes share every batch by themselves."
        )
    return given, True
