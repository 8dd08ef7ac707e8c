"""Micro-batches: how each batch of a run is cut, in training and in evaluation, and finer from where that did not fit in memory.

The one owner of the finer split: it is kept when a run is resumed.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from instep.data.batch_layout import BY_SAMPLE, BatchLayout
from instep.data.loading.loader import Batch, sent_batch
from instep.distributed.processes import Processes
from instep.loop.batch_plan import BatchPlan


class Pieces:
    """The pieces of one batch: cut when they are asked for, so that a second pass has them by a finer plan."""

    __slots__ = ("_micro_batches", "batch")

    def __init__(self, micro_batches: "MicroBatches", batch: Batch) -> None:
        self._micro_batches = micro_batches
        self.batch = batch

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self._micro_batches.cut(self.batch)


class MicroBatches:
    """Cuts batches by a plan; `evaluation` is how many samples an evaluation takes at once where more did not fit.

    `is_fixed` where the plan stays what it is: then a batch in one piece needs no cutting. `layout` says where its samples stand.
    """

    def __init__(
        self,
        plan: BatchPlan,
        processes: Processes,
        device: torch.device,
        *,
        is_fixed: bool,
        layout: BatchLayout = BY_SAMPLE,
    ) -> None:
        self.plan = plan
        self._layout = layout
        self._checked: set[int] = set()  # numbers of samples of batches that were looked at
        self._is_fixed = is_fixed and not processes.are_several
        self.evaluation: int | None = None
        self._processes = processes
        self._device = device

    def pieces(self, batch: Batch) -> Iterable[tuple[int, Any]]:
        """The pieces of a batch that are computed here, each with its offset in the batch. Can be read more than once."""
        spans = self.plan.spans(batch.samples)
        if self._is_fixed and len(spans) == 1:
            return ((spans[0][0], batch.data),)
        return self._processes.fill_up(Pieces(self, batch), self.plan.part, batch.samples, self._layout)

    def are_several(self, batch: Batch) -> bool:
        """Whether a batch is cut, as the plan is now."""
        return len(self.plan.spans(batch.samples)) > 1

    def cut(self, batch: Batch) -> Iterator[tuple[int, Any]]:
        """The pieces as the plan is now."""
        spans = self.plan.spans(batch.samples)
        first = spans[0][0] if spans and not batch.on_host else 0  # other processes may have what stands before
        self._check(batch, spans)
        for start, stop in spans:
            if batch.on_host:
                yield start, sent_batch(self._layout.piece(batch.data, start, stop), self._device)
            elif len(spans) == 1:
                yield start, batch.data
            else:
                yield start, self._layout.piece(batch.data, start - first, stop - first)

    def _check(self, batch: Batch, spans: list[tuple[int, int]]) -> None:
        """That this batch can be cut. Once for every number of samples: a column may fit one of them by chance."""
        samples, is_cut = len(batch.indices), len(spans) > 1
        if samples and samples not in self._checked and (is_cut or self._processes.are_several):
            self._checked.add(samples)
            self._layout.require(batch.data, samples, "train", first_only=not is_cut)

    def copy(self) -> "MicroBatches":
        """One of its own for updates that are only tried out."""
        return copy.copy(self)

    def state(self) -> dict[str, int | None]:
        """What a checkpoint keeps."""
        return {"training": self.plan.largest, "evaluation": self.evaluation}

    def restore(self, state: Mapping[str, int | None]) -> None:
        self.plan, self.evaluation = replace(self.plan, largest=state.get("training")), state.get("evaluation")
