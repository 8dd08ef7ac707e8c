"""Probabilities that choices are drawn by: rows that a distribution takes for samples, and that sum to 1 over those instead.

`Categorical(probs=…)` divides every row by its sum and hides a softmax over the wrong axis.
"""

from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace

LIMIT = 64
LOOKS = 16  # of a line, one by one; then every 16th


@record_class
class Choice(Tally):
    """Distributions that are made from probabilities at one line."""

    site: str | None
    first_step: int
    calls: int = 0
    looked: int = 0
    columns: int = 0  # of those: the probabilities sum to 1 over the samples, and not over the choices


@part_class
class Choices:
    """The part of the trace about choices."""

    all: dict[str | None, Choice] = field(default_factory=dict)


class ChoiceWatch:
    """Fills `Choices`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub, self._part = trace, hub, trace.part(Choices)

    def before_choice(self, called: Called) -> None:
        given: Any = called.argument(1, "probs")
        if not isinstance(given, Tensor) or given.dim() != 2 or not given.is_floating_point() or given.device.type == "meta":
            return
        rows, columns = given.shape
        if min(rows, columns) < 2 or rows == columns:
            return
        choice = self._part.all.get(called.site)
        if choice is None:
            choice = Choice(called.site, self._trace.steps)
            if len(self._part.all) < LIMIT:
                self._part.all[called.site] = choice
        choice.calls += 1
        if choice.calls <= LOOKS or choice.calls % 16 == 0:
            numbers = given.detach().float()
            by_sample, by_choice = ((numbers.sum(axis) - 1).abs() for axis in (0, 1))
            facts = torch.stack([numbers.min(), by_sample.max(), (by_choice > 0.05).float().mean()])
            self._hub.read(facts, partial(_note, choice))


def _note(choice: Choice, values: list[float]) -> None:
    lowest, apart, rows = values
    choice.looked += 1
    choice.columns += lowest >= 0 and apart < 1e-3 and rows > 0.5


PATCHES = [Patch("choice", ("torch.distributions.categorical:Categorical.__init__",))]
OBSERVERS = [ChoiceWatch]
