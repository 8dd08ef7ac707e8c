"""Plateau: the learning rate falls when the monitored value no longer improves. It goes by evaluations, so it has a state."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor
from torch.optim import Optimizer

from instep.errors import DescriptionError

Mode = Literal["min", "max"]


@dataclass(frozen=True)
class Plateau:
    """Times `factor` after more than `patience` evaluations in a row without an improvement, but never below `min_lr`.

        Trainer(model, …, valid=0.1, schedule=Plateau(factor=0.5, patience=3))

    Better is what the run's monitor takes for better; `mode` says it for a loop of your own. A value is an improvement where it
    is better than the best by more than `min_delta`, a share of the best (an amount, where `relative=False`). After a fall
    `cooldown` evaluations are not counted. The learning rates are those of torch's ReduceLROnPlateau (with eps=0), but that a
    share of a best below 0 goes the right way, and that groups may join later.

    >>> Plateau().improves(0.30, best=0.31, mode="min")
    True
    """

    factor: float = 0.1
    patience: int = 10
    min_delta: float = 1e-4
    relative: bool = True
    cooldown: int = 0
    min_lr: float = 0.0
    mode: Literal["auto"] | Mode = "auto"

    def __post_init__(self) -> None:
        if not 0 < self.factor < 1:
            raise DescriptionError(f"factor={self.factor} does not lower a learning rate; use a number between 0 and 1.")
        for name in ("patience", "cooldown"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise DescriptionError(f"{name}={value!r} is no number of evaluations; use a whole number from 0 on.")
        for name in ("min_delta", "min_lr"):
            if not 0 <= getattr(self, name) < math.inf:
                raise DescriptionError(f"{name}={getattr(self, name)} makes no sense; use 0 or a number above it.")
        if self.mode not in ("auto", *get_args(Mode)):
            raise DescriptionError(f'mode={self.mode!r} is not known; use "min", "max", or "auto" for what the monitor says.')

    def improves(self, value: float, best: float | None, mode: Mode) -> bool:
        """Whether a value is better than the best by more than `min_delta`; nan never is."""
        lower = mode == "min"
        if best is None:
            return value < math.inf if lower else value > -math.inf
        if self.relative:
            limit = best * (1 - self.min_delta if lower == (best >= 0) else 1 + self.min_delta)
        else:
            limit = best - self.min_delta if lower else best + self.min_delta
        return value < limit if lower else value > limit


class PlateauDrive:
    """Lowers the learning rates of an optimizer after evaluations; what they are is in the groups, and goes with them."""

    notes: tuple[str, ...] = ()
    needs_monitor = True
    momentum: float | None = None

    def __init__(self, plateau: Plateau, optimizer: Optimizer) -> None:
        self._plateau, self._optimizer = plateau, optimizer
        self.monitor_mode: Mode | None = None if plateau.mode == "auto" else plateau.mode
        self._best: float | None = None
        self._waited = 0  # evaluations since the last improvement
        self._cooling = 0  # evaluations that are still not counted

    def follow(self, mode: Mode) -> None:
        """Take for better what the run's monitor does, unless the schedule says itself."""
        self.monitor_mode = self.monitor_mode or mode

    def before_update(self, position: int) -> None:
        """Nothing: the values are in the groups."""

    def after_update(self) -> None:
        """Nothing."""

    def after_epoch(self) -> None:
        """Nothing."""

    def after_evaluation(self, monitored: float) -> None:
        """Takes in the monitored value; lowers the learning rates where it has waited long enough."""
        if self._plateau.improves(monitored, self._best, self.monitor_mode or "min"):
            self._best, self._waited = monitored, 0
        else:
            self._waited += 1
        if self._cooling:
            self._cooling -= 1
            self._waited = 0
        if self._waited > self._plateau.patience:
            self._lower()
            self._cooling, self._waited = self._plateau.cooldown, 0

    def _lower(self) -> None:
        for group in self._optimizer.param_groups:
            lower = max(float(group["lr"]) * self._plateau.factor, self._plateau.min_lr)
            lower = min(lower, float(group["lr"]))  # a group that is below min_lr stays there
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lower)
            else:
                group["lr"] = lower

    def state_dict(self) -> dict[str, Any]:
        """The best value, and how long it has waited."""
        return {"best": self._best, "waited": self._waited, "cooling": self._cooling}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts the schedule where it was when `state` was saved."""
        if state.keys() != self.state_dict().keys():
            raise DescriptionError("schedule= is a Plateau, and there is no state of one to go on from; start a new run.")
        self._best, self._waited, self._cooling = state["best"], state["waited"], state["cooling"]
