"""Looking: the data of a run as the model will see it, without leaving a trace.

It reads with loaders of its own, and copies of iterables, so that those of the run stay where they are; generators are put back
as always.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.data.feed import Feed
from instep.data.loading.augmenters import reachable
from instep.data.loading.loader import Batch, Loader
from instep.data.padding import Padding
from instep.data.position import Source
from instep.data.preview.checks import about, about_both, about_classes
from instep.data.preview.pictures import Normalised, as_pictures, images_in, normalisation_in
from instep.data.preview.summary import Picture, Preview, SetSummary, column_summary, leaves, with_names
from instep.data.sources.data_names import DataNames, data_names
from instep.data.sources.labels import column_of_labels, labels_of
from instep.data.sources.stream import Stream

Decode = Callable[[Any], str]

BATCHES = 4  # of each set
PICTURES = 24
TEXTS = 4
MOST_CLASSES = 1000
FEW = 32  # samples, of which each may have its own class


def look(
    feed: Feed,
    *,
    batch_size: int,
    device: torch.device,
    batches: int = BATCHES,
    decode: Decode | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Preview:
    """The first batches of every set, summed up.

    `decode` makes text of a sample's tokens; `mean` and `std` undo a normalisation that is not found in the transforms.
    """
    feed = feed.for_looking("preview()")
    loaders = {"train": feed.train_loader(batch_size=batch_size, device=device, workers=0)}
    loaders |= feed.valid_loaders(batch_size=batch_size, device=device, workers=0)
    sources, names = {"train": feed.train, **feed.valid}, data_names(feed.train)
    first: list[Batch] = []
    sets: list[SetSummary] = []
    for name, loader in loaders.items():
        seen = list(islice(loader.batches(0), batches))
        loader.close()
        first = first or seen
        sets.append(_summed_up(name, loader, seen, sources[name], feed.collate, names))
    pictures, captions, shown_as = _pictures(first[0].data, feed, mean, std, names) if first else ((), (), "")
    return Preview(
        tuple(sets),
        (*(warning for each in sets for warning in about(each)), *about_classes(sets[0], sets[1:]), *_shared(feed)),
        pictures,
        captions,
        shown_as,
        _texts(first[0].data, decode) if first and decode is not None else (),
    )


def look_at_batch(feed: Feed, loader: Loader, batch: Batch) -> Preview:
    """One batch of the training data, summed up: columns, classes, pictures, and what looks wrong."""
    names = data_names(feed.train)
    summary = _summed_up("train", loader, [batch], feed.train, feed.collate, names)
    summary = replace(summary, classes=_balance(_labels([batch.data])), all_counted=False)
    return Preview((summary,), tuple(about(summary)), *_pictures(batch.data, feed, None, None, names))


def _summed_up(
    name: str, loader: Loader, seen: list[Batch], source: Source | Stream, collate: Any, names: DataNames
) -> SetSummary:
    by_name: dict[str, list[Any]] = {}
    for batch in seen:
        for place, column in leaves(batch.data):
            by_name.setdefault(place, []).append(column)
    columns = [column_summary(place, parts) for place, parts in by_name.items()]
    seen_labels = _labels([batch.data for batch in seen])
    counted = None if isinstance(source, Stream) or not loader.takes_each_once else labels_of(source)
    if counted is not None and not np.array_equal(counted[torch.cat([batch.indices for batch in seen]).numpy()], seen_labels):
        counted = None  # a transform made others of them
    return SetSummary(
        name,
        loader.samples,
        sum(batch.samples for batch in seen),
        with_names([column for column in columns if column is not None], names),
        _balance(seen_labels if counted is None else counted),
        all_counted=counted is not None,
        padding=_padding([batch.data for batch in seen], collate),
        names=names,
    )


def _labels(batches: list[Any]) -> Any:
    parts = [column_of_labels(batch) for batch in batches]
    if not parts or any(part is None for part in parts):
        return None
    return np.concatenate([part.detach().cpu().numpy() for part in parts])


def _balance(labels: Any) -> Mapping[int, int] | None:
    if labels is None:
        return None
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) > MOST_CLASSES or (len(labels) >= FEW and 2 * len(classes) > len(labels)):
        return None  # numbers, not classes
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def _padding(batches: list[Any], collate: Any) -> float | None:
    """The share that was filled in, where something says so: a mask, or the lengths of the padding collate."""
    real = whole = 0.0
    for batch in batches:
        named = dict(leaves(batch))
        mask = next((named[key] for key in ("['mask']", "['attention_mask']") if isinstance(named.get(key), Tensor)), None)
        last = list(named.values())[-1] if named else None
        if mask is None and isinstance(collate, Padding) and isinstance(last, Tensor):
            if collate.give == "mask":
                mask = last
            elif collate.give == "lengths":
                longest = next(column.shape[1] for column in named.values() if isinstance(column, Tensor) and column.ndim > 1)
                real, whole = real + float(last.sum()), whole + len(last) * longest
        if mask is not None:
            real, whole = real + float(mask.sum()), whole + mask.numel()
    return 1 - real / whole if whole else None


def _pictures(
    batch: Any, feed: Feed, mean: tuple[float, ...] | None, std: tuple[float, ...] | None, names: DataNames
) -> tuple[tuple[Picture, ...], tuple[str, ...], str]:
    images = images_in(leaves(batch))
    if images is None:
        return (), (), ""
    if mean is not None or std is not None:
        normalised: Normalised | None = Normalised(mean or (0.0,), std or (1.0,))
    else:
        normalised = normalisation_in(reachable(feed.train, *feed.transforms))
    pictures, shown_as = as_pictures(images[:PICTURES], normalised)
    labels = column_of_labels(batch)
    captions = () if labels is None else tuple(names.class_of(label) for label in labels[:PICTURES].tolist())
    return pictures, captions, shown_as


def _texts(batch: Any, decode: Decode) -> tuple[str, ...]:
    """The tokens of the first samples as text, without what was filled in."""
    named = leaves(batch)
    tokens = next((column for _, column in named if isinstance(column, Tensor) and column.ndim == 2 and _is_whole(column)), None)
    if tokens is None:
        return ()
    masks = [column for _, column in named if isinstance(column, Tensor) and column.dtype == torch.bool]
    mask = next((column.cpu() for column in masks if column.shape == tokens.shape), torch.ones(tokens.shape, dtype=torch.bool))
    rows = [row[kept] for row, kept in zip(tokens.cpu()[:TEXTS], mask, strict=False)]
    return tuple(decode(row.tolist()) for row in rows)


def _is_whole(column: Tensor) -> bool:
    return not column.is_floating_point() and column.dtype not in (torch.bool, torch.uint8)


def _shared(feed: Feed) -> list[str]:
    return [
        warning
        for name, untransformed in feed.untransformed_valid.items()
        for warning in about_both(feed.untransformed_train, untransformed, name)
    ]
