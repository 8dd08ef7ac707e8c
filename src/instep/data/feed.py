"""Feed: the data of a run, from what the user passed for training and validation to the loaders that give its batches.

It owns what goes with what: which transform, sampler and workers belong to training, which to validation, and what a DataLoader
that was passed has to say about them. All of it is checked here, before anything is loaded.
"""

import copy
import functools
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler

from instep import keys
from instep.data.batch_layout import BatchLayout
from instep.data.buckets import Buckets, buckets_for
from instep.data.data_source import DataSource, as_data_source, is_by_name, named_sources
from instep.data.inputs import inputs_of, is_several
from instep.data.loading.loader import Loader, WorkerCount
from instep.data.loading.sample_trial import SampleTrial
from instep.data.padding import Padding
from instep.data.position import Position, Source, Transform
from instep.data.sampler import Sampler, checked
from instep.data.sampling import ClassBalanced, Weighted, by_name, sampler_for
from instep.data.share import Dealt, Share
from instep.data.sources.dataloader import DataLoaderParts, WorkerSettings, dataloader_parts
from instep.data.sources.hugging_face import prepare, take_splits
from instep.data.sources.recognize import Reading, as_data
from instep.data.sources.stream import Stream
from instep.data.sources.underlying import frame_layout, input_names, is_narrowed
from instep.data.sources.view import Listed, View, held_out
from instep.errors import DescriptionError, give_notice
from instep.text import plural

BATCH_SIZE = 64
MOST_COUNTED = 1_000_000  # samples of an iterable that are read to learn how many there are


class Opened(NamedTuple):
    """One data set as it is read, what is said about it, and the DataLoader that it came in."""

    data: Source | Stream
    said: DataSource
    given: DataLoaderParts | None


