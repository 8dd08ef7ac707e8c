"""A look at the data of a run (a range test, a dry run, a preview, an example, counting) leaves it where it was."""

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

import instep
from instep import Trainer
from instep.errors import DescriptionError
from tiny import X, Y, make, net, weights


class Counted(IterableDataset[Any]):
    """Gives other samples in every pass, and counts them."""

    def __init__(self, length: int | None = 48) -> None:
        self.passes, self.length = 0, length

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        for index in range(48):
            yield X[index] + self.passes, Y[index]

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError
        return self.length


class Stated(IterableDataset[Any]):
    """Says where it stands and goes there, and is read by nobody but its run: a second iterator takes its samples away."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < 48:
            self.at += 1
            yield X[self.at - 1], Y[self.at - 1]
        self.at = 0

    def __len__(self) -> int:
        return 48

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Open(Counted):
    """Holds what cannot be copied."""

    def __init__(self, length: int | None = 48) -> None:
        super().__init__(length)
        self.lines = (line for line in "abc")


LOOKS: dict[str, Callable[[Trainer], object]] = {
    "find_lr": lambda trainer: trainer.find_lr(steps=20, repeats=1),
    "find_batch_size": lambda trainer: trainer.find_batch_size(paces=False, most=16, memory_bytes=64e9),
    "dry_run": lambda trainer: trainer.dry_run(),
    "preview": instep.preview,
    "example": lambda trainer: trainer.run.example(),
}


def trained(train: Any, look: Callable[[Trainer], object] | None = None, at: int | None = 4, **changes: Any) -> Tensor:
    """The weights after two epochs, with a look before the first update or inside the loop."""
    model = net()
    trainer = make(model, train=train, valid=changes.pop("valid", None), epochs=2, **changes)
    if look is not None and at is None:
        look(trainer)
    for update in trainer.updates():
        if look is not None and update.step == at:
            look(trainer)
    return weights(model)


@pytest.mark.parametrize("at", [None, 1], ids=["before", "inside"])
@pytest.mark.parametrize("kind", [Counted, Stated])
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.filterwarnings("ignore:.*cannot say where it stands")
def test_an_iterable_is_left_where_it_was(look: str, kind: type[Any], at: int | None) -> None:
    assert torch.equal(trained(kind(), LOOKS[look], at), trained(kind()))


@pytest.mark.parametrize("look", ["dry_run", "preview"])
def test_so_is_one_to_validate_on(look: str) -> None:
    read = Counted()
    made = make(valid=read)
    LOOKS[look](made)
    assert read.passes == 0


def test_counting_reads_a_copy() -> None:
    read = Counted(None)
    assert make(train=read).samples == 48
    assert read.passes == 0
    assert make(train=Passes().rows).samples == 48


class Passes:
    def __init__(self) -> None:
        self.passes = 0

    def rows(self) -> Iterator[Any]:
        self.passes += 1
        yield from zip(X[:48], Y[:48], strict=True)


def test_a_function_that_counts_its_passes_is_not_called_by_a_look() -> None:
    method = Passes()
    trainer = make(train=method.rows, epochs=1)
    for look in LOOKS.values():
        look(trainer)
    assert method.passes == 0
    trainer.fit()
    assert method.passes == 1


@pytest.mark.parametrize(
    ("look", "words"),
    [
        ("find_lr", r"find_lr\(\) or find_batch_size\(\) reads a copy of train, an iterable, so that the run finds it where it"),
        (
            "dry_run",
            r"dry_run\(\) reads a copy of train, an iterable.* cannot be copied: TypeError: cannot pickle 'generator'",
        ),
        ("preview", r"preview\(\) reads a copy of train, an iterable.*Pass the function that makes the iterator, or a Dataset w"),
        ("example", r"an example of a batch reads a copy of train, an iterable"),
    ],
)
def test_what_cannot_be_copied_is_not_looked_at(look: str, words: str) -> None:
    read = Open()
    trainer = make(train=read)
    with pytest.raises(DescriptionError, match=words):
        LOOKS[look](trainer)
    assert read.passes == 0
    trainer.fit()


def test_what_cannot_be_copied_is_not_counted() -> None:
    with pytest.raises(DescriptionError, match=r"counting its samples, as it has no __len__, reads a copy of train, an iterable"):
        make(train=Open(None))


# --- Processes and threads


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> Any:
        return X[index], Y[index]


@pytest.mark.parametrize("look", ["dry_run", "example", "find_lr"])
@pytest.mark.parametrize("kind", [Rows, Counted])
def test_no_process_and_no_thread_is_left(look: str, kind: type[Any]) -> None:
    trainer = make(train=kind(), valid=kind(), num_workers=2 if kind is Rows else 1)
    threads = set(threading.enumerate())
    LOOKS[look](trainer)
    assert multiprocessing.active_children() == []
    for thread in set(threading.enumerate()) - threads:
        thread.join(timeout=60)  # one that is ending may still be there
        assert not thread.is_alive(), thread


def test_nor_after_an_error() -> None:
    def fail(output: Tensor, target: Tensor) -> Tensor:
        raise KeyError("mine")

    trainer = make(train=Rows(), num_workers=2, loss=None, objective=lambda model, batch: fail(*batch))
    with pytest.raises(KeyError, match="mine"):
        trainer.dry_run()
    assert multiprocessing.active_children() == []
