"""Suspicions: what is wrong with data more often than not, said before a run is spent on it."""

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from instep.data.position import Position, Source
from instep.data.preview.summary import ColumnSummary, SetSummary
from instep.data.sources.data_names import DataNames
from instep.data.sources.samples import Samples
from instep.data.sources.stream import Stream
from instep.data.sources.target import Targeted
from instep.data.sources.view import View
from instep.data.structure import columns
from instep.text import plural

FAR = 10.0  # of a mean or a deviation: beyond it, the values were not brought near 1
ENOUGH = 10  # samples a class that have to be seen before one is missed
LISTED = 8  # of many classes or features
MOST_INDICES = 1_000_000  # of a part of a data set that are compared
HASHED = 2048  # samples of each set that are compared; of data in memory twenty times as many


def about(summary: SetSummary) -> list[str]:
    """What one set has to be warned of."""
    inputs = [column for column in summary.columns if column.mean is not None]
    said = [warning for column in inputs for warning in _about_values(column, summary.name)]
    if inputs:
        said += _about_scale(inputs[0], summary.name)
    return said


def about_classes(train: SetSummary, others: list[SetSummary]) -> list[str]:
    """Classes that nobody can learn, or that nobody tests."""
    if train.classes is None or (not train.all_counted and train.seen < ENOUGH * len(train.classes)):
        return []  # among few samples some class is always missing
    said = []
    where = "train" if train.all_counted else f"the {train.seen:,} samples of train that were looked at"
    known = set(train.classes)
    for other in others:
        unknown = sorted(set(other.classes or ()) - known)
        if unknown:
            said.append(f"{_classes(unknown, train.names)} of {other.name} {_has(unknown)} no sample in {where}")
    missing = sorted(set(range(max(known))) - known - {label for other in others for label in other.classes or ()})
    if missing and min(known) >= 0 and len(missing) <= len(known):  # with more gaps than classes they are numbers
        of = "" if train.names.classes else f" of 0 to {max(known)}"
        said.append(f"{_classes(missing, train.names)}{of} {_has(missing)} no sample in {where}")
    return said


def about_both(train: Source | Stream, valid: Source | Stream, name: str) -> list[str]:
    """Samples that are in both, before any transform: by their index in the same data set, else by the hash of their inputs."""
    if isinstance(train, Stream) or isinstance(valid, Stream):
        return []
    if _data_set(train) is _data_set(valid):
        both = _shared_indices(train, valid)
        found = f"{plural(both, 'sample')} of one data set {'is' if both == 1 else 'are'} in train and in {name}"
        return [f"{found}: what is evaluated on was trained on"] if both else []
    ours, theirs = _hashes(train), _hashes(valid)
    both = len(ours.keys() & theirs.keys())
    if not both:
        return []
    looked = f"of {len(theirs):,} samples of {name} and {len(ours):,} of train that were compared"
    return [f"{both:,} {looked} {'is' if both == 1 else 'are'} identical: what is evaluated on was trained on"]


def _about_values(column: ColumnSummary, name: str) -> Iterator[str]:
    if column.nonfinite:
        yield f"{name}{column.name} has {column.nonfinite:,} values that are inf or nan"
    if column.constant:
        named = [repr(column.features[place]) if column.features else str(place) for place in column.constant[:LISTED]]
        features = ", ".join(named) + (", …" if len(column.constant) > LISTED else "")
        some = f"feature {features} is" if len(column.constant) == 1 else f"features {features} are"
        yield f"{some} the same in every sample of {name}{column.name} that was looked at"


def _about_scale(column: ColumnSummary, name: str) -> Iterator[str]:
    """Of the input, which is the first column of numbers."""
    who = f"{name}{column.name}"
    if column.dtype == "uint8":
        yield f"{who} is uint8, {column.low:.0f} to {column.high:.0f}; models expect floats near 1: divide by 255, or normalise"
    elif "float" in column.dtype and column.mean is not None and column.std is not None:
        if column.std == 0:
            yield f"{who} has one value throughout, {column.mean:.3g}"
        elif abs(column.mean) > FAR or column.std > FAR:
            yield f"{who} is not normalised: mean {column.mean:.3g}, std {column.std:.3g}; models expect values near 1"


def _data_set(source: Source) -> Any:
    """What the user passed, below all views of it."""
    inner: Any = source
    while isinstance(inner, View | Targeted):
        inner = inner.source
    return inner.dataset if isinstance(inner, Samples) else inner


def _shared_indices(train: Source, valid: Source) -> int:
    ours, theirs = (part.origin(_some(len(part), MOST_INDICES)) for part in (train, valid))
    return int(torch.isin(theirs, ours).sum())


def _hashes(source: Source) -> dict[bytes, int]:
    """Of the inputs of some samples, evenly spread: digest to index."""
    found: dict[bytes, int] = {}
    for indices in _some(len(source), HASHED * (20 if source.in_memory else 1)).split(256):
        batch = source.fetch(indices, Position(0, 0, 0))
        inputs = batch[0] if isinstance(batch, tuple | list) and len(batch) > 1 else batch
        rows = [_bytes(column) for column in columns(inputs)]
        for number, index in enumerate(indices.tolist()):
            digest = hashlib.blake2b(digest_size=12)
            for row in rows:
                digest.update(row[number])
            found[digest.digest()] = index
    return found


def _bytes(column: Any) -> list[bytes]:
    if isinstance(column, Tensor):
        flat = column.detach().cpu().contiguous()
        return [row.reshape(-1).view(torch.uint8).numpy().tobytes() for row in flat]
    return [repr(entry).encode() for entry in column]


def _some(length: int, most: int) -> Tensor:
    if length <= most:
        return torch.arange(length)
    return torch.linspace(0, length - 1, most, dtype=torch.float64).round().long()


def _classes(labels: list[int], names: DataNames) -> str:
    listed = ", ".join(map(names.class_of, labels[:LISTED])) + (", …" if len(labels) > LISTED else "")
    return f"class {listed}" if len(labels) == 1 else f"the classes {listed}"


def _has(labels: list[int]) -> str:
    return "has" if len(labels) == 1 else "have"
