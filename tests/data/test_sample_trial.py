"""Data sets with a state of their own: found with one sample, said once, and nothing of it is touched."""

import random
import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, get_worker_info

from feeds import Noisy, Squares
from instep.data import source
from instep.data.feed import Feed
from instep.data.loading import sample_trial
from instep.errors import DescriptionError, Notice

CPU = torch.device("cpu")
RNG = np.random.default_rng(5)


def read(train: Any, valid: Any = None, **options: Any) -> list[str]:
    """What is said when the first batch is loaded; all sets are read twice."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        feed = Feed(train, valid, seed=0, **options)
        for _ in range(2):
            loaders = [feed.train_loader(batch_size=4, device=CPU), *feed.valid_loaders(batch_size=4, device=CPU).values()]
            for loader in loaders:
                next(loader.batches(0))
                loader.close()
    assert all(issubclass(one.category, Notice) for one in told)
    return [str(one.message) for one in told]


class Own(Squares):
    """Draws from a generator of its own."""

    def __init__(self, kind: str = "torch") -> None:
        super().__init__(12)
        made = {"torch": torch.Generator(), "numpy": np.random.default_rng(0), "legacy": np.random.RandomState(0)}
        self.rng: Any = made.get(kind, random.Random(0))
        self.seen: list[int] = []

    def __getitem__(self, index: int) -> Any:
        self.seen.append(index)
        if isinstance(self.rng, torch.Generator):
            return torch.rand(2, generator=self.rng), index
        return self.rng.random(), index


class Cached(Squares):
    """Keeps what it drew at random."""

    def __init__(self, samples: int = 12) -> None:
        super().__init__(samples)
        self.cache: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.cache:
            self.cache[index] = torch.randn(3)
        return self.cache[index], index


class CachedFile(Cached):
    """Keeps what is always the same: nothing to say."""

    def __getitem__(self, index: int) -> Any:
        if index not in self.cache:
            self.cache[index] = torch.full((3,), float(index))
        return self.cache[index] + torch.randn(3), index


class ByWorker(Squares):
    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return index, 0 if info is None else info.id + 1


class Global(Squares):
    def __getitem__(self, index: int) -> Any:
        return index, RNG.random()


class Rekeyed(Squares):
    """A generator of its own that is seeded for every sample from the global one."""

    def __init__(self) -> None:
        super().__init__(12)
        self.rng = torch.Generator()

    def __getitem__(self, index: int) -> Any:
        self.rng.manual_seed(int(torch.randint(2**31, ())))
        return torch.rand(2, generator=self.rng), index


class Jitter:
    def __init__(self) -> None:
        self.steps: list[Any] = [torch.nn.Identity(), Step()]

    def __call__(self, sample: Any) -> Any:
        for step in self.steps:
            sample = step(sample)
        return sample


class Step:
    def __init__(self) -> None:
        self.generator = torch.Generator()

    def __call__(self, sample: Any) -> Any:
        return sample[0] + torch.rand((), generator=self.generator), sample[1]


def counting_transform() -> Any:
    calls = [0]

    def transform(sample: Any) -> Any:
        calls[0] += 1
        return sample[0] * calls[0], sample[1]

    return transform


X = torch.ones(12, 2)
OTHER = "With another number of workers, or after the run was resumed, the samples are other ones."


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["torch", "numpy", "legacy", "python"])
def test_a_generator_of_its_own(kind: str, num_workers: int) -> None:
    data = Own(kind)
    state = sample_trial._state(data.rng)
    (said,) = read(data, num_workers=num_workers)
    assert said.startswith(
        f"train draws from Own.rng, a generator of its own, which every worker has for itself. {OTHER} Draw fr"
    )
    if num_workers:  # nothing was loaded here but in copies
        assert data.seen == []
        assert sample_trial._same(sample_trial._state(data.rng), state)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (Cached(), f"sample 0 of train depends on what was loaded before it, by Cached.cache, which loading changes. {OTHER}"),
        (
            ByWorker(12),
            f"sample 0 of train is another one in a worker: it depends on get_worker_info(), or on the clock. {OTHER}",
        ),
        (Global(12), "train draws from a global Generator, a generator of its own"),
        (source((X, X), transform=Jitter()), "train draws from Jitter.steps.1.generator, a generator of its own"),
        (
            source((X, X), transform=counting_transform()),
            "sample 0 of train depends on what was loaded before it, by function.cal",
        ),
        (
            Subset(Cached(), [7, 3, 5, 1]),
            "sample 7 of train depends on what was loaded before it, by Cached.cache, which loading",
        ),
    ],
)
def test_what_is_said(data: Any, words: str) -> None:
    state = RNG.bit_generator.state
    (said,) = read(data, num_workers=2)
    assert said.startswith(words)
    assert RNG.bit_generator.state == state


@pytest.mark.parametrize(
    "data",
    [
        Squares(12),
        Noisy(12),
        CachedFile(12),
        Rekeyed(),
        (X, X),
        source((X, X), transform=lambda sample: (sample[0] + torch.randn(2), sample[1])),
        source((X, X), collate_fn=torch.utils.data.default_collate),
        DataLoader(Noisy(12), batch_size=4),
        [(float("nan"), "a", b"b", None, {"x": np.float32(1)})] * 12,
    ],
)
def test_nothing_is_said_of_data_that_is_keyed(data: Any) -> None:
    assert read(data, num_workers=None if isinstance(data, DataLoader) else 0) == []


def test_validation_data_is_tried_too() -> None:
    (said,) = read((X, X), Own())
    assert said.startswith("valid draws from Own.rng")


def test_large_data_is_looked_at_and_not_copied() -> None:
    data = Own()
    vars(data)["pixels"], vars(data)["files"] = np.zeros(20_000_000), [(str(i), i) for i in range(200_000)]
    begun = time.process_time()  # what others do on the machine does not count
    assert len(read(data)) == 1
    assert time.process_time() - begun < 2


def test_what_is_slow_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []

    class Slow(Own):
        def __getitem__(self, index: int) -> Any:
            loads.append(index)
            time.sleep(0.02)
            return super().__getitem__(index)

    monkeypatch.setattr(sample_trial, "SLOW_S", 0.01)
    assert read(Slow(), num_workers=1) == []
    assert len(loads) == 1
    monkeypatch.setattr(sample_trial, "SLOW_S", 10)
    loads.clear()
    assert len(read(Slow(), num_workers=1)) == 1
    assert len(loads) == 4


@pytest.mark.parametrize("attribute", [(i for i in range(3)), torch.zeros(40_000_000, dtype=torch.int32)], ids=["open", "large"])
def test_what_cannot_be_copied_is_not_tried(attribute: Any) -> None:
    data = Own()
    vars(data)["held"] = attribute
    assert read(data) == []


def test_what_fails_is_left_to_the_loading() -> None:
    class Broken(Squares):
        def __getitem__(self, index: int) -> Any:
            raise KeyError(index)

    assert sample_trial.SampleTrial(Feed(Broken(12), seed=0).train, 0).notice is None  # type: ignore[arg-type]


# --- Batches of two and three samples


def with_weights(samples: list[Any]) -> Any:
    """Weights for four classes, in batches of four samples."""
    return {"x": torch.stack([x for x, _ in samples]), "weights": torch.ones(4)}


def test_a_column_that_has_as_many_entries_as_the_batch_by_chance() -> None:
    feed = Feed(source([(x, 0) for x in X], collate_fn=with_weights), seed=0)
    batch = next(feed.train_loader(batch_size=4, device=CPU).batches(0))
    with pytest.raises(DescriptionError, match=r"its entry 'weights' has the shape \(4,\) whatever the number of samples"):
        feed.layout.require(batch.data, 4, "train")


def test_a_collate_function_that_does_not_take_two_of_a_sample() -> None:
    def unique(samples: list[Any]) -> Any:
        return torch.stack(list({int(i): torch.ones(2) * i for _, i in samples}.values()), 0)

    feed = Feed(source([(x, i) for i, x in enumerate(X)], collate_fn=unique), seed=0)
    batch = next(feed.train_loader(batch_size=4, device=CPU).batches(0))
    assert batch.data.shape == (4, 2)


class Stored(torch.utils.data.Dataset[Any]):
    """Gives views of what it holds."""

    def __init__(self) -> None:
        self.x = torch.arange(12.0)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], index


def test_a_transform_that_writes_into_the_data_set_is_told() -> None:
    def add_in_place(sample: Any) -> Any:
        sample[0].add_(1.0)
        return sample

    (text,) = read(source(Stored(), transform=add_in_place))
    assert "sample 0 of train depends on what was loaded before it, by Stored.x, which loading changes" in text
    assert "let no transform write into what the data set holds: work on a copy" in text
    assert read(source(Stored(), transform=lambda sample: (sample[0] + 1.0, sample[1]))) == []
