"""OneCycle: one rise and one fall of the learning rate over the whole run, and of the momentum the other way round.

The same numbers as torch.optim.lr_scheduler.OneCycleLR, bit for bit, but from the position alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from instep.errors import DescriptionError
from instep.schedules.schedule import Curve, Group, Schedule, starting_lr
from instep.text import plural

Anneal = Literal["cos", "linear"]


@dataclass(frozen=True)
class OneCycle(Schedule):
    """The one-cycle policy: from `max_lr / div_factor` up to `max_lr`, and down to that start divided by `final_div_factor`.

        Trainer(model, …, schedule=OneCycle(max_lr=0.003))

    `max_lr` is the peak, and the cycle overwrites the optimizer's lr. Groups that were made with different learning rates keep
    their ratios: the one with the largest peaks at `max_lr`, the others below (torch gives all the same). A list gives each group
    its own peak. A group that joins later peaks in its ratio to the largest of those that were there.
    `pct_start` is the share of the run that rises; `three_phase` falls to the start as fast as it rose, then on to the end.
    `momentum` is (lowest, highest), the lowest at the peak. It goes into `momentum` or the first of `betas`, whichever the
    optimizer has, and as in torch also where that was 0; None leaves it alone.

    Past the end the last value stays. A run of one update makes it at `max_lr`, where torch's cycle would be at its end already.

    >>> curve = OneCycle(max_lr=1.0).curve(total=10, base=1.0)
    >>> [round(curve(position), 2) for position in range(10)]
    [0.04, 0.52, 1.0, 0.95, 0.81, 0.61, 0.39, 0.19, 0.05, 0.0]
    """

    max_lr: float | Sequence[float]
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4
    anneal: Anneal = "cos"
    three_phase: bool = False
    momentum: tuple[float, float] | None = (0.85, 0.95)

    def __post_init__(self) -> None:
        _check_max_lr(self.max_lr)
        if isinstance(self.max_lr, Sequence):
            object.__setattr__(self, "max_lr", tuple(self.max_lr))  # nobody can change it any more, and it can be compared
        if not 0 < self.pct_start < 1:
            raise DescriptionError(f"pct_start={self.pct_start} is no share of a run; use one between 0 and 1, such as 0.3.")
        if not self.div_factor > 1:
            raise DescriptionError(
                f"div_factor={self.div_factor} puts max_lr={self.max_lr} not above the start, max_lr / div_factor; "
                "use a number above 1, such as 25."
            )
        if not self.final_div_factor > 0:
            raise DescriptionError(
                f"final_div_factor={self.final_div_factor} gives no last learning rate, max_lr / div_factor / final_div_factor; "
                "use a number above 0, such as 1e4."
            )
        if self.anneal not in get_args(Anneal):
            raise DescriptionError(f'anneal={self.anneal!r} is not known; use "cos" or "linear".')
        if self.momentum is not None:
            _check_momentum(self.momentum)

    @property
    def default_base(self) -> float:
        """The highest `max_lr`."""
        return max(self.max_lr) if isinstance(self.max_lr, Sequence) else self.max_lr

    def bases(self, starts: Sequence[float]) -> Sequence[float]:
        """The peak of each group."""
        if not isinstance(self.max_lr, Sequence):
            largest = max(starts)
            return [self.max_lr * (start / largest) if largest else self.max_lr for start in starts]
        if len(self.max_lr) != len(starts):
            raise DescriptionError(
                f"max_lr={list(self.max_lr)} has {plural(len(self.max_lr), 'value')} and the optimizer "
                f"{plural(len(starts), 'parameter group')}; "
                "give one value for each group, or one number for all."
            )
        return list(self.max_lr)

    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position, for a group that peaks at `base`."""
        start = base / self.div_factor
        end = start / self.final_div_factor
        return self._through([start, base, start, end] if self.three_phase else [start, base, end], total)

    def momentum_curve(self, total: int) -> Curve | None:
        """The momentum by position: highest at both ends, lowest at the peak."""
        if self.momentum is None:
            return None
        low, high = self.momentum
        return self._through([high, low, high, high] if self.three_phase else [high, low, high], total)

    def _through(self, values: Sequence[float], total: int) -> Curve:
        if total == 1:
            return lambda position: values[1]
        return through(values, ends(total, self.pct_start, self.three_phase), self.anneal)

    def notes(self, groups: Sequence[Group], total: int) -> list[str]:
        """That the optimizer's lr is overwritten, its momentum switched on, or a phase has no room."""
        said = []
        peaks = self.bases([starting_lr(group) for group in groups])
        given, peak = max((float(group["lr"]), peak) for group, peak in zip(groups, peaks, strict=True))
        start = peak / self.div_factor
        if given != start:
            goes = f"{start:g} → {peak:g} → {start / self.final_div_factor:g}"
            low = f" max_lr={peak:g} is not above it, so no update is larger than with that lr." if peak <= given else ""
            said.append(f"OneCycle overwrites the optimizer's lr={given:g}: it goes {goes}.{low}")
        if self.momentum is not None and any("betas" not in group and group.get("momentum") == 0 for group in groups):
            said.append(f"OneCycle switches the optimizer's momentum on, 0 → {self.momentum}; momentum=None leaves it alone.")
        if self.pct_start * total <= 1:
            said.append(f"OneCycle has no room to rise: pct_start={self.pct_start} of {total} updates is not more than one.")
        elif self.three_phase and 2 * self.pct_start * total - 2 >= total - 1:
            said.append(f"OneCycle never comes to its third phase: pct_start={self.pct_start} is not below a half.")
        return said


