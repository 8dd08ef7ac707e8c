"""The batch-size search: the largest micro-batch that fits, how fast each size is, and how to reach the wanted effective batch.

`find_batch_size` makes it on a run and leaves no trace; `BatchSizeSearch` is its result. It changes nothing about the run: which
micro-batch to use is for whoever reads it to say.
"""

import json
import math
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Literal, get_args

from instep.errors import DescriptionError, InstepError
from instep.loop.batch_plan import needs_two, require_whole
from instep.records import StepResult
from instep.text import bar, coloured, columns, many, plain, size, wrapped
from instep.tuning import pace, resident, trying
from instep.tuning.measuring import Measuring, largest_within
from instep.tuning.pace import Paced
from instep.tuning.rehearsal import Rehearsal, require_one_optimizer
from instep.tuning.snapshot import untouched
from instep.tuning.trying import Tried

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from instep.drawing.chart import Chart

How = Literal["trying", "measuring"]
BARS = 24  # characters
STYLES = {"": lambda _: "cyan", " ": lambda _: "green"}


@dataclass(frozen=True)
class BatchSizeSearch:
    """The largest micro-batch that fits in memory, and which `update_cycle` to use with it.

        search = trainer.find_batch_size()
        print(search)
        search.largest, search.update_cycle      # Trainer(…, update_cycle=search.update_cycle) for the same effective batch

    `largest` is 0 where not even the smallest micro-batch fits. `knee` is the smallest size that is nearly as fast as any.

    >>> BatchSizeSearch(48, "trying", "50 did not fit.", batch_size=128, tried=(), paces=()).advice
    'batch_size=128 fits with update_cycle=3, in micro-batches of 43.'
    """

    largest: int
    how: How
    reason: str
    batch_size: int  # the effective batch that the run wants
    tried: tuple[Tried, ...]
    paces: tuple[Paced, ...]
    memory_bytes: int | None = None  # what it had to fit into, where that is a number
    peak_bytes: int | None = None  # what the whole process held at its peak, with the largest

    @property
    def knee(self) -> int | None:
        """From this size on, more samples at once are hardly faster; None where nothing was timed."""
        return pace.knee(self.paces)

    @property
    def update_cycle(self) -> int | None:
        """The number of micro-batches that `batch_size` has to be split into; None where nothing fits."""
        return -(-self.batch_size // self.largest) if self.largest else None

    @property
    def advice(self) -> str:
        """Which arguments train with the `batch_size` of the run."""
        if self.update_cycle is None:
            return "nothing fits: use a smaller model, half precision, or a machine with more memory."
        if self.update_cycle == 1:
            return f"batch_size={self.batch_size} fits at once: update_cycle=1."
        pieces = -(-self.batch_size // self.update_cycle)
        return f"batch_size={self.batch_size} fits with update_cycle={self.update_cycle}, in micro-batches of {pieces}."

    def to_json(self) -> str:
        """Everything as JSON."""
        return json.dumps({**asdict(self), "knee": self.knee, "update_cycle": self.update_cycle, "advice": self.advice})

    def __repr__(self) -> str:
        return f"BatchSizeSearch(largest {self.largest}: {self.reason} {self.advice})"

    def chart(self) -> "Chart":
        """What is drawn: samples a second over the sizes that were timed, and the knee."""
        from instep.tuning.chart import pace_chart

        if not self.paces:
            raise DescriptionError("no size was timed, so there is nothing to draw; search with paces=True.")
        return pace_chart(self.paces, self.knee, f"largest micro-batch: {self.largest:,} samples; {self.reason} {self.advice}")

    def plot(self, *, ax: "Axes | None" = None) -> "Figure":
        """Draws it with matplotlib, on `ax` or in a figure of its own; returns the figure."""
        from instep.drawing.figure import plot

        return plot([self.chart()], "batch_size_search.plot()", ax=ax)

    def _repr_html_(self) -> str:
        from instep.drawing.html import block, paragraph, pictures

        said = paragraph(f"largest micro-batch: {self.largest:,} samples; {self.reason}") + paragraph(self.advice)
        return block(pictures([self.chart()] if self.paces else []), said)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, width: int = 80, colour: bool = False) -> str:
        """The largest size and why, how fast each one is, and what to use."""
        paint = coloured if colour else plain
        lines = [paint(line, "bold") for line in wrapped(f"largest micro-batch: {self.largest:,} samples; {self.reason}", width)]
        if self.paces:
            best = max(paced.samples_per_s for paced in self.paces)
            rows = [
                (
                    f"{p.samples:,}",
                    many(p.samples_per_s),
                    bar(p.samples_per_s / best, BARS),
                    "knee" * (p.samples == self.knee),
                )
                for p in self.paces
            ]
            lines += ["", *columns(("samples", "samples/s", "", " "), rows, left=("", " "), paint=paint, styles=STYLES)]
        return "\n".join([*lines, "", *wrapped(self.advice, width)])


def find_batch_size(
    run: Rehearsal,
    *,
    memory_bytes: float | None = None,
    margin: float = 0.1,
    most: int | None = None,
    how: How | Literal["auto"] = "auto",
    paces: bool = True,
) -> BatchSizeSearch:
    """The largest micro-batch that fits in memory: on an accelerator by trying, on a CPU by measuring what the process holds.

    On a CPU `memory_bytes` is what the whole process may hold; without it, what the machine has free. `margin` is the share that
    is left free. No size above `most` is looked at, nor above the number of training samples. `paces` also times updates over
    sizes. Everything is put back afterwards, also after an exception or a Ctrl-C.
    """
    require_one_optimizer(run)
    chosen = _checked(run, memory_bytes, margin, most, how)
    most = min(run.samples, most or run.samples)
    least = min(2, most)  # BatchNorm takes no single sample
    with untouched(run.model, run.optimizer, *run.stateful, on_host=run.device.type != "cpu") as kept:
        if chosen == "trying":
            found = _by_trying(run, least, most, margin)
        else:
            budget, whose = _budget(memory_bytes)
            found = _by_measuring(run, least, most, budget * (1 - margin), whose, kept.size_bytes)
            found = replace(found, memory_bytes=round(budget))
        if paces:
            sizes = pace.sizes_up_to(found.largest, least)
            found = replace(found, paces=tuple(pace.timed(partial(_updates, run), samples, run.device) for samples in sizes))
    return found


def _by_trying(run: Rehearsal, least: int, most: int, margin: float) -> BatchSizeSearch:
    tried = trying.largest_fitting(
        lambda samples: trying.fits(lambda: _updates(run, samples), run.device), least=least, most=most
    )
    fitting = max((one.samples for one in tried if one.fits), default=0)
    failed = min((one.samples for one in tried if not one.fits), default=None)
    if failed is None:
        reason = f"{fitting:,} is all there is to try, and it went through on {run.device}."
    elif not fitting:
        reason = f"not even {failed:,} went through on {run.device}."
    else:
        reason = f"{fitting:,} went through on {run.device} and {failed:,} did not; {margin:.0%} are left free."
    largest = fitting if failed is None else max(int(fitting * (1 - margin)), min(fitting, least))
    return BatchSizeSearch(largest, "trying", reason, run.batch_size, tuple(tried), ())


def _by_measuring(run: Rehearsal, least: int, most: int, budget: float, whose: str, aside_bytes: int) -> BatchSizeSearch:
    measuring = Measuring(partial(_updates, run), run.optimizer, aside_bytes)
    tried = largest_within(budget, measuring.peak_bytes, least=least, most=most)
    best = max((one for one in tried if one.fits), key=lambda one: one.samples, default=tried[0])
    peak_bytes = best.peak_bytes or 0
    if not best.fits:
        reason = f"{least} samples take {size(peak_bytes)}, more than fit into {whose}."
    elif best.samples == most:
        reason = f"that is all there is to try, and the process held {size(peak_bytes)} of {whose}."
    else:
        reason = f"with it the process held {size(peak_bytes)} at its peak; more would not fit into {whose}."
    largest = best.samples if best.fits else 0
    return BatchSizeSearch(largest, "measuring", reason, run.batch_size, tuple(tried), (), peak_bytes=peak_bytes)


def _updates(run: Rehearsal, samples: int) -> Generator[StepResult, None, None]:
    return run.rehearse(0, samples=samples)


def _budget(memory_bytes: float | None) -> tuple[float, str]:
    """How much memory there is, and in words whose."""
    if memory_bytes is not None:
        return memory_bytes, f"memory_bytes={size(memory_bytes)}"
    found = resident.available_bytes()
    if found is None:
        raise InstepError("how much memory is free is not known on this system; pass memory_bytes=, such as memory_bytes=8e9.")
    return found, f"the {size(found)} that this process may hold"


def _checked(run: Rehearsal, memory_bytes: float | None, margin: float, most: int | None, how: str) -> How:
    if most is not None:
        require_whole("most", most, least=1)
        if most == 1 and needs_two(run.model):
            raise DescriptionError("most=1 leaves one sample, and the model has BatchNorm, which needs two; use most=2 or more.")
    if memory_bytes is not None:
        _check_memory(memory_bytes)
    if not 0 <= margin < 1:
        raise DescriptionError(
            f"margin={margin} is no share of the memory to leave free; use one from 0 to below 1, such as 0.1."
        )
    if how not in ("auto", *get_args(How)):
        raise DescriptionError(f'how={how!r} is not known; use "trying", "measuring" or "auto".')
    on_cpu = run.device.type == "cpu"
    chosen: How = "measuring" if how == "measuring" or (how == "auto" and on_cpu) else "trying"
    if chosen == "measuring" and not on_cpu:
        raise DescriptionError(f'how="measuring" counts what a CPU holds, and the run is on {run.device}; use how="trying".')
    if chosen == "trying" and memory_bytes is not None:
        raise DescriptionError(
            f"memory_bytes={memory_bytes:g} is for a CPU; on {run.device} the memory is what there is: use margin=."
        )
    return chosen


def _check_memory(memory_bytes: object) -> None:
    if isinstance(memory_bytes, bool) or not isinstance(memory_bytes, Real) or not 0 < float(memory_bytes) < math.inf:
        said = memory_bytes if isinstance(memory_bytes, Real) else repr(memory_bytes)
        raise DescriptionError(f"memory_bytes={said} is no size of a memory; use for example memory_bytes=8e9 for 8 GB.")
