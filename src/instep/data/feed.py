"""Feed: the data of a run, from what the user passed for training and validation to the loaders that give its batches.

It owns what goes with what: which transform, sampler and workers belong to training, which to validation, and what a DataLoader
that was passed has to say about them. All of it is checked here, before anything is loaded.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, SubsetRandomSampler

from instep import keys
from instep.data.loading.loader import Loader, WorkerCount
from instep.data.position import Collate, Source, Transform
from instep.data.sampler import Sampler, checked
from instep.data.sampling import ClassBalanced, Weighted, sampler_for
from instep.data.share import Dealt, Share
from instep.data.sources.dataloader import Taken, WorkerSettings, taken
from instep.data.sources.recognize import Reading, as_data
from instep.data.sources.stream import Stream
from instep.data.sources.view import Listed, View, held_out
from instep.errors import DescriptionError, Notice

BATCH_SIZE = 64


@dataclass(frozen=True)
class Loading:
    """How data is loaded, as asked for: arguments of the Trainer, by the same names."""

    transform: Transform | None = None
    valid_transform: Transform | None = None
    batch_transform: Transform | None = None
    valid_batch_transform: Transform | None = None
    collate: Collate | None = None
    batched_fetch: bool | None = None
    sampler: Any = None
    workers: WorkerCount | None = None  # None: what a DataLoader says, else 0
    target: str | Sequence[str] | None = None
    steps_per_epoch: int | None = None


class Part(NamedTuple):
    """One set of data, and the DataLoader that it came in."""

    data: Source | Stream
    given: Taken | None


class Feed:
    """The data of a run."""

    def __init__(self, train: Any, valid: Any = None, *, seed: int, loading: Loading = Loading()) -> None:  # noqa: B008
        self._seed = seed
        self._loading = loading
        self._given_train = train
        whole = self._part(train, "train")
        self._valid: dict[str, Part] = {}
        self._train = whole
        if isinstance(valid, float):
            self._train, self._valid["valid"] = self._held_out(whole, valid)
        elif isinstance(valid, Mapping) and not _is_one_set(valid, train):
            if not valid:
                raise DescriptionError('valid={} holds no data set; leave it out, or pass for example {"a": (x, y)}.')
            self._valid = {f"valid/{name}": self._part(data, f"valid[{name!r}]") for name, data in valid.items()}
        elif valid is not None:
            self._valid["valid"] = self._part(valid, "valid")
        self._check_steps()
        self._sampler = self._train_sampler(whole)
        self.collate = loading.collate or (whole.given.collate if whole.given else None)
        self.transforms = (loading.transform, loading.batch_transform)
        self.untransformed_train = self._train.data
        self.untransformed_valid = {name: part.data for name, part in self._valid.items()}
        self.train = _transformed(self._train.data, loading.transform)
        self.valid = {name: self._for_evaluation(part) for name, part in self._valid.items()}

    # --- Sizes

    def batch_size(
        self, asked: int | None, *, update_cycle: int = 1, micro_batch_size: int | None = None, processes: int = 1
    ) -> int:
        """The effective batch size. A DataLoader's is that of the micro-batch of one process."""
        given = self._train.given
        if given is None:
            return BATCH_SIZE if asked is None else asked
        for name, value in (("batch_size", asked), ("micro_batch_size", micro_batch_size)):
            if value is not None:
                raise DescriptionError(
                    f"{name}={value} is given, and train is a DataLoader with batch_size={given.batch_size}; leave one out. "
                    "A DataLoader's is the micro-batch of one process: update_cycle= of them make a batch."
                )
        return given.batch_size * update_cycle * processes

    def drop_last(self, asked: bool) -> bool:
        """Whether an epoch's last batch is left out where it is smaller."""
        return asked or (self._train.given is not None and self._train.given.drop_last)

    def samples(self, batch_size: int) -> int:
        """How many samples an epoch has."""
        if self._sampler is not None:
            return self._sampler.samples
        assert isinstance(self.train, Stream)
        if self._loading.steps_per_epoch is not None:
            return self._loading.steps_per_epoch * batch_size
        if self.train.length is None:
            raise DescriptionError(
                "train is an iterable of unknown length; say with steps_per_epoch= how many batches make an epoch, or give it "
                "a __len__."
            )
        return self.train.length

    # --- Loaders

    def train_loader(
        self,
        *,
        batch_size: int,
        device: torch.device,
        drop_last: bool = False,
        epochs: int = 0,
        workers: WorkerCount | None = None,
        share: Share | None = None,
        say: Callable[[str], object] | None = None,
    ) -> Loader:
        """The batches to train on; `epochs` is how many the run has, `say` is told what workers="auto" chose.

        `workers` is for a look at the data that wants none.
        """
        return Loader(
            self.train,
            batch_size=batch_size,
            seed=self._seed,
            device=device,
            shuffle=True,
            drop_last=drop_last,
            sampler=self._sampler,
            workers=self._workers(self._train) if workers is None else workers,
            batch_transform=self._loading.batch_transform,
            steps_per_epoch=self._loading.steps_per_epoch,
            epochs=epochs,
            settings=_settings(self._train),
            share=share,
            say=say,
        )

    def valid_loaders(
        self, *, batch_size: int, device: torch.device, workers: WorkerCount | None = None, share: Dealt | None = None
    ) -> dict[str, Loader]:
        """A loader for each set of validation data, by its name; a DataLoader's own batch size is kept."""
        return {
            name: self._evaluation_loader(source, self._valid[name], batch_size, device, workers, share)
            for name, source in self.valid.items()
        }

    def sets(self, data: Any) -> dict[str, Any]:
        """Data sets by name, by the rule for valid=; what is one set is called "data"."""
        if not isinstance(data, Mapping) or _is_one_set(data, self._given_train):
            return {"data": data}
        if not data:
            raise DescriptionError('evaluate({}) holds no data set; pass for example {"test": (x, y)}.')
        for name in data:
            if not isinstance(name, str) or not name:
                raise DescriptionError(f'a data set has the name {name!r}; use a word, like {{"test": (x, y)}}.')
        return dict(data)

    def loader_for(self, data: Any, *, batch_size: int, device: torch.device, share: Dealt | None = None) -> Loader:
        """A loader for other data, treated like validation data."""
        part = self._part(data, "data")
        return self._evaluation_loader(self._for_evaluation(part), part, batch_size, device, None, share)

    def _evaluation_loader(
        self,
        source: Source | Stream,
        part: Part,
        batch_size: int,
        device: torch.device,
        workers: WorkerCount | None,
        share: Dealt | None,
    ) -> Loader:
        workers = self._workers(part) if workers is None else workers
        batch_size = batch_size if part.given is None else part.given.batch_size
        samples = source.length if isinstance(source, Stream) else len(source)
        if share is not None and (samples is None or samples <= batch_size * (share.processes - 1)):
            share = None  # not a batch for each process, or nobody knows: all of them look at all of it
        return Loader(
            source,
            batch_size=batch_size,
            seed=keys.for_evaluation(self._seed),
            device=device,
            shuffle=False,
            workers=min(workers, 1) if isinstance(source, Stream) and isinstance(workers, int) else workers,
            batch_transform=self._loading.valid_batch_transform,
            settings=_settings(part),
            share=share,
            say=_unsaid,
        )

    # --- What goes with what

    def _part(self, data: Any, name: str) -> Part:
        given = taken(data, name) if isinstance(data, DataLoader) else None
        collate = self._loading.collate or (given.collate if given else None)
        reading = Reading(self._loading.target, collate, self._loading.batched_fetch)
        return Part(as_data(given.dataset if given else data, name, reading), given)

    def _held_out(self, whole: Part, share: float) -> tuple[Part, Part]:
        if isinstance(whole.data, Stream):
            raise DescriptionError(
                f"valid={share} takes a share of the training data, and train is an iterable, of which nothing can be chosen; "
                "pass data of its own as valid=."
            )
        if whole.given is not None and whole.given.sampler is not None:
            raise DescriptionError(
                f"valid={share} takes a share of the training data, and train is a DataLoader with a sampler, which names "
                "samples of all of it; pass data of its own as valid=."
            )
        rest, kept = held_out(whole.data, share, self._seed)
        return Part(rest, whole.given), Part(kept, None)

    def _check_steps(self) -> None:
        steps, data = self._loading.steps_per_epoch, self._train.data
        if steps is None:
            return
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise DescriptionError(f"steps_per_epoch={steps!r} must be a whole number, 1 or more.")
        if not isinstance(data, Stream):
            raise DescriptionError(
                f"steps_per_epoch={steps} is for iterables; train has {len(data):,} samples, so the length of an epoch is known. "
                "Use max_steps= for a shorter run, or sampler= for other epochs."
            )

    def _train_sampler(self, whole: Part) -> Sampler | None:
        asked, given, data = self._loading.sampler, self._train.given, self._train.data
        if isinstance(data, Stream):
            if asked is not None:
                raise DescriptionError("sampler= chooses samples by index, and train is an iterable, which has its own order.")
            return None
        if asked is not None and given is not None and given.sampler is not None:
            raise DescriptionError("sampler= is given, and train is a DataLoader with a sampler of its own; leave one out.")
        chosen = asked if asked is not None else given.sampler if given is not None else None
        if isinstance(data, View) and data is not whole.data and chosen is not None:
            chosen = _narrowed(chosen, data, whole)
        return sampler_for(chosen, data, shuffle=given is None or given.shuffle)

    def _for_evaluation(self, part: Part) -> Source | Stream:
        """Every sample once, in the data's own order."""
        given, data = part.given, part.data
        if given is not None and not isinstance(data, Stream):
            if given.drop_last:
                warnings.warn(
                    f"drop_last=True of {data.name} is not used: an evaluation takes every sample.", Notice, stacklevel=2
                )
            if isinstance(given.sampler, SubsetRandomSampler):
                chosen = checked(given.sampler.indices, len(data), data.name, f"the SubsetRandomSampler of {data.name}")
                data = View(data, Listed(torch.from_numpy(chosen)))
            elif given.sampler is not None:
                raise DescriptionError(
                    f"{data.name} is a DataLoader with a {type(given.sampler).__name__}, and an evaluation takes every sample "
                    "once; pass the data itself."
                )
        return _transformed(data, self._loading.valid_transform)

    def _workers(self, part: Part) -> WorkerCount:
        if self._loading.workers is not None:
            return self._loading.workers
        return 0 if part.given is None else part.given.workers


