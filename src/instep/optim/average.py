"""Average: a moving average of a model's weights, or their plain mean, kept beside it on torch's AveragedModel.

Owns which buffers are averaged: the running statistics of batch norms are, like the weights they belong to. Copied as they are,
which is AveragedModel's default, they were 5 to 80 % away from those of the averaged model; averaged, about 1 % where the run is
longer than a few windows. All other buffers are copied: an average of a mask with -inf in it would be nan.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from instep.errors import DescriptionError
from instep.optim.freeze import is_frozen
from instep.records import SavedTensors

_STATISTICS = ("running_mean", "running_var")
FADED = 0.01  # the share of the first weights in a moving average from which on its own statistics fit


class Average:
    """The moving average W ← decay·W + (1 - decay)·w over the updates of a model, starting from the first.

        average = Average(model, decay=0.999)
        for batch in batches:
            …
            optimizer.step()
            average.update()
        with evaluating(average.module):
            …

    `module` is a copy of the model in eval mode that takes no gradients. It costs the memory of one more model; an update takes
    one pass over the weights and does not wait for the device.

    `decay=None` is the plain mean over all updates: that of stochastic weight averaging.
    """

    def __init__(self, model: nn.Module, decay: float | None = 0.999) -> None:
        if decay is not None and (isinstance(decay, bool) or not isinstance(decay, int | float) or not 0 < decay < 1):
            raise DescriptionError(
                f"decay={decay!r} is no share of the average to keep; use a number between 0 and 1, like 0.999."
            )
        _require_precision(model)
        self.decay = decay
        self._model = model
        self._averaged = _copied(model, decay)
        self._statistics = [b for name, b in self.module.named_buffers() if name.rpartition(".")[2] in _STATISTICS]

    @property
    def module(self) -> nn.Module:
        """The averaged model; its tensors stay the same ones."""
        return self._averaged.module

    @property
    def count(self) -> int:
        """How many updates have been averaged."""
        return int(self._averaged.n_averaged)

    @property
    def has_own_statistics(self) -> bool:
        """Whether the averaged batch norm statistics fit the averaged weights: while the first weights still count, and for a
        plain mean of weights that are far from each other, they are better taken anew from data."""
        return self.decay is not None and self.decay**self.count < FADED

    @torch.no_grad()
    def update(self) -> None:
        """Take in the model as it is now: after each step."""
        share = 1 / (self.count + 1) if self.decay is None else 1 - self.decay  # of what is taken in
        before = [statistic.clone() for statistic in self._statistics] if self.count else []
        self._averaged.update_parameters(self._model)  # copies all buffers
        if before:
            torch._foreach_lerp_(before, self._statistics, share)
            torch._foreach_copy_(self._statistics, before)

    @contextmanager
    def recomputed(self, batches: Iterable[Any], forward: Callable[[nn.Module, Any], Any]) -> Iterator[nn.Module]:
        """The averaged model with batch norm statistics computed from `batches`; afterwards it has its own again.

        For runs that are not much longer than the window of the average. Each batch goes through `forward(module, batch)` once,
        with batch norms alone in train mode: dropout is off, no random number is drawn. Frozen batch norms keep theirs.
        """
        kept = SavedTensors(self.module.buffers())
        try:
            self._recompute(batches, forward)
            yield self.module
        finally:
            kept.put_back()

    def notes(self, total_steps: int) -> list[str]:
        """What the plan of a run of `total_steps` updates should say."""
        share = 0.0 if self.decay is None else self.decay ** max(0, total_steps - 1)
        if self.decay is None or share < FADED:
            return []
        return [
            f"ema={self.decay:g} goes back about {round(1 / (1 - self.decay)):,} updates, and the run has {total_steps:,}: at "
            f"its end the first weights still count {share:.0%}. ema={_fitting(total_steps, below=self.decay):g} would fit."
        ]

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors of the average by name, the count among them; not copied."""
        state: dict[str, Tensor] = self._averaged.state_dict()
        return dict(state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state: the next update is the one that it would have been."""
        try:
            self._averaged.load_state_dict(dict(state))
        except RuntimeError as error:
            raise DescriptionError(f"the state of the average does not fit this model: {error}") from error

    @torch.no_grad()
    def _recompute(self, batches: Iterable[Any], forward: Callable[[nn.Module, Any], Any]) -> None:
        norms = self._moving_norms()
        momenta = [norm.momentum for norm in norms]
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # the plain mean over the batches
                norm.training = True
            for batch in batches if norms else ():
                forward(self.module, batch)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum
                norm.training = False

    def _moving_norms(self) -> list[_BatchNorm]:
        """The batch norms of the average whose statistics move in the model."""
        pairs = zip(self._model.modules(), self.module.modules(), strict=True)
        return [
            norm
            for original, norm in pairs
            if isinstance(norm, _BatchNorm)
            and norm.track_running_stats
            and not is_frozen(original)
            and (original.training or not self._model.training)
        ]


def _fitting(total_steps: int, *, below: float) -> float:
    """The roundest decay, near the largest, with which the first weights count less than 1 % at the end of a run."""
    largest: float = 0.01 ** (1 / max(1, total_steps - 1))
    for digits in range(2, 16):
        fitting: float = (math.ceil(largest * 10**digits) - 1) / 10**digits
        if 0 < fitting < below and 1 - fitting < 2 * (1 - largest):
            return fitting
    return largest / 2


def _copied(model: nn.Module, decay: float | None) -> AveragedModel:
    average = get_swa_multi_avg_fn() if decay is None else get_ema_multi_avg_fn(decay)
    try:
        averaged = AveragedModel(model, multi_avg_fn=average)
    except (RuntimeError, TypeError) as error:
        raise DescriptionError(f"{type(model).__name__} cannot be copied to keep an average of it: {error}") from error
    averaged.requires_grad_(False)
    averaged.eval()
    return averaged


def _require_precision(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and parameter.element_size() < 4:
            raise DescriptionError(
                f"{name} is {str(parameter.dtype).removeprefix('torch.')}, too coarse for an average that moves by a thousandth "
                "a step; keep the model in float32 (and compute in half precision by autocast)."
            )
