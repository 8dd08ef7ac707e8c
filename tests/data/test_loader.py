"""Loaders: orders, batches from anywhere, whole batches transformed, and how many workers are worth it."""

import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from feeds import CPU, Noisy, Squares, assert_same, loader, read
from instep import keys
from instep.data import on
from instep.data.loading.loader import Loader
from instep.data.loading.worker_count import MEASURED, WARM_UP, choose
from instep.data.sources.recognize import as_source
from instep.errors import DataError, DescriptionError, Notice

Y = torch.arange(10)


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_sample_once_an_epoch_and_from_any_batch(drop_last: bool) -> None:
    made = loader(as_source(Y, "train"), drop_last=drop_last)
    epochs = [[batch.data.tolist() for batch in made.batches(epoch)] for epoch in range(3)]
    assert all(len({sample for batch in batches for sample in batch}) == (8 if drop_last else 10) for batches in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [batch.data.tolist() for batch in made.batches(1, start=1)] == epochs[1][1:]
    assert [len(batch) for batch in epochs[0]] == ([4, 4] if drop_last else [4, 4, 2])
    assert (made.samples, made.batches_per_epoch) == ((8, 2) if drop_last else (10, 3))


def test_evaluation_goes_in_the_datas_own_order() -> None:
    made = loader(as_source(Y, "valid"), shuffle=False)
    assert [batch.data.tolist() for batch in made.batches(0)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_less_than_one_batch() -> None:
    with pytest.raises(
        DescriptionError, match="drop_last=True leaves nothing of 10 samples of train in batches of 11; use a small"
    ):
        loader(as_source(Y, "train"), batch_size=11, drop_last=True)
    with pytest.raises(DescriptionError, match="leaves nothing of 1 sample of train in batches of 2"):
        loader(as_source(Y[:1], "train"), batch_size=2, drop_last=True)


def test_the_length_is_looked_at_as_an_epoch_begins() -> None:
    data = Squares(10)
    made = loader(as_source(data, "train"))
    list(made.batches(0))
    data.samples = 11
    with pytest.raises(DataError, match="train had 10 samples when the run was made, now it has 11"):
        list(made.batches(1))


# --- Whole batches


def noisy(batch: Tensor) -> Tensor:
    return batch + torch.rand(len(batch)) + random.random() + np.random.rand()


@pytest.mark.parametrize("workers", [0, 2])
def test_whole_batches_are_transformed_under_their_keys(workers: int) -> None:
    """From wherever one begins; and nothing else is disturbed."""
    data: Any = as_source(Squares(), "train").transformed(on(0, float)).transformed(lambda sample: float(sample[0]))
    made = loader(data, batch_transform=noisy, workers=workers)
    before = torch.random.get_rng_state()
    whole = read(made)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert_same(list(made.batches(1, 1)), whole[4:])
    made.close()
    plain = read(loader(data))
    with keys.fork_rng():
        keys.seed_all(keys.for_batch_transform(0, 1, 4))
        assert torch.equal(whole[4].data, noisy(plain[4].data))


def test_on_changes_one_entry() -> None:
    class Point:
        pass

    assert on(1, str)((1, 2)) == (1, "2")
    assert on("a", str)({"a": 1, "b": 2}) == {"a": "1", "b": 2}
    assert on(0, str)([1, 2]) == ["1", 2]
    with pytest.raises(DescriptionError, match=r"on\(0, 3\): this cannot be called"):
        on(0, 3)  # type: ignore[arg-type]


def test_on_keeps_records_and_named_tuples() -> None:
    from dataclasses import dataclass
    from typing import NamedTuple

    class Pair(NamedTuple):
        x: int
        y: int

    @dataclass
    class Record:
        x: int
        y: int

    assert on("x", str)(Pair(1, 2)) == Pair("1", 2)  # type: ignore[arg-type]
    assert on(1, str)(Pair(1, 2)) == Pair(1, "2")  # type: ignore[arg-type]
    assert on("y", str)(Record(1, 2)) == Record(1, "2")  # type: ignore[arg-type]


# --- How many workers


def test_a_choice_carries_its_reason() -> None:
    assert str(choose(1e-3, 0.1, cores=8)) == (
        "num_workers=0: a batch takes 1 ms to load and 100 ms to compute with, so loading costs next to nothing"
    )
    assert choose(0.01, 0.01, cores=1).workers == 0
    assert choose(0.01, 0.02, cores=8)[:2] == (
        1,
        "a batch takes 10 ms to load and 20 ms to compute with; 1 load as fast as it is computed",
    )
    assert choose(0.025, 0.01, cores=8).workers == 3
    few = choose(0.1, 0.0002, cores=4)
    assert few.workers == 3
    assert (
        few.reason == "a batch takes 100 ms to load and 200 µs to compute with, which would take more than the 4 cores there are"
    )


def test_measured_over_the_first_batches_and_the_same_ever_after(monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    monkeypatch.setattr(sys.modules[choose.__module__], "time", clock)

    class Slow(Noisy):
        def __getitem__(self, index: int) -> Any:
            clock.sleep(2e-3)
            return super().__getitem__(index)

    monkeypatch.setattr("instep.data.loading.worker_count.available_cores", lambda: 3)
    said: list[str] = []
    made = loader(as_source(Slow(48), "train"), workers="auto", say=said.append, epochs=2)
    batches = read(made)
    assert made.choice is not None
    assert made.choice.workers == 2
    assert [text.split(":")[0] for text in said] == ["num_workers=2"]
    assert_same(batches, read(loader(as_source(Noisy(48), "train"))))


def test_an_epoch_too_short_to_measure_is_measured_again() -> None:
    made = loader(as_source(Squares(8), "train"), workers="auto", say=lambda text: None)
    assert len(read(made, range(1))) == 2 < WARM_UP + MEASURED
    assert made.choice is None


def test_no_more_workers_than_batches_are_started() -> None:
    said: list[str] = []
    made = loader(as_source(Squares(8), "train"), workers=500, say=said.append)
    assert len(read(made, range(2))) == 4
    assert said == ["num_workers=2: 500 were asked for, and an epoch of train has 2 batches"]
    made.close()


def test_what_needs_no_measuring() -> None:
    assert loader(as_source(Y, "train"), workers="auto").choice == (0, "the data is in memory", False)
    assert loader(as_source(Y, "train"), workers=4).choice == (0, "the data is in memory", False)
    assert loader(as_source(Squares(), "train"), workers=3).choice == (3, "asked for", False)


def test_a_choice_is_said_as_a_notice_where_nobody_listens() -> None:
    with pytest.warns(Notice, match=r"num_workers=\d: a batch takes .* to load and .* to compute with"):
        read(loader(as_source(Squares(64), "train"), workers="auto"), range(1))


@pytest.mark.parametrize("workers", [-1, 1.5, True, "many"])
def test_numbers_of_workers_that_are_none(workers: Any) -> None:
    with pytest.raises(DescriptionError, match=r"num_workers=.* must be a whole number, 0 or more, or \"auto\""):
        loader(as_source(Y, "train"), workers=workers)


# --- Large data


class Billion(Squares):
    """10^9 samples that are computed."""

    def __init__(self) -> None:
        super().__init__(10**9)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_billion_samples_begin_at_once_in_constant_memory(workers: int) -> None:
    from instep.data.feed import Feed

    read(loader(as_source(Squares(64), "train"), workers=workers))  # what is loaded once is loaded now
    before = resident_bytes()
    begun = time.process_time()
    feed = Feed(Billion(), 0.1, seed=0, num_workers=workers)
    made = feed.train_loader(batch_size=64, device=CPU, epochs=3)
    first = next(made.batches(0))
    assert time.process_time() - begun < 1
    assert (feed.samples(64), first.samples) == (900_000_000, 64)
    for epoch, start in ((0, 0), (1, 7_000_000), (2, 14_000_000)):
        for _, batch in zip(range(40), made.batches(epoch, start), strict=False):
            assert len(set(batch.data[0].tolist())) == 64
    made.close()
    assert resident_bytes() - before < 16 * 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_beginning_in_the_middle_costs_what_beginning_costs() -> None:
    """Counted in samples that are loaded, not in seconds."""
    loaded: list[int] = []

    class Watching(Squares):
        def __getitem__(self, index: int) -> tuple[int, int]:
            loaded.append(index)
            return super().__getitem__(index)

    made: Loader = loader(as_source(Watching(1000), "train"))
    next(made.batches(5, 200))
    assert len(loaded) == 4


@pytest.mark.parametrize("raised", [SystemExit(2), GeneratorExit()], ids=["exit", "generator"])
def test_a_batch_transform_that_would_end_a_program_or_a_loop(raised: BaseException) -> None:
    def leave(batch: Any) -> Any:
        raise raised

    with pytest.raises(DataError, match=rf"batch 0 of epoch 0 of train cannot be transformed: {type(raised).__name__}"):
        read(loader(as_source(Y, "train"), batch_transform=leave))
