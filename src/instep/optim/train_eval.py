"""Modes: optimizers with a train and an eval mode of their own, like the schedule-free ones. In eval mode the model has the
weights that are meant to be used, in train mode those that gradients are taken at.

Switching computes one from the other and rounds. So that looking at a model changes nothing, the weights of the train mode are
kept while it is in eval mode, and put back bit for bit.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor
from torch.optim import Optimizer


class _WithModes(Protocol):
    def train(self) -> object: ...
    def eval(self) -> object: ...


class Modes:
    """The modes of those among the optimizers that have them; for all others everything here does nothing."""

    def __init__(self, optimizers: Iterable[Optimizer]) -> None:
        self._optimizers = [optimizer for optimizer in optimizers if has_modes(optimizer)]
        self._with_modes = cast(list[_WithModes], self._optimizers)
        self._mode: Literal["as given", "train", "eval"] = "as given"
        self._kept: list[Tensor] = []  # the weights of the train mode, while in eval mode

    @property
    def any(self) -> bool:
        return bool(self._optimizers)

    def train(self) -> None:
        """Before updates."""
        for optimizer in self._with_modes:
            optimizer.train()
        if self._mode == "eval":
            _assign(self._parameters()[: len(self._kept)], self._kept)  # a group that joined since stands behind them
        self._mode, self._kept = "train", []

    def eval(self) -> None:
        """Before the model is looked at, or left to its user."""
        if self._mode == "train":
            self._kept = [p.detach().clone() for p in self._parameters()]
            for optimizer in self._with_modes:
                optimizer.eval()
            self._mode = "eval"

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Eval mode inside; afterwards the mode from before."""
        before = self._mode
        self.eval()
        try:
            yield
        finally:
            if before == "train":
                self.train()

    @contextmanager
    def training(self) -> Iterator[None]:
        """Train mode inside, where the run has begun; afterwards the mode from before."""
        before = self._mode
        if before == "eval":
            self.train()
        try:
            yield
        finally:
            if before == "eval":
                self.eval()

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """The model gets other weights inside, those that are meant to be used; the train mode's follow from them."""
        before = self._mode
        self.eval()
        yield
        if before != "as given":
            self._mode = "as given"  # forget what was kept
            self.train()
            if before == "eval":
                self.eval()

    def state_dict(self) -> dict[str, Any]:
        return {"mode": self._mode, "kept": self._kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._mode, self._kept = state["mode"], state["kept"]

    def _parameters(self) -> list[Tensor]:
        return [p for optimizer in self._optimizers for group in optimizer.param_groups for p in group["params"]]


def has_modes(optimizer: Optimizer) -> bool:
    """Whether an optimizer of another make has modes; torch's own have none."""
    return all(callable(getattr(optimizer, name, None)) for name in ("train", "eval"))


@torch.no_grad()
def _assign(parameters: list[Tensor], values: list[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)
