"""Sizes: how long a run is, how large its batches and micro-batches are, and when it evaluates; all checked before it begins."""

from dataclasses import field, replace

from torch import nn

from instep.data.pieces import bounds
from instep.data.share import Part
from instep.errors import DescriptionError
from instep.loop.interval import parse_interval
from instep.records import record_class
from instep.text import plural

EvaluateEvery = int | str | None


@record_class
class BatchPlan:
    """The sizes of a run, as asked for; what does not fit together is an error at once."""

    samples: int  # in the training data
    batch_size: int
    update_cycle: int = 1
    micro_batch_size: int | None = None
    drop_last: bool = False
    epochs: int | None = None
    max_steps: int | None = None
    rank: int = 0
    processes: int = 1
    fewest: int = 1  # samples in a micro-batch that was split finer; BatchNorm needs two
    largest: int | None = None  # samples in a micro-batch, where more did not fit in memory
    takes_all: bool = False  # this process computes the micro-batches of all `processes`, one after the other
    _spans: dict[int, list[tuple[int, int]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("batch_size", "update_cycle"):
            require_whole(name, getattr(self, name), least=1)
        for name, least in (("micro_batch_size", 1), ("epochs", 0), ("max_steps", 0)):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), least=least)
        if self.micro_batch_size is not None and self.update_cycle != 1:
            raise DescriptionError(
                f"update_cycle={self.update_cycle} and micro_batch_size={self.micro_batch_size} both say how to split a batch; "
                "leave one out."
            )
        if self.update_cycle > self.batch_size:
            raise DescriptionError(
                f"update_cycle={self.update_cycle} cannot split batch_size={self.batch_size}: use at most {self.batch_size}. "
                "update_cycle is gradient accumulation: it divides batch_size, which counts all samples of an update."
            )
        if self.processes > self.batch_size:
            raise DescriptionError(
                f"batch_size={self.batch_size} is less than one sample for each of {self.processes} processes; it counts all of "
                f"them together: use batch_size={self.processes} or more, or fewer processes."
            )
        if self.processes * self.update_cycle > self.batch_size:
            raise DescriptionError(
                f"update_cycle={self.update_cycle} on {self.processes} processes cannot split batch_size={self.batch_size}: use "
                f"at most update_cycle={self.batch_size // self.processes}."
            )
        if self.epochs is None and self.max_steps is None:
            raise DescriptionError("how long to train is not said; pass epochs= or max_steps=.")
        if self.drop_last and self.samples < self.batch_size:
            raise DescriptionError(
                f"drop_last=True leaves nothing of {plural(self.samples, 'sample')} in batches of {self.batch_size}; "
                "use a smaller batch_size."
            )

    @property
    def steps_per_epoch(self) -> int:
        return self.samples // self.batch_size if self.drop_last else -(-self.samples // self.batch_size)

    @property
    def total_steps(self) -> int:
        asked = (None if self.epochs is None else self.epochs * self.steps_per_epoch, self.max_steps)
        return min(length for length in asked if length is not None)

    @property
    def epochs_begun(self) -> int:
        """How many epochs the run enters; the last may be cut short by `max_steps`."""
        return -(-self.total_steps // self.steps_per_epoch)

    @property
    def last_batch(self) -> int:
        """The size of an epoch's last batch."""
        return self.samples - (self.steps_per_epoch - 1) * self.batch_size if not self.drop_last else self.batch_size

    def spans(self, samples: int) -> list[tuple[int, int]]:
        """Where the micro-batches of a batch of so many samples begin and end: those that this process computes."""
        spans = self._spans.get(samples)
        if spans is None:
            is_alone = self.largest is not None or self.takes_all  # a finer split is for one process only
            spans = bounds(samples, self._pieces(samples)) if is_alone else self.part.spans(samples)
            self._spans[samples] = spans
        return spans

    @property
    def part(self) -> Part:
        """The share of this process in every batch."""
        return Part(self.rank, self.processes, self.update_cycle, self.micro_batch_size)

    def pieces(self, samples: int) -> tuple[int, ...]:
        """The sizes of all micro-batches of a batch, over all processes."""
        return tuple(stop - start for start, stop in bounds(samples, self._pieces(samples)))

    def _pieces(self, samples: int) -> int:
        count = self.part.pieces(samples)
        return count if self.largest is None else max(count, min(-(-samples // self.largest), samples // self.fewest))

    def halved(self, samples: int) -> "BatchPlan | None":
        """With micro-batches half as large as those of a batch of so many samples; None where it cannot be split finer."""
        largest = -(-max(self.pieces(samples)) // 2)
        finer = replace(self, largest=largest if self.largest is None else min(largest, self.largest))
        return None if finer.spans(samples) == self.spans(samples) else finer

    def require_no_lonely_sample(self, model: nn.Module) -> None:
        """BatchNorm cannot take the statistics of one sample; torch would raise in the middle of an epoch."""
        if not needs_two(model):
            return
        for samples in self._batch_sizes_met():
            if 1 in self.pieces(samples):
                raise DescriptionError(
                    f"a batch of {plural(samples, 'sample')} has a micro-batch of one, and the model has BatchNorm, which "
                    "needs two or more; use another batch_size or split, or drop_last=True."
                )

    def _batch_sizes_met(self) -> set[int]:
        """The sizes of the batches that the run really has."""
        if self.total_steps == 0:
            return set()
        reaches_the_last = self.total_steps >= self.steps_per_epoch
        return {min(self.batch_size, self.samples), *([self.last_batch] if reaches_the_last else [])}

    def evaluation_step(self, every: EvaluateEvery) -> int | None:
        """After how many updates an evaluation is due; None for never."""
        interval = parse_interval(every, self.steps_per_epoch)
        if interval is not None and interval.seconds is None:
            return interval.updates
        raise DescriptionError(
            f'evaluate_every={every!r} is not known; use "epoch", "2 epochs", a number of updates like 500, or None for never.'
        )

    def swa_start(self, start: object) -> int:
        """After how many updates the weights begin to be averaged: a number counts epochs."""
        if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
            return start * self.steps_per_epoch
        interval = parse_interval(start, self.steps_per_epoch) if isinstance(start, str) else None
        if interval is None or interval.updates is None:
            raise DescriptionError(
                f"swa={start!r} does not say from which epoch on the weights are averaged; use a whole number (the first epoch "
                'is 0), or updates like "500 updates".'
            )
        return interval.updates

    def swa_interval(self, every: object) -> int:
        """After how many updates each the weights are averaged."""
        interval = parse_interval(every, self.steps_per_epoch)
        if interval is None or interval.updates is None:
            raise DescriptionError(f'swa_every={every!r} is not known; use "epoch", "2 epochs" or a number of updates like 500.')
        return interval.updates


def needs_two(model: nn.Module) -> bool:
    """Whether a micro-batch of one sample is too small: in two and three dimensions one image has statistics of its own."""
    return any(isinstance(module, nn.BatchNorm1d) and module.training for module in model.modules())


def require_whole(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise DescriptionError(f"{name}={value!r} must be a whole number, {least} or more.")
