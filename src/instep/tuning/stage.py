"""The stage: a run's own updates for a rehearsal: its batches, their split, its keys, precision and clipping; counted nowhere."""

import copy
import itertools
from collections.abc import Callable, Generator, Iterator

from instep.data.loader import Batch, Loader
from instep.data.pieces import piece
from instep.player import Player
from instep.records import Done

Spans = Callable[[int], list[tuple[int, int]]]  # where the micro-batches of a batch of so many samples begin and end


def rehearsed(player: Player, loader: Loader, start: int, spans: Spans) -> Generator[Done, None, None]:
    """The player's updates from step `start` on, without end; `loader` is one of its own, and closed at the end.

    The schedule is not asked. The cycle is a copy with flags of its own: on an accelerator a loss that is not finite is noticed
    one update late, and what a rehearsal left must not stop the run.
    """
    cycle, step_before = copy.copy(player.cycle), player.step
    try:
        for step, batch in enumerate(_from(loader, start), start):
            player.step = step
            own = spans(batch.samples)
            begin = own[0][0] if own else 0  # other processes may have what stands before
            pieces = [(first, piece(batch.data, first - begin, last - begin)) for first, last in own]
            yield cycle.run(pieces, player.objective)
    finally:
        player.step = step_before
        loader.close()


def whole(samples: int) -> list[tuple[int, int]]:
    """A batch that is not split."""
    return [(0, samples)]


def _from(loader: Loader, start: int) -> Iterator[Batch]:
    length = loader.batches_per_epoch
    first_epoch, first_index = divmod(start, length) if length is not None else (0, start)  # a stream does not know its length
    for epoch in itertools.count(first_epoch):
        yield from loader.batches(epoch, first_index if epoch == first_epoch else 0)