def ends(total: int, pct_start: float, three_phase: bool) -> list[float]:
    """The positions at which the phases end: at the peak, back at the start (with `three_phase` only), and at the last update.

    They are no whole numbers, and the peak lies before position 0 where pct_start · total < 1.
    """
    peak = pct_start * total - 1
    return [peak, 2 * pct_start * total - 2, total - 1] if three_phase else [peak, total - 1]


def through(values: Sequence[float], ends: Sequence[float], anneal: Anneal) -> Curve:
    """From values[0] to values[1] until position ends[0], from there to values[2] until ends[1], and so on; then it stays.

    The order of operations is torch's, so that the last bit is the same.
    """
    begins = [0.0, *ends[:-1]]
    phases = list(zip(begins, ends, values[:-1], values[1:], strict=True))
    last, wave, half_turn = ends[-1], anneal == "cos", math.pi
    cos = math.cos

    def at(position: int) -> float:
        now = position if position < last else last
        for begin, end, start, goal in phases:  # noqa: B007  # those of the phase that it stops at
            if now <= end:
                break
        share = (now - begin) / (end - begin) if end != begin else 1.0  # a phase without length is at its goal
        if wave:
            return goal + (start - goal) / 2.0 * (cos(half_turn * share) + 1)
        return (goal - start) * share + start

    return at


def _check_max_lr(max_lr: Any) -> None:
    if isinstance(max_lr, str):  # YAML reads 1e-3 as one
        raise DescriptionError(f"max_lr={max_lr!r} is text; use a number above 0.")
    peaks = max_lr if isinstance(max_lr, Sequence) else [max_lr]
    if None in peaks:
        raise DescriptionError("max_lr=None is no learning rate; a range test without a suggestion says why in its `reason`.")
    if not peaks or not all(0 < peak < math.inf for peak in peaks):
        raise DescriptionError(f"max_lr={max_lr} is no learning rate to rise to; use a number above 0.")


def _check_momentum(momentum: Any) -> None:
    pair = isinstance(momentum, tuple | list) and len(momentum) == 2
    if not pair or not 0 <= momentum[0] <= momentum[1] < 1:
        raise DescriptionError(f"momentum={momentum} is not (lowest, highest), from 0 to below 1; use (0.85, 0.95), or None.")
