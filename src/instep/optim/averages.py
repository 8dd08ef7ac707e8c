"""Averages: the averages of the weights that a run keeps beside its model, by name, and after which updates each takes them in.

"ema" is the moving average over all updates; "swa" the plain mean of the weights at the end of epochs, from one of them on.
Before that the weights of "swa" are the model's own.
"""

from torch import nn

from instep.errors import DescriptionError
from instep.optim.average import Average
from instep.optim.which_weights import Weights
from instep.records import record_class


@record_class
class Averages:
    """The averages of a run. `swa_start` and `swa_every` count updates."""

    ema: Average | None = None
    swa: Average | None = None
    swa_start: int = 0
    swa_every: int = 1

    def by_name(self) -> dict[Weights, Average]:
        """Those that there are."""
        found: dict[Weights, Average | None] = {"ema": self.ema, "swa": self.swa}
        return {name: average for name, average in found.items() if average is not None}

    def modules(self) -> list[nn.Module]:
        """The averaged models."""
        return [average.module for average in self.by_name().values()]

    def have_begun(self, name: Weights) -> bool:
        """Whether the weights of this name are others than the model's own."""
        return name == "ema" or (name == "swa" and self.swa is not None and self.swa.count > 0)

    def update(self, step: int, *, is_skipped: bool) -> None:
        """After an update, when `step` updates are made; one that was skipped has left the weights as they were."""
        if self.ema is not None and not is_skipped:
            self.ema.update()
        if self.swa is not None and step > self.swa_start and step % self.swa_every == 0:
            self.swa.update()

    def notes(self, total_steps: int) -> list[str]:
        """What the plan of a run of so many updates should say."""
        notes = [] if self.ema is None else self.ema.notes(total_steps)
        taken = self.taken(total_steps)
        if self.swa is not None and taken == 1:
            notes.append("swa= takes in the weights once in this run, so its average is those weights; begin earlier for a mean.")
        return notes

    def taken(self, total_steps: int) -> int:
        """How often a run of so many updates takes in the weights for "swa"."""
        return max(0, total_steps // self.swa_every - self.swa_start // self.swa_every)

    def require_some(self, total_steps: int) -> None:
        """Raises where a run of so many updates would end before its weights are averaged."""
        if self.swa is not None and total_steps and not self.taken(total_steps):
            raise DescriptionError(
                f"swa= averages nothing: it begins after update {self.swa_start:,} and takes in the weights every "
                f"{self.swa_every:,} updates, and the run has {total_steps:,}; begin earlier, or say swa_every= a smaller number."
            )
