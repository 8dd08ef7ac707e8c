"""Tallies of update cycles: of each optimizer, and of each line that backwards come from."""

from collections import Counter, deque
from dataclasses import field

from instep.doctor.records import record_class
from instep.doctor.tallies import Tally
from instep.doctor.watch.backwards import Backward


@record_class
class Cycles(Tally):
    """The update cycles of one optimizer."""

    sizes: Counter[int] = field(default_factory=Counter)  # unused backwards that a step's gradients held -> steps
    plain_sizes: Counter[int] = field(default_factory=Counter)  # of those that do not begin with what an epoch has left over
    # (its step, size) where the size is another than before, or steps in between were not watched
    runs: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=128))
    last_step: int = -2  # its last step that was noted
    fresh: tuple[Backward, ...] = ()  # the backwards that it used
    undivided: int = 0  # steps on several micro-batches and nothing else, whose backwards began at a mean, undivided
    by_hand: int = 0  # of the sampled steps: the gradients were written by hand after the backward
    halved: int = 0  # of the sampled steps: the gradients were divided by the number of backwards
    sampled: int = 0
    compared: int = 0  # used gradients that were still there at the next backward and were looked at
    altered: int = 0  # of those: written to in between, as when they are made to fade
    lost: int = 0  # steps that found nothing, since all had been cleared after the last backward
    early: int = 0  # steps that found nothing, while a root call waited for its backward
    clear_site: str | None = None  # of the clearing before the last lost step
    backward_site: str | None = None  # of the last backward before that
    sites: Counter[str | None] = field(default_factory=Counter)  # of the backwards in its cycles
    mixed: int = 0  # steps whose gradients hold backwards of several lines, or of losses that reach other parameters
    mixed_sites: tuple[str | None, ...] = ()
    tails: deque[tuple[int, int]] = field(
        default_factory=lambda: deque(maxlen=64)
    )  # at ends of passes: (left over, size of the step, or 0)
    passes: int = 0  # ends of passes with backwards for it
    # without a loader: (steps of all optimizers, backwards) that were cleared unused between two of its cycles
    drops: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=64))

    def add_size(self, step: int, size: int) -> None:
        """Note how many backwards a step of the optimizer used."""
        self.sizes[size] += 1
        if step != self.last_step + 1 or not self.runs or self.runs[-1][1] != size:
            self.runs.append((step, size))
        self.last_step = step


@record_class
class BackwardPlace(Tally):
    """All backwards from one line, by what became of them."""

    site: str | None
    count: int = 0
    leaf: int = 0  # started at a single number without graph, which is no parameter
    barren: int = 0  # reached no parameter
    means: int = 0  # started at a mean that is not divided
    used: int = 0  # a step used them
    thrown: int = 0  # cleared unused, before a backward on another batch
    repeated: int = 0  # cleared unused by a call, before another backward of this line on the same batch
    moved: int = 0  # cleared when the weights had moved without a step: used by hand
    clear_site: str | None = None
    first_thrown: int = 0
    first_step: int = 0
