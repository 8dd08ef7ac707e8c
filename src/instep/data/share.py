"""Shares: which samples of a batch a process takes. Pure functions of the batch's size, the same on every process.

A batch is cut as `torch.tensor_split` cuts it, into min(processes · update_cycle, n) contiguous pieces, and the pieces go to the
processes in contiguous groups: so two processes have the pieces of an update cycle of two. An evaluation deals whole batches.
Everything costs what a process's own pieces cost, however many processes there are.
"""

from typing import NamedTuple, Protocol

Span = tuple[int, int]  # from, and up to but not including


class Share(Protocol):
    """What of a batch is loaded here."""

    def part(self, index: int, samples: int) -> Span:
        """The samples to take of the batch with this index that has so many; an empty span for none of them."""


class Part(NamedTuple):
    """The share of one of several processes in the batches that are trained on."""

    rank: int = 0
    processes: int = 1
    update_cycle: int = 1
    micro_batch_size: int | None = None

    def pieces(self, samples: int) -> int:
        """How many pieces a batch of so many samples is cut into, over all processes."""
        if self.micro_batch_size is None:
            return min(self.processes * self.update_cycle, samples)
        # As many for each process, so that none waits for another; each of at most micro_batch_size.
        each = -(-samples // (self.micro_batch_size * self.processes))
        return min(each * self.processes, samples)

    def spans(self, samples: int) -> list[Span]:
        """Where the pieces of this process begin and end in the batch; none where there are fewer pieces than processes."""
        count = self.pieces(samples)
        first, last = self._group(count)
        return [(start_of(piece, samples, count), start_of(piece + 1, samples, count)) for piece in range(first, last)]

    def part(self, index: int, samples: int) -> Span:
        count = self.pieces(samples)
        first, last = self._group(count)
        return start_of(first, samples, count), start_of(last, samples, count)

    def _group(self, count: int) -> Span:
        """Of so many pieces, those of this process."""
        groups = min(self.processes, count)
        if self.rank >= groups:
            return count, count
        return start_of(self.rank, count, groups), start_of(self.rank + 1, count, groups)


class Dealt(NamedTuple):
    """Whole batches in turn, as evaluations take them: every batch is that of one process, so is every number of it."""

    rank: int
    processes: int

    def part(self, index: int, samples: int) -> Span:
        return (0, samples) if index % self.processes == self.rank else (0, 0)


def start_of(piece: int, length: int, count: int) -> int:
    """Where a piece of `count` begins: the first `length % count` pieces have one more than the others."""
    each, longer = divmod(length, count) if count else (0, 0)
    return piece * each + min(piece, longer)