class Feed:
    """The data of a run. `num_workers=None` is what a DataLoader says, else 0; `dtype` is that of the model's parameters.

    `arguments` are the names of the model's arguments, where it is called with the entries of a batch.
    """

    def __init__(
        self,
        train: Any,
        valid: Any = None,
        test: Any = None,
        *,
        seed: int,
        num_workers: WorkerCount | None = None,
        dtype: torch.dtype | None = None,
        arguments: Collection[str] | None = None,
    ) -> None:
        self._seed = seed
        self._arguments = arguments
        self._num_workers = num_workers
        said = as_data_source(train)
        split, valid, test, self._prepared = take_splits(said.data, valid, test)
        said = replace(said, data=split)
        self._steps_per_epoch = said.steps_per_epoch  # of an iterable
        self._tried: set[str] = set()  # data that a sample was loaded of, to see whether it gives the same one everywhere
        self.layout = BatchLayout(said.batch_dim, said.shared)  # of the batches of all data: one model gets them
        whole = self._train = self._opened(said, "train", Reading(said.target, dtype=dtype))
        self._reading = Reading(  # of data that goes with the training data
            dtype=dtype,
            layout=frame_layout(whole.data),
            names=None if said.transform or said.collate_fn else input_names(whole.data),
            target_is_inherited=True,
        )
        sets = named_sources(valid, whole.said, "valid")
        self._valid: dict[str, Opened] = {}
        for name, said in sets.items():
            if name == "valid" and isinstance(said.data, float):
                self._train, self._valid[name] = self._held_out(whole, said)
            else:
                self._valid[name] = self._opened_for_evaluation(said, _argument(name, "valid"))
        if isinstance(test, float):
            raise DescriptionError(f"test={test} is no data; only valid= takes a share of train, so pass data of its own.")
        self._test = {
            name: self._opened_like_validation(said, _argument(name, "test"))
            for name, said in named_sources(test, whole.said, "test").items()
        }
        self._sampler = self._train_sampler(whole)
        self.settings = {name: said.settings() for name, said in {"train": whole.said, **sets}.items() if said.settings()}
        self.collate = whole.said.collate_fn or (whole.given.collate if whole.given else None)
        self.transforms = (whole.said.transform, whole.said.batch_transform)
        self.untransformed_train = self._train.data
        self.untransformed_valid = {name: part.data for name, part in self._valid.items()}
        narrowed = [name for name, part in {"train": self._train, **self._valid}.items() if is_narrowed(part.data)]
        self.notes = [f"float64 columns of {', '.join(narrowed)} are read as float32, the type of the model"] if narrowed else []
        self.notes += self._prepared
        self.train = _transformed(self._train)
        self.valid = {name: self._for_evaluation(part) for name, part in self._valid.items()}
        self.test = {name: self._for_evaluation(part) for name, part in self._test.items()}

    @property
    def is_class_balanced(self) -> bool:
        """Whether the sampler gives every class equally often."""
        return isinstance(by_name(self._train.said.sampler), ClassBalanced)

    @property
    def added(self) -> str | None:
        """What the collate function adds to a batch, where it is `pad`: "mask" or "lengths"."""
        return self.collate.give if isinstance(self.collate, Padding) else None

    # --- Sizes

    @property
    def has_own_batches(self) -> bool:
        """Whether train is a DataLoader, whose batch size is that of one process."""
        return self._train.given is not None

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

    @property
    def is_dataloader(self) -> bool:
        """Whether train was passed as a DataLoader, whose batch is the micro-batch of one process."""
        return self._train.given is not None

    def drop_last(self, asked: bool) -> bool:
        """Whether an epoch's last batch is left out where it is smaller."""
        return asked or (self._train.given is not None and self._train.given.drop_last)

    def samples(self, batch_size: int, *, max_steps: int | None = None) -> int:
        """How many samples an epoch has. An iterable that does not say it is read once and counted."""
        if self._sampler is not None:
            return self._sampler.samples
        assert isinstance(self.train, Stream)
        if self._steps_per_epoch is None and self.train.length is None:
            self._count(self.train, batch_size, max_steps)
        if self._steps_per_epoch is not None:
            return self._steps_per_epoch * batch_size
        if not self.train.length:
            raise DescriptionError("train gave no sample.")
        return self.train.length

    def _count(self, stream: Stream, batch_size: int, max_steps: int | None) -> None:
        """Read one pass; where it does not end within `max_steps`, or soon enough, the run of so many steps is one epoch."""
        most = MOST_COUNTED if max_steps is None else min(MOST_COUNTED, max_steps * batch_size)
        if stream.count(self._seed, most):
            return
        if max_steps is None:
            raise DescriptionError(
                f"train is an iterable without a __len__ that gave {most:,} samples and did not end; say with "
                "data.source(…, steps_per_epoch=…) how many batches make an epoch, or with max_steps= how long the run is."
            )
        self._steps_per_epoch = max_steps

    # --- Inputs

    def inputs_of(self, batch: Any) -> Any:
        """What the model gets of a batch that may or may not have a target: the training data says what its inputs look like."""
        return inputs_of(batch, self._several_inputs if is_several(batch) and len(batch) > 1 else None)

    @functools.cached_property
    def _several_inputs(self) -> int | None:
        """How many inputs a sample of the training data has, where they are in a tuple or list; one sample is loaded for it."""
        if isinstance(self.train, Stream):
            return None
        batch = self.train.fetch(torch.tensor([0]), Position(self._seed, 0, 0))
        is_pair = is_several(batch) and len(batch) == 2 and is_several(batch[0])
        return len(batch[0]) if is_pair else None

    # --- Loaders

    def for_looking(self, what: str) -> "Feed":
        """The same with a copy of every iterable: reading those leaves the run's own where they stand; `what` is who reads."""
        other = copy.copy(self)
        other.train = _copied(self.train, what)
        other.valid = {name: _copied(data, what) for name, data in self.valid.items()}
        return other

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
        """The batches to train on; `epochs` is how many the run has, `say` is told what num_workers="auto" chose.

        `workers` is for a look at the data that wants none.
        """
        return Loader(
            self.train,
            batch_size=batch_size,
            seed=self._seed,
            device=device,
            shuffle=True,
            drop_last=drop_last,
            sampler=self._sampler.for_batches(batch_size) if isinstance(self._sampler, Buckets) else self._sampler,
            workers=self._workers(self._train) if workers is None else workers,
            batch_transform=self._train.said.batch_transform,
            steps_per_epoch=self._steps_per_epoch,
            epochs=epochs,
            settings=_settings(self._train),
            share=share,
            say=say,
            layout=self.layout,
            before_first=functools.partial(self._try_sample, self.train),
        )

    def valid_loaders(
        self, *, batch_size: int, device: torch.device, workers: WorkerCount | None = None, share: Dealt | None = None
    ) -> dict[str, Loader]:
        """A loader for each set of validation data, by its name; a DataLoader's own batch size is kept."""
        return {
            name: self._evaluation_loader(source, self._valid[name], batch_size, device, workers, share)
            for name, source in self.valid.items()
        }

    def test_loaders(self, *, batch_size: int, device: torch.device, share: Dealt | None = None) -> dict[str, Loader]:
        """A loader for each set of test data, by its name."""
        return {
            name: self._evaluation_loader(source, self._test[name], batch_size, device, None, share)
            for name, source in self.test.items()
        }

    def loader_for(
        self,
        data: Any,
        *,
        batch_size: int,
        device: torch.device,
        share: Dealt | None = None,
        target_needed: bool = True,
        name: str = "data",
    ) -> Loader:
        """A loader for other data, treated like validation data; predictions need no target."""
        part = self._opened_like_validation(as_data_source(data), name, target_needed=target_needed)
        return self._evaluation_loader(self._for_evaluation(part), part, batch_size, device, None, share)

    def by_name(self, data: Any) -> dict[str, Any]:
        """Other data by the names that its numbers get: those that it was passed with, or "data"."""
        if not is_by_name(data, self._train.said.data):
            return {"data": data}
        if not data:
            raise DescriptionError('evaluate({}) holds no data set; pass for example {"test": (x, y)}.')
        for name in data:
            if not isinstance(name, str) or not name:
                raise DescriptionError(f'a data set has the name {name!r}; use a word, like {{"test": (x, y)}}.')
        return dict(data)

    def _evaluation_loader(
        self,
        source: Source | Stream,
        part: Opened,
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
            batch_transform=part.said.batch_transform,
            steps_per_epoch=part.said.steps_per_epoch,
            settings=_settings(part),
            share=share,
            say=_unsaid,
            layout=self.layout,
            before_first=functools.partial(self._try_sample, source) if source in self.valid.values() else None,
        )

    def _try_sample(self, source: Source | Stream) -> None:
        """Once for each set of data: say where a sample depends on who loads it, and look at how it is collated."""
        if isinstance(source, Stream) or source.name in self._tried:
            return
        self._tried.add(source.name)
        trial = SampleTrial(source, self._seed)
        if trial.notice is not None:
            give_notice(trial.notice)
        if source is self.train and self._train.said.batch_transform is None:
            for samples, batch in trial.batches():
                self.layout.learn(batch, samples)

    # --- What goes with what

    def _opened(self, said: DataSource, name: str, reading: Reading) -> Opened:
        given = dataloader_parts(said.data, name) if isinstance(said.data, DataLoader) else None
        collate = said.collate_fn or (given.collate if given else None)
        prepared = prepare(given.dataset if given else said.data, collate, self._arguments, name)
        self._prepared = tuple(dict.fromkeys((*self._prepared, *prepared.notes)))
        data = as_data(prepared.data, name, replace(reading, collate=prepared.collate))
        _check_steps(said, data)
        return Opened(data, said, given)

    def _opened_for_evaluation(self, said: DataSource, name: str, *, target_needed: bool = True) -> Opened:
        if said.sampler is not None:
            raise DescriptionError(f"{name} has a sampler=, and an evaluation takes every sample once; leave it out.")
        if said.bucket_by is not None:
            raise DescriptionError(f"{name} has bucket_by=, and an evaluation takes samples in their own order; leave it out.")
        train, reading = self._train.said, self._reading
        _require_same_layout(said, train, name)
        own_target = said.target is not None and said.target != train.target
        said = said.inherit(train, "target", "collate_fn")
        reading = replace(reading, target=said.target, target_needed=target_needed)
        if own_target:
            reading = replace(reading, layout=None, names=None, target_is_inherited=False)
        elif said.collate_fn is not None:
            reading = replace(reading, names=None)
        return self._opened(said, name, reading)

    def _opened_like_validation(self, said: DataSource, name: str, *, target_needed: bool = True) -> Opened:
        said = said.inherit(self._said_of_validation(said), "transform", "batch_transform", "collate_fn", "target")
        return self._opened_for_evaluation(said, name, target_needed=target_needed)

    def _held_out(self, whole: Opened, said: DataSource) -> tuple[Opened, Opened]:
        share = said.data
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
        _require_same_layout(said, whole.said, "valid")
        rest, kept = held_out(whole.data, share, self._seed)
        source: Source | Stream = whole.data
        if any(one is not None for one in (said.target, said.collate_fn, said.sampler, said.bucket_by)):
            source = self._opened_for_evaluation(replace(said, data=whole.said.data), "train").data
        assert not isinstance(source, Stream)
        return whole._replace(data=rest), Opened(View(source, kept.picks), said, None)

    def _said_of_validation(self, data: DataSource) -> DataSource:
        """What all sets of validation data say; other data that is looked at is treated like them."""
        sets = [part.said for part in self._valid.values()]
        for name in ("transform", "batch_transform", "collate_fn", "target"):
            differ = any(getattr(said, name) is not getattr(sets[0], name) for said in sets[1:])
            if differ and getattr(data, name) is None:
                raise DescriptionError(
                    f"the validation sets differ in their {name}, so say which one this data has: data.source(data, {name}=…)."
                )
        return sets[0] if sets else DataSource(None)

    def _train_sampler(self, whole: Opened) -> Sampler | None:
        asked, given, data = whole.said.sampler, self._train.given, self._train.data
        if isinstance(data, Stream):
            if asked is not None:
                raise DescriptionError("sampler= chooses samples by index, and train is an iterable, which has its own order.")
            if whole.said.bucket_by is not None:
                raise DescriptionError("bucket_by= orders samples by index, and train is an iterable, which has its own order.")
            return None
        if whole.said.bucket_by is not None:
            if given is not None and given.sampler is not None:
                raise DescriptionError("bucket_by= is given, and train is a DataLoader with a sampler of its own; leave one out.")
            return buckets_for(whole.said.bucket_by, data)
        if asked is not None and given is not None and given.sampler is not None:
            raise DescriptionError("sampler= is given, and train is a DataLoader with a sampler of its own; leave one out.")
        chosen = by_name(asked) if asked is not None else given.sampler if given is not None else None
        if isinstance(data, View) and data is not whole.data and chosen is not None:
            chosen = _narrowed(chosen, data, whole)
        return sampler_for(chosen, data, shuffle=given is None or given.shuffle)

    def _for_evaluation(self, part: Opened) -> Source | Stream:
        """Every sample once, in the data's own order."""
        given, data = part.given, part.data
        if given is not None and not isinstance(data, Stream):
            if given.drop_last:
                give_notice(f"drop_last=True of {data.name} is not used: an evaluation takes every sample.")
            if isinstance(given.sampler, SubsetRandomSampler):
                chosen = checked(given.sampler.indices, len(data), data.name, f"the SubsetRandomSampler of {data.name}")
                data = View(data, Listed(torch.from_numpy(chosen)))
            elif given.sampler is not None:
                raise DescriptionError(
                    f"{data.name} is a DataLoader with a {type(given.sampler).__name__}, and an evaluation takes every sample "
                    "once; pass the data itself."
                )
        return _transformed(part._replace(data=data))

    def _workers(self, part: Opened) -> WorkerCount:
        if self._num_workers is not None:
            return self._num_workers
        return 0 if part.given is None else part.given.workers


