"""The stage: a run's own updates for a rehearsal: its batches, their split, its keys, precision and clipping; counted nowhere."""

import copy
import itertools
from collections.abc import Generator, Iterator

from instep.data.loading.loader import Batch, Loader
from instep.data.pieces import piece
from instep.loop.batch_plan import Sizes
from instep.loop.out_of_memory import Overflow
from instep.loop.stepper import Player
from instep.loop.update import UpdateCycle
from instep.records import Done


def rehearsed(player: Player, loader: Loader, start: int, sizes: Sizes | None, overflow: Overflow) -> Generator[Done, None, None]:
    """The player's updates from step `start` on, without end; `loader` is one of its own, and closed at the end.

    Batches are cut by `sizes`, and finer where the run does that to what does not fit in memory. Without `sizes` each is one
    micro-batch, and an error is the caller's.

    The schedule is not asked. The cycle is a copy with flags of its own: on an accelerator a loss that is not finite is noticed
    one update late, and what a rehearsal left must not stop the run.
    """
    cycle, step_before = copy.copy(player.cycle), player.step
    try:
        for step, batch in enumerate(_from(loader, start), start):
            player.step = step
            if sizes is None:
                yield cycle.run([(0, batch.data)], player.objective)
                continue
            done, sizes = _fitted(cycle, player, batch, sizes, overflow)
            yield done
    finally:
        player.step = step_before
        loader.close()


def _fitted(cycle: UpdateCycle, player: Player, batch: Batch, sizes: Sizes, overflow: Overflow) -> tuple[Done, Sizes]:
    """An update, and the sizes with which it fits in memory."""
    if overflow.splits:
        overflow.keep(player)
    while True:
        try:
            own = sizes.spans(batch.samples)
            begin = own[0][0] if own else 0  # other processes may have what stands before
            pieces = ((first, piece(batch.data, first - begin, last - begin)) for first, last in own)
            return cycle.run(pieces, player.objective), sizes
        except (RuntimeError, MemoryError) as error:
            sizes = overflow.finer(error, sizes, batch, player)
        overflow.begin_again(player)  # where the error, and all that its frames hold, is gone


def _from(loader: Loader, start: int) -> Iterator[Batch]:
    length = loader.batches_per_epoch
    first_epoch, first_index = divmod(start, length) if length is not None else (0, start)  # a stream does not know its length
    for epoch in itertools.count(first_epoch):
        yield from loader.batches(epoch, first_index if epoch == first_epoch else 0)
