"""Remedies of data: in which order a loader reads."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from instep.doctor.curves import wrap
from instep.doctor.remedies import Fix


def shuffle(fix: Fix) -> None:
    """A loader that is read at the line of the finding gets a random order, by a generator of its own."""

    def around(original: Callable[..., Any], loader: DataLoader[Any], *args: Any, **kwargs: Any) -> Any:
        sampler = getattr(loader.batch_sampler, "sampler", None)
        if isinstance(sampler, SequentialSampler) and fix.is_here():
            generator = torch.Generator().manual_seed(0)  # the script's own random numbers stay what they are
            loader.batch_sampler.sampler = RandomSampler(sampler.data_source, generator=generator)  # type: ignore[union-attr]
            fix.count += 1
        return original(loader, *args, **kwargs)

    wrap(DataLoader, "__iter__", around)


def set_epochs(fix: Fix) -> None:
    """Samplers with `set_epoch` are told the number of the pass."""
    passes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def around(original: Callable[..., Any], loader: DataLoader[Any], *args: Any, **kwargs: Any) -> Any:
        sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
        if hasattr(sampler, "set_epoch"):
            passes[loader] = epoch = passes.get(loader, -1) + 1
            sampler.set_epoch(epoch)
            fix.count += epoch > 0
        return original(loader, *args, **kwargs)

    wrap(DataLoader, "__iter__", around)


def go_on(fix: Fix) -> None:
    """`iter(loader)` at the line of the finding gives the iterator that is going on, until it ends."""
    going_on: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def around_iter(original: Callable[..., Any], loader: DataLoader[Any], *args: Any, **kwargs: Any) -> Any:
        if not fix.is_here():
            return original(loader, *args, **kwargs)
        if loader in going_on:
            fix.count += 1
        else:
            going_on[loader] = original(loader, *args, **kwargs)
        return going_on[loader]

    def around_next(original: Callable[..., Any], iterator: Any) -> Any:
        try:
            return original(iterator)
        except StopIteration:
            owner = next((loader for loader, one in going_on.items() if one is iterator), None)
            if owner is None:
                raise
            going_on[owner] = owner._get_iterator()
            return next(going_on[owner])

    wrap(DataLoader, "__iter__", around_iter)
    wrap(_BaseDataLoaderIter, "__next__", around_next)