def float_type(model: nn.Module) -> torch.dtype | None:
    """The type of a model's numbers; None where it has none, or several."""
    found = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return found.pop() if len(found) == 1 else None


def _argument(name: str, owner: str) -> str:
    """What the user would call a set of data: "valid", or "valid['a']"."""
    return name if name == owner else f"{owner}[{name.removeprefix(f'{owner}/')!r}]"


def _require_same_layout(said: DataSource, train: DataSource, name: str) -> None:
    for argument in ("batch_dim", "shared"):
        own, theirs = getattr(said, argument), getattr(train, argument)
        if own is not None and own != theirs:
            raise DescriptionError(
                f"{name} has {argument}={own!r}, and train has {argument}={theirs!r}; batches look the same for the model, "
                "so say it for train alone."
            )


def _check_steps(said: DataSource, data: Source | Stream) -> None:
    steps = said.steps_per_epoch
    if steps is not None and not isinstance(data, Stream):
        raise DescriptionError(
            f"steps_per_epoch={steps} is for iterables; {data.name} has {plural(len(data), 'sample')}, so the length of "
            "an epoch is known. Use max_steps= for a shorter run, or sampler= for other epochs."
        )


def _narrowed(chosen: Any, data: View, whole: Opened) -> Any:
    """A sampler that was made for all of the data, for what is left of it for training."""
    if not isinstance(chosen, Weighted | ClassBalanced) or isinstance(whole.data, Stream):
        raise DescriptionError(
            "a share of train is held out for validation, and sampler= names samples of all of it; "
            "pass data of its own as valid=."
        )
    return chosen.narrowed(data.picks.take(torch.arange(len(data))).numpy(), len(whole.data))


def _transformed(part: Opened) -> Source | Stream:
    transform: Transform | None = part.said.transform
    return part.data if transform is None else part.data.transformed(transform)


def _copied(data: Source | Stream, what: str) -> Source | Stream:
    return data.copied(what) if isinstance(data, Stream) else data


def _settings(part: Opened) -> WorkerSettings:
    return WorkerSettings() if part.given is None else part.given.settings


def _unsaid(text: str) -> None:
    """What is chosen for an evaluation is not worth a word."""
