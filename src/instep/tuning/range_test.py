"""The range test: which learning rate to train with. `find_lr` makes it on a run, without a trace; `RangeTest` is its result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instep.errors import DescriptionError
from instep.loop.batch_plan import require_whole
from instep.text import coloured, plain
from instep.tuning.curve import Curve, merged
from instep.tuning.recommendation import Recommendation, recommend, rules_of
from instep.tuning.rehearsal import Rehearsal, require_one_optimizer
from instep.tuning.snapshot import untouched
from instep.tuning.sweep import BEFORE, Growth, Mode, sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from instep.drawing.chart import Chart


@dataclass(frozen=True)
class RangeTest:
    """The loss at growing learning rates, what each rule suggests, and the suggestion that is recommended.

        test = trainer.find_lr()
        print(test)                     # the curve, the rules and the reason, as text
        test.suggestion                 # for OneCycle(max_lr=…); None where the curve allows none, and `reason` says why
        test.plot()                     # with matplotlib; a notebook draws it without
        test.save("range.svg")

    `lrs[i]` is the learning rate of the group with the largest one, `losses[i]` the loss after the update at it: the mean over
    `sweeps`, which are the same test on other batches.

    >>> sweep = Curve(before=(2.0, 2.0, 2.0), lrs=(0.01, 0.02, 0.04, 0.08, 0.16), losses=(1.9, 1.0, 0.5, 0.5, 4.0), smoothing=0.0)
    >>> RangeTest((sweep, sweep)).reason
    'the loss falls from 2 to 0.5 at lr 0.04 and has risen at lr 0.16; this is that divided by 3.'
    """

    sweeps: tuple[Curve, ...]

    @cached_property
    def curve(self) -> Curve:
        """The mean of the sweeps."""
        return merged(self.sweeps)

    @property
    def lrs(self) -> tuple[float, ...]:
        return self.curve.lrs

    @property
    def losses(self) -> tuple[float, ...]:
        return self.curve.losses

    @property
    def smoothed(self) -> tuple[float, ...]:
        """The losses, averaged with their neighbours on both sides, and cut off where they have diverged."""
        return tuple(self.curve.smoothed)

    @cached_property
    def rules(self) -> Mapping[str, float | None]:
        """What each rule says; None where it does not apply."""
        return rules_of(self.curve)

    @cached_property
    def recommendation(self) -> Recommendation:
        return recommend(self.curve, self.sweeps)

    @property
    def suggestion(self) -> float | None:
        """The learning rate to use as `max_lr` of a one-cycle; None where the curve allows none."""
        return self.recommendation.suggestion

    @property
    def reason(self) -> str:
        """Why this one, or why none."""
        return self.recommendation.reason

    @property
    def confidence(self) -> float:
        """From 0 to 1: how far the rules agree with each other and the sweeps among themselves."""
        return self.recommendation.confidence

    def chart(self) -> Chart:
        """What is drawn: the sweeps, their smoothed mean, the rules, and why one of them is suggested."""
        from instep.tuning.chart import range_chart

        return range_chart(self.curve, self.sweeps, self.rules, self.recommendation)

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draws it with matplotlib, on `ax` or in a figure of its own; returns the figure."""
        from instep.drawing.figure import plot

        return plot([self.chart()], "range_test.plot()", ax=ax)

    def save(self, path: str | Path) -> Path:
        """Writes it as .svg or .json, or with matplotlib as .png or .pdf; returns the path."""
        from instep.tuning.chart import save

        return save(Path(path), self.chart(), self.to_json)

    def to_svg(self, *, background: str = "none") -> str:
        """The picture; without a background it has the page's own colours."""
        from instep.drawing.svg import draw

        return draw(self.chart(), background=background)

    def to_record(self) -> dict[str, Any]:
        """What a run keeps of it, as JSON can hold it; what is not finite is null."""
        return {
            "suggestion": self.suggestion,
            "rule": self.recommendation.rule,
            "reason": self.reason,
            "confidence": self.confidence,
            "rules": dict(self.rules),
            "lrs": self.lrs,
            "losses": _finite(self.losses),
            "smoothed": _finite(self.smoothed),
        }

    def to_json(self) -> str:
        """Everything as JSON; what is not finite is null."""
        return json.dumps({**self.to_record(), "sweeps": [_finite(curve.losses) for curve in self.sweeps]})

    def text(self, *, width: int = 80, colour: bool = False) -> str:
        """The curve, the rules and the reason."""
        from instep.tuning import textplot

        paint = coloured if colour else plain
        return textplot.draw(self.curve, self.rules, self.recommendation, width=width, paint=paint)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        found = "none" if self.suggestion is None else f"{self.suggestion:.2g}, confidence {self.confidence:.2f}"
        return f"RangeTest(suggestion {found}: {self.reason})"

    def _repr_html_(self) -> str:
        from instep.drawing.html import block, paragraph

        return block(self.to_svg(), paragraph(self.chart().caption))


def find_lr(
    run: Rehearsal,
    *,
    low: float = 1e-7,
    high: float = 10.0,
    steps: int = 100,
    mode: Mode = "exponential",
    smoothing: float = 0.6,
    stop_factor: float = 3.0,
    repeats: int = 2,
    momentum: float | None = None,
) -> RangeTest:
    """The range test on a run: real updates from where it stands, with a learning rate that grows from `low` to `high`.

    It is made `repeats` times, each on other batches, and stops early where the loss diverges (`stop_factor` times what it was,
    or not finite). Groups keep their ratios. `momentum` is written into the groups meanwhile: a one-cycle has its lowest at the
    peak, so that is what to test with. Everything is put back afterwards, also after an exception or a Ctrl-C. The result depends
    on the weights, the seed and the step only: the same test gives the same answer again.
    """
    growth = Growth(low, high, steps, mode, smoothing, stop_factor)
    require_whole("repeats", repeats, least=1)
    if momentum is not None and not 0 <= momentum < 1:
        raise DescriptionError(f"momentum={momentum} is none to test with; use a number from 0 to below 1, such as 0.85.")
    require_one_optimizer(run)
    curves = []
    for repeat in range(repeats):
        start = run.step + repeat * (BEFORE + steps + 1)  # other batches than the repeat before
        with untouched(run.model, run.optimizer, *run.stateful), closing(run.rehearse(start)) as updates:
            curves.append(sweep(updates, run.optimizer, growth, momentum=momentum))
    return RangeTest(tuple(curves))


def _finite(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