def _is_one_set(valid: Mapping[Any, Any], train: Any) -> bool:
    """A mapping of columns, like the training data's own, or of several tensors; else it is one of data sets by name."""
    if isinstance(train, Mapping):
        return set(train) == set(valid)
    return len(valid) > 1 and all(isinstance(column, Tensor | np.ndarray) for column in valid.values())


def _narrowed(chosen: Any, data: View, whole: Part) -> Any:
    """A sampler that was made for all of the data, for what is left of it for training."""
    if not isinstance(chosen, Weighted | ClassBalanced) or isinstance(whole.data, Stream):
        raise DescriptionError(
            "a share of train is held out for validation, and sampler= names samples of all of it; "
            "pass data of its own as valid=."
        )
    return chosen.narrowed(data.picks.take(torch.arange(len(data))).numpy(), len(whole.data))


def _transformed(data: Source | Stream, transform: Transform | None) -> Source | Stream:
    if transform is None:
        return data
    if not callable(transform):
        raise DescriptionError(f"transform={transform!r} cannot be called; pass a function of a sample.")
    return data.transformed(transform)


def _settings(part: Part) -> WorkerSettings:
    return WorkerSettings() if part.given is None else part.given.settings


def _unsaid(text: str) -> None:
    """What is chosen for an evaluation is not worth a word."""
