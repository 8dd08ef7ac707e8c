"""DataSource: one data set and what is said about it: its transforms, how it is collated, which samples it gives, its target.

Owns what `data.source(…)` accepts, and what one data set takes over from another. How it is read is the sources' business.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Never

import numpy as np
from torch import Tensor

from instep.data.batch_layout import BatchDim, BatchLayout, Name
from instep.data.position import Collate, Transform
from instep.errors import DescriptionError

BucketBy = str | int | Callable[[Any], float] | Sequence[float] | Tensor | np.ndarray[Any, Any]

# What these were called as arguments of the Trainer, and where each is said now.
MOVED_FROM_TRAINER = {
    "transform": "train=data.source(…, transform=…)",
    "valid_transform": "valid=data.source(…, transform=…)",
    "batch_transform": "train=data.source(…, batch_transform=…)",
    "valid_batch_transform": "valid=data.source(…, batch_transform=…)",
    "collate": "train=data.source(…, collate_fn=…)",
    "collate_fn": "train=data.source(…, collate_fn=…)",
    "sampler": "train=data.source(…, sampler=…)",
    "bucket_by": "train=data.source(…, bucket_by=…)",
    "target": "train=data.source(…, target=…)",
    "steps_per_epoch": "train=data.source(…, steps_per_epoch=…)",
}

_NOT_HERE = {
    "collate": "collate_fn=",
    "valid_transform": MOVED_FROM_TRAINER["valid_transform"],
    "valid_batch_transform": MOVED_FROM_TRAINER["valid_batch_transform"],
    "batched_fetch": "nothing: a data set's own __getitems__ is used where it has one and there is no transform",
    "workers": "num_workers= of the Trainer",
    "num_workers": "num_workers= of the Trainer",
    "batch_size": "batch_size= of the Trainer",
    "group_by_length": "bucket_by=",
    "drop_last": "drop_last= of the Trainer",
    "shuffle": "nothing: training data is shuffled, other data is not; sampler= chooses another order",
}


@dataclass(frozen=True, eq=False, repr=False)
class DataSource:
    """A data set and what is said about it; made by `source`. None says nothing."""

    data: Any
    transform: Transform | None = None
    batch_transform: Transform | None = None
    collate_fn: Collate | None = None
    sampler: Any = None
    bucket_by: Any = None
    target: str | Sequence[str] | None = None
    steps_per_epoch: int | None = None
    batch_dim: BatchDim | None = None
    shared: Name | Sequence[Name] | None = None

    def settings(self) -> dict[str, Any]:
        """What is said, by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "data"}
        return {name: value for name, value in named.items() if value is not None}

    def inherit(self, other: "DataSource", *names: str) -> "DataSource":
        """The same, with what the other one says under these names wherever this one says nothing."""
        return replace(self, **{name: getattr(other, name) for name in names if getattr(self, name) is None})

    def __repr__(self) -> str:
        said = [f"{name}={_shown(value)}" for name, value in self.settings().items()]
        return f"data.source({', '.join([_form(self.data), *said])})"


def source(
    data: Any,
    *,
    transform: Transform | None = None,
    batch_transform: Transform | None = None,
    collate_fn: Collate | None = None,
    sampler: Any = None,
    bucket_by: BucketBy | None = None,
    target: str | Sequence[str] | None = None,
    steps_per_epoch: int | None = None,
    batch_dim: BatchDim | None = None,
    shared: Name | Sequence[Name] | None = None,
    **unknown: Never,
) -> DataSource:
    """A data set with its transforms, sampler, collate function or target: for `train=`, `valid=`, `evaluate()`, `predict()`.

    `data` is anything that could be passed by itself; for `valid=` also the share of the training data to hold out.
    `transform` is applied to each sample, `batch_transform` to each batch on the device. `collate_fn` makes a batch of a list of
    samples. `sampler` chooses the samples of each epoch: "balanced" for every class equally often, `weighted(…)`,
    `class_balanced()`, a function `(epoch, seed) -> indices` or a sampler of torch. `bucket_by` makes batches of samples of about
    the same length: the name or number of an entry, a function of a sample, or one length a sample. `target` names the
    column, or the columns, to predict, in a frame or a mapping. `steps_per_epoch` is how many batches make an epoch of an endless
    iterable.

    `batch_dim` and `shared` say what a batch of your own `collate_fn` looks like, so that it can be cut into micro-batches:
    `batch_dim` is the dimension in which samples stand, where it is not 0, for all columns or by the name of an entry
    (`{"x": 1}`); `shared` are the entries that belong to no sample, like a mask, of which every micro-batch gets all.

    Validation data takes over `target` and `collate_fn` of the training data where it says nothing itself; transforms and
    samplers it does not take over. Data for `evaluate()` and `predict()` takes over everything that the validation data says.

    >>> import torch
    >>> def jitter(sample):
    ...     return sample[0] + 0.1 * torch.randn(4), sample[1]
    >>> source((torch.zeros(64, 4), torch.zeros(64)), transform=jitter)
    data.source((Tensor(64, 4), Tensor(64)), transform=jitter)
    """
    for name in unknown:
        advice = (
            f"; use {_NOT_HERE[name]}" if name in _NOT_HERE else f"; it has {', '.join(f.name for f in fields(DataSource)[1:])}"
        )
        raise DescriptionError(f"data.source() has no argument {name}=…{advice}.")
    if bucket_by is not None and not isinstance(bucket_by, str | int) and not callable(bucket_by):
        bucket_by = np.asarray(bucket_by)  # of which a description keeps a hash
    made = DataSource(
        data, transform, batch_transform, collate_fn, sampler, bucket_by, target, steps_per_epoch, batch_dim, shared
    )
    _check(made)
    return made


