"""Where an update went wrong, for a person who has to find the sample."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from instep import keys
from instep.data.loading.loader import Batch, Loader
from instep.errors import InstepError, NonFiniteGradient, NonFiniteLoss, ObjectiveError, OutOfMemory
from instep.loop.evaluate import evaluating
from instep.loop.objective import Objective, as_loss
from instep.loop.out_of_memory import Splitting
from instep.loop.torch_errors import explain
from instep.text import listed, plural

# Which sample it was is looked for after an error; until then nothing of it is loaded.
if TYPE_CHECKING:
    from instep.loop.nonfinite import BadValues

Placed = TypeVar("Placed", OutOfMemory, ObjectiveError)


class ErrorPlace:
    """Puts the step, the batch and its samples into the errors of one run's updates. `rank` is None in a run of one process."""

    def __init__(self, model: nn.Module, loader: Loader, splitting: Splitting, *, steps_per_epoch: int, rank: int | None) -> None:
        self._model = model
        self._loader = loader
        self._splitting = splitting
        self._steps_per_epoch = steps_per_epoch
        self._rank = rank

    def find(self, error: BaseException, batch: Batch, objective: str, compute: Objective) -> InstepError | None:
        """What to raise for an error in the update of this batch; None for the error itself. `compute` is the named objective."""
        if isinstance(error, NonFiniteLoss | NonFiniteGradient):
            return self._find_samples(error, batch, objective, compute)
        if isinstance(error, ObjectiveError):
            return None if error.row is None else self._place_row(error, error.row, batch, objective)
        explained = self._splitting.explain(error, batch)
        if explained is not None:
            return self.place(explained, batch, objective)
        in_words = explain(error, self._model, batch.data)
        return None if in_words is None else self._placed(in_words, batch, objective)

    def find_late(self, error: NonFiniteLoss, last: Batch, every: int, objective: str) -> NonFiniteLoss:
        """What to raise where an accelerator's flags were read after the update of the batch `last`, and one of them is set."""
        after = error.late - 1
        batch = self._earlier(last, after * every)
        followed = f"; {plural(after, 'update')} followed before anybody looked" if after else ""
        samples = "" if batch.data is None else self.name_values(batch) or self._name_all(batch)
        return NonFiniteLoss(
            f"{self._where(batch, objective)}: the loss or a gradient is not finite, and its step was made{followed}. Go back "
            f'to a checkpoint, or use on_nonfinite="skip", which waits for the device once an update.{samples}',
            late=error.late,
            step=self._step(batch),
        )

    def _earlier(self, batch: Batch, updates: int) -> Batch:
        """The batch so many updates before this one; without its data where that can be read only once."""
        if not updates:
            return batch
        epoch, index = divmod(batch.epoch * self._steps_per_epoch + batch.index - updates, self._steps_per_epoch)
        if self._loader.is_stream:
            return batch._replace(epoch=epoch, index=index, data=None)
        return next(iter(self._loader.batches(epoch, index)))

    def place(self, explained: OutOfMemory, batch: Batch, objective: str) -> OutOfMemory:
        """The same error with step and batch."""
        return self._placed(explained, batch, objective)

    def _placed(self, explained: Placed, batch: Batch, objective: str) -> Placed:
        placed = type(explained)(f"{self._where(batch, objective)}: {explained}")
        placed.__cause__ = explained.__cause__
        return placed

    def _place_row(self, error: ObjectiveError, row: int, batch: Batch, objective: str) -> ObjectiveError:
        """The same error with its sample; `row` counts in the whole batch, of which this process may have a part."""
        spans = self._splitting.micro_batches.plan.spans(batch.samples)
        named = ObjectiveError(f"{self._sample(batch, row - spans[0][0])}: {error}")
        named.__cause__ = error.__cause__
        return self._placed(named, batch, objective)

    def _find_samples(
        self,
        error: NonFiniteLoss | NonFiniteGradient,
        batch: Batch,
        objective: str,
        compute: Objective,
    ) -> InstepError:
        """The same error with its samples."""
        broken = [name for name, p in self._model.named_parameters() if not torch.isfinite(p).all()]
        is_elsewhere = isinstance(error, NonFiniteLoss) and error.elsewhere
        samples = ""
        if not is_elsewhere:
            may_compute = isinstance(error, NonFiniteLoss) and not broken and self._rank is None
            samples = self.name_values(batch) or (may_compute and self._name_by_loss(batch, compute)) or self._name_all(batch)
        return type(error)(
            f"{self._where(batch, objective)}: {self._of_batch(error, batch)}{samples}"
            + (f" Weights that are not finite: {', '.join(broken[:8])}; an update before spoilt them." if broken else ""),
            step=self._step(batch),
        )

    def _of_batch(self, error: InstepError, batch: Batch) -> str:
        """What the error says; where the batch is not split, without the number of its only micro-batch."""
        is_split = len(self._splitting.micro_batches.plan.spans(batch.samples)) > 1
        return str(error) if is_split else str(error).replace("the loss of micro-batch 1 is", "the loss is", 1)

    def name_values(self, batch: Batch) -> str:
        """The samples that hold a number that is not finite: all of a few, else the first."""
        from instep.loop.nonfinite import MOST, bad_values

        found = bad_values(batch.data, self._loader.layout)
        if not found:
            return ""
        rows = {bad.row for bad in found}
        if len(rows) <= MOST:
            return f" {_begin('; '.join(self._in_words(bad, batch) for bad in found))}."
        many = f" {len(rows)} of the {len(batch.indices)} samples hold such values; {self._in_words(found[0], batch)}."
        return self._name_all(batch) + many

    def _in_words(self, bad: "BadValues", batch: Batch) -> str:
        names: Sequence[str] = self._loader.feature_names() if bad.column == "0" else ()
        return f"{self._sample(batch, bad.row)}: {bad.in_words(names)}"

    def _name_by_loss(self, batch: Batch, compute: Objective) -> str:
        """The samples whose own loss is not finite, found by going through the model again; nothing where that does not work."""
        from instep.loop.nonfinite import bisect, own_losses

        device = next((p.device for p in self._model.parameters()), None)

        def loss_of(data: Any) -> Tensor:
            return as_loss(compute(self._model, data), data).value

        try:
            with keys.fork_rng(device), evaluating(self._model):
                rows = bisect(len(batch.indices), own_losses(batch.data, loss_of, self._loader.layout))
        except Exception:  # whatever a user's code raises on a piece of a batch, the run has stopped for another reason
            return ""
        if not rows:
            return ""
        named = listed(self._sample(batch, row) for row in rows)
        return f" {_begin(named)} {'has' if len(rows) == 1 else 'have'} a loss of nan or inf alone; the values are finite."

    def _name_all(self, batch: Batch) -> str:
        holder = "The batch" if self._rank is None else f"Rank {self._rank}"
        samples = _list_indices(self._loader.origin(batch.indices))
        return f" {holder} has the samples {samples}." if samples else ""

    def _sample(self, batch: Batch, row: int) -> str:
        return f"sample {int(self._loader.origin(batch.indices)[row])} of {self._loader.name}"

    def _step(self, batch: Batch) -> int:
        return batch.epoch * self._steps_per_epoch + batch.index

    def _where(self, batch: Batch, objective: str) -> str:
        of = f", objective {objective}" if objective else ""
        return f"step {self._step(batch)} (epoch {batch.epoch}, batch {batch.index}{of})"


def _begin(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _list_indices(indices: Tensor) -> str:
    """The first and last of many indices; all of a few."""
    shown = [str(index) for index in indices.tolist()]
    return ", ".join(shown if len(shown) <= 64 else [*shown[:60], "…", *shown[-2:]])
