"""Rehearsal: a run's own updates for trying something out: its batches, their split, its keys, precision and clipping.

They are counted nowhere.
"""

import itertools
from collections.abc import Generator, Iterator
from functools import partial

from instep.data.loading.loader import Batch, Loader
from instep.loop.out_of_memory import Splitting
from instep.loop.stepper import Stepper
from instep.records import StepResult


def rehearse(
    stepper: Stepper, loader: Loader, start: int, splitting: Splitting, *, whole: bool
) -> Generator[StepResult, None, None]:
    """The stepper's updates from step `start` on, without end; `loader` is one of its own, and closed at the end.

    Batches are cut as in the run, and finer where the run does that to what does not fit in memory. With `whole` each is one
    micro-batch, and an error is the caller's.

    The schedule is not asked.
    """
    cycle, step_before = stepper.cycle.copy(), stepper.step
    run, pieces = splitting.runner(cycle), splitting.micro_batches.pieces
    try:
        for step, batch in enumerate(_batches_from(loader, start), start):
            stepper.step = step
            if whole:
                yield cycle.run([(0, batch.data)], stepper.objective)
                continue
            try:
                result = run(pieces(batch), stepper.objective, partial(stepper.expected_count, batch))
            except (RuntimeError, MemoryError) as error:
                explained = splitting.explain(error, batch)
                if explained is None:
                    raise
                raise stepper.error_place.place(explained, batch, stepper.name) from explained.__cause__
            yield result
    finally:
        stepper.step = step_before
        loader.close()


def _batches_from(loader: Loader, start: int) -> Iterator[Batch]:
    length = loader.batches_per_epoch
    first_epoch, first_index = divmod(start, length) if length is not None else (0, start)  # a stream does not know its length
    for epoch in itertools.count(first_epoch):
        yield from loader.batches(epoch, first_index if epoch == first_epoch else 0)