def as_data_source(data: Any) -> DataSource:
    """What was passed, with what is said about it; bare data says nothing."""
    return data if isinstance(data, DataSource) else DataSource(data)


def named_sources(data: Any, train: DataSource, name: str) -> dict[str, DataSource]:
    """Data sets by the names that their numbers get: `{"valid": …}`, or `{"valid/a": …, "valid/b": …}`."""
    if data is None:
        return {}
    if not is_by_name(data, train.data):
        return {name: as_data_source(data)}
    if not data:
        raise DescriptionError(f'{name}={{}} holds no data set; leave it out, or pass for example {{"a": (x, y)}}.')
    return {f"{name}/{part}": as_data_source(one) for part, one in data.items()}


def is_by_name(data: Any, train: Any) -> bool:
    """Whether these are data sets by name; else it is one data set, which may be a mapping of columns."""
    return isinstance(data, Mapping) and not is_one_set(data, train)


def is_one_set(valid: Mapping[Any, Any], train: Any) -> bool:
    """A mapping with a column of the training data's own, or of several tensors; else it is one of data sets by name."""
    if any(isinstance(part, DataSource) for part in valid.values()):
        return False
    if isinstance(train, Mapping):
        return not set(train).isdisjoint(valid)
    return len(valid) > 1 and all(isinstance(column, Tensor | np.ndarray) for column in valid.values())


def _check(said: DataSource) -> None:
    if isinstance(said.data, DataSource):
        raise DescriptionError("data.source() was given what data.source() returned; say everything in one call.")
    for name, what in (("transform", "a sample"), ("batch_transform", "a batch"), ("collate_fn", "a list of samples")):
        value = getattr(said, name)
        if value is not None and not callable(value):
            raise DescriptionError(f"{name}={value!r} cannot be called; pass a function of {what}.")
    if said.sampler is not None and said.bucket_by is not None:
        raise DescriptionError("sampler= and bucket_by= both decide in which order the samples come; leave one out.")
    BatchLayout(said.batch_dim, said.shared)  # which raises
    steps = said.steps_per_epoch
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        raise DescriptionError(f"steps_per_epoch={steps!r} must be a whole number, 1 or more.")


def _shown(value: Any) -> str:
    return getattr(value, "__qualname__", "").rpartition(".")[2] or repr(value)


def _form(data: Any) -> str:
    """Data in a few words: what it is and how much, never its numbers."""
    if isinstance(data, tuple | list) and len(data) <= 4:
        inner = ", ".join(map(_form, data))
        return f"[{inner}]" if isinstance(data, list) else f"({inner},)" if len(data) == 1 else f"({inner})"
    if isinstance(data, Mapping) and len(data) <= 4:
        return "{" + ", ".join(f"{name!r}: {_form(part)}" for name, part in data.items()) + "}"
    if isinstance(data, int | float | str):
        return repr(data)
    shape = getattr(data, "shape", None)
    kind = getattr(data, "__name__", type(data).__name__)
    return kind if not isinstance(shape, tuple) else f"{kind}({', '.join(map(str, shape))})"
