"""Where an update went wrong, for a person who has to find the sample."""

import torch
from torch import Tensor, nn

from instep.data.loading.loader import Batch, Loader
from instep.errors import InstepError, NonFiniteGradient, NonFiniteLoss, OutOfMemory
from instep.loop.out_of_memory import Splitting


class ErrorPlace:
    """Puts the step, the batch and its samples into the errors of one run's updates. `rank` is None in a run of one process."""

    def __init__(self, model: nn.Module, loader: Loader, splitting: Splitting, *, steps_per_epoch: int, rank: int | None) -> None:
        self._model = model
        self._loader = loader
        self._splitting = splitting
        self._steps_per_epoch = steps_per_epoch
        self._rank = rank

    def find(self, error: BaseException, batch: Batch, before: Batch | None, objective: str) -> InstepError | None:
        """What to raise for an error in the update of this batch; None for the error itself. `before` is the batch before it."""
        if isinstance(error, NonFiniteLoss | NonFiniteGradient):
            return self._find_samples(error, batch, before, objective)
        explained = self._splitting.explain(error, batch)
        return None if explained is None else self.place(explained, batch, objective)

    def place(self, explained: OutOfMemory, batch: Batch, objective: str) -> OutOfMemory:
        """The same error with step and batch."""
        placed = OutOfMemory(f"{self._where(batch, objective)}: {explained}")
        placed.__cause__ = explained.__cause__
        return placed

    def _find_samples(
        self, error: NonFiniteLoss | NonFiniteGradient, batch: Batch, before: Batch | None, objective: str
    ) -> InstepError:
        """The same error with its samples; those of the batch before where it was noticed one update late."""
        if isinstance(error, NonFiniteLoss) and error.late and before is not None:
            batch = before
        broken = [name for name, p in self._model.named_parameters() if not torch.isfinite(p).all()]
        holder = "The batch" if self._rank is None else f"Rank {self._rank}"
        is_elsewhere = isinstance(error, NonFiniteLoss) and error.elsewhere
        samples = "" if is_elsewhere else _list_indices(self._loader.origin(batch.indices))
        return type(error)(
            f"{self._where(batch, objective)}: {error}"
            + (f" {holder} has the samples {samples}." if samples else "")
            + (f" Weights that are not finite: {', '.join(broken[:8])}; an update before spoilt them." if broken else "")
        )

    def _where(self, batch: Batch, objective: str) -> str:
        step = batch.epoch * self._steps_per_epoch + batch.index
        return f"step {step} (epoch {batch.epoch}, batch {batch.index}{f', objective {objective}' if objective else ''})"


def _list_indices(indices: Tensor) -> str:
    """The first and last of many indices; all of a few."""
    shown = [str(index) for index in indices.tolist()]
    return ", ".join(shown if len(shown) <= 64 else [*shown[:60], "…", *shown[-2:]])
